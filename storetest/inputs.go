package storetest

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
)

// inputChecks send values that a client may choose.
var inputChecks = []check{
	{"input/strange keys are distinct", strangeKeys},
	{"input/names do not run together", noCollisions},
	{"input/huge costs", hugeCosts},
	{"input/nothing asked", nothingAsked},
}

type badRequest struct {
	name string
	r    weir.Request
}

// invalid are requests that every store refuses.
func invalid(l weir.Limit) []badRequest {
	reserve := func(id string, n int64, ttl time.Duration) weir.Request {
		return weir.Request{Verb: weir.Reserve, Key: "k", Limit: l, N: n, ID: id, TTL: ttl}
	}
	carry := take("k", l, 1)
	carry.Carry = 200
	return []badRequest{
		{"an empty key", take("", l, 1)},
		{"a key of MaxKey+1 bytes", take(strings.Repeat("k", bounds.MaxKey+1), l, 1)},
		{"a key of 1 MB", take(strings.Repeat("k", 1<<20), l, 1)},
		{"the zero limit", take("k", weir.Limit{}, 1)},
		{"a negative cost", take("k", l, -1)},
		{"the least cost", ask(weir.Charge, "k", l, math.MinInt64)},
		{"a negative return", ask(weir.Return, "k", l, -5)},
		{"an unknown verb", ask(weir.Cancel+1, "k", l, 1)},
		{"the last verb", ask(255, "k", l, 1)},
		{"an unknown carry", carry},
		{"a reservation without id", reserve("", 1, time.Second)},
		{"an id of MaxID+1 bytes", reserve(strings.Repeat("i", bounds.MaxID+1), 1, time.Second)},
		{"a reservation without ttl", reserve("i", 1, 0)},
		{"a negative ttl", reserve("i", 1, -time.Second)},
		{"a ttl below 1 µs", reserve("i", 1, time.Nanosecond)},
		{"a ttl above MaxTTL", reserve("i", 1, bounds.MaxTTL+1)},
		{"a reservation of nothing", reserve("i", 0, time.Second)},
		{"a commit without id", ask(weir.Commit, "k", l, 1)},
		{"a cancel without id", ask(weir.Cancel, "k", l, 0)},
	}
}

// strange are keys that a careless store takes for one another, or for its own
// marks.
var strange = []string{
	"a", "A", "a ", " a", " ", "a\n", "\n", "a\r\n", "\x00", "a\x00", "a\x00b", "a\x00\x00b",
	"{", "}", "{}", "{a}", "{a}b", "{b}a", "a{b}", "{{a}}", ":", "a:", ":a", "a:b", "a::b", "b:a",
	"*", "?", "[a]", "%", "%s", "%00", "\\", `\x00`, `"`, "'", "$1", "KEYS[1]", "ARGV[1]", "nil", "0", "00", "-1", "1e3",
	"\xff", "\xff\xfe", "\xc3\x28", "é", "e\u0301", "ﬀ", "😀", "😁", "👩‍👩‍👧", "\u200b", "\u202e", "日本",
	"id", "a|b", "a,b", "a;b", "a=b", "a&b", "a/b", "a//b", "../a", "a#b", "a@b", "weir", "weir:a",
	strings.Repeat("x", 255), strings.Repeat("x", 256), strings.Repeat("x", 257),
	strings.Repeat("x", bounds.MaxKey-1) + "y", strings.Repeat("x", bounds.MaxKey-1) + "z", strings.Repeat("x", bounds.MaxKey),
}

// strangeKeys gives each key a debt of its own and reads all of them back.
func strangeKeys(tb testing.TB, open Open) {
	a := open.asker(tb)
	l := hourly(1000)
	for i, key := range strange {
		if d := a.do(take(key, l, int64(i)+1)); d.Remaining != 999-int64(i) {
			tb.Errorf("key %.20q was used under another name: %+v", key, d)
		}
	}
	for i, key := range strange {
		if d := a.do(peek(key, l, 0)); d.Remaining != 999-int64(i) {
			tb.Errorf("key %.20q was used under another name: %+v, want %d remaining", key, d, 999-i)
		}
	}
}

// noCollisions asks about pairs of names that read the same when their parts
// are joined by the usual marks.
func noCollisions(tb testing.TB, open Open) {
	a := open.asker(tb)
	l, m := hourly(10), hourly(11)
	a.want(take("k", l, 10), "ok reset 1h")
	a.want(peek("k", m, 11), "ok remaining 11") // another limit, another state
	for _, mark := range []string{":", "|", "\x00", "/", "{", "}", "#", ",", " ", "\n", ""} {
		for _, text := range []string{l.String(), m.String()} {
			a.want(peek("k"+mark+text, m, 11), "ok remaining 11")
			a.want(peek(text+mark+"k", m, 11), "ok remaining 11")
		}
		key, id := "r"+mark+"s", "t"
		other, otherID := "r", "s"+mark+"t"
		if key == "rs" {
			other, otherID = "r\x01", "st"
		}
		r := weir.Request{Verb: weir.Reserve, Key: key, Limit: l, N: 4, ID: id, TTL: time.Minute}
		a.want(r, "ok remaining 6 reset 1m")
		a.want(peek(other, l, 10), "ok remaining 10")
		a.want(weir.Request{Verb: weir.Cancel, Key: other, Limit: l, ID: otherID}, "error no-reservation")
		a.want(weir.Request{Verb: weir.Cancel, Key: key, Limit: m, ID: id}, "error no-reservation")
		a.want(weir.Request{Verb: weir.Cancel, Key: key, Limit: l, ID: id}, "ok remaining 10")
		a.want(ask(weir.Reset, other, l, 0), "ok remaining 10")
	}
}

// hugeCosts asks for more than there can be.
func hugeCosts(tb testing.TB, open Open) {
	a := open.asker(tb)
	for _, l := range limits(everyday) {
		full, fresh := l.Capacity(), available(l)
		for _, n := range []int64{full + 1, 1 << 40, 1<<53 + 1, 1 << 62, math.MaxInt64} {
			for _, v := range []weir.Verb{weir.Take, weir.Peek} {
				if d := a.do(ask(v, "never", l, n)); d.OK || d.RetryAfter != weir.Never || d.Remaining != fresh {
					tb.Errorf("%s(%d) of %s = %+v, want denied for ever with %d remaining", v, n, l, d, fresh)
				}
			}
			if d := a.do(ask(weir.Return, "full", l, n)); !d.OK || d.Remaining != full {
				tb.Errorf("return(%d) of %s = %+v, want a full one", n, l, d)
			}
			if d := a.do(ask(weir.TakeUpTo, fmt.Sprint("all", n), l, n)); d.OK != (fresh > 0) || d.Granted != fresh {
				tb.Errorf("take_up_to(%d) of %s = %+v, want %d granted", n, l, d, fresh)
			}
			d := a.do(ask(weir.Charge, "debt", l, n))
			if !d.OK || d.Remaining != 0 || d.ResetAfter <= 0 || d.ResetAfter > 2*100*366*24*time.Hour {
				tb.Errorf("charge(%d) of %s = %+v, want a debt that ends", n, l, d)
			}
			if d := a.do(take("debt", l, 1)); d.OK || d.RetryAfter <= 0 {
				tb.Errorf("take(1) after charge(%d) of %s = %+v, want denied", n, l, d)
			}
		}
		a.do(ask(weir.Reset, "debt", l, 0))
		if d := a.do(take("debt", l, 1)); d.OK != (fresh > 0) {
			tb.Errorf("take(1) of %s after reset = %+v, want the result of a new key", l, d)
		}
	}
}

// available returns the tokens of a key that was never used.
func available(l weir.Limit) int64 {
	if b, ok := l.Config().(weir.TokenBucket); ok && b.Initial != nil {
		return *b.Initial
	}
	return l.Capacity()
}

// nothingAsked checks that a cost of 0 is OK and changes nothing, even for a key with
// debt.
func nothingAsked(tb testing.TB, open Open) {
	a := open.asker(tb)
	for _, l := range limits(everyday) {
		a.do(ask(weir.Charge, "k", l, 1))
		for i := range 3 {
			for _, v := range []weir.Verb{weir.Take, weir.Peek, weir.TakeUpTo, weir.Charge, weir.Return} {
				before := a.do(peek("k", l, 1))
				d := a.do(ask(v, "k", l, 0))
				if after := a.do(peek("k", l, 1)); !d.OK || d.Granted != 0 || after != before {
					tb.Errorf("%s(0) of %s, round %d = %+v; before it %+v, after it %+v", v, l, i, d, before, after)
				}
			}
			a.do(ask(weir.Charge, "k", l, l.Capacity()))
		}
	}
}
