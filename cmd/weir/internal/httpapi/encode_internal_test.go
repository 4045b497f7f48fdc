package httpapi

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir"
)

// TestAppendResponse compares responses with those of encoding/json.
func TestAppendResponse(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(texts ...string) string { return texts[rng.IntN(len(texts))] }
	number := func() int64 {
		return []int64{0, 1, 999, 1000, 1001, 1_500_000, 1_000_000_000, 61_234_567_890, 1 << 62}[rng.IntN(9)]
	}
	maybe := func() bool { return rng.IntN(2) == 0 }
	one := func() (v verdict) {
		v = verdict{OK: maybe(), Borrowed: maybe(), Limit: pick("", "10/s burst 20", `a"\<>&`, "é\u2028\x01"), Granted: number(), Never: maybe(), ResetAfter: seconds(number())}
		n, s := number(), seconds(number())
		if maybe() {
			v.Capacity, v.RetryAfter = &n, &s
		}
		if maybe() {
			v.Remaining, v.Delay, v.Debt = &n, &s, number()
		}
		return v
	}
	for range 2000 {
		a := response{verdict: one(), Policy: pick("", "api", "a&b"), At: stamp(time.Unix(number()%1e10, number()%1e9)), Degraded: weir.FailMode(pick("", "local")), Replayed: maybe()}
		for range rng.IntN(3) {
			a.Limits = append(a.Limits, one())
		}
		for range rng.IntN(3) {
			a.Results = append(a.Results, result{one(), pick("", "p"), slices.Clone(a.Limits)})
		}
		want, err := json.Marshal(a)
		if got := marshal(a); err != nil || string(got) != string(want)+"\n" {
			t.Fatalf("%+v:\n%s, want\n%s, %v", a, got, want, err)
		}
	}
}

// sameObject compares the two parsers of objects. It reports whether scan read the object.
func sameObject(t *testing.T, data string) bool {
	t.Helper()
	parse := func(f func([]byte, func() string, func(string, json.RawMessage) error) ([]string, error)) string {
		var all string
		seen, err := f([]byte(data), func() string { return "fields" }, func(name string, value json.RawMessage) error {
			all += fmt.Sprintf("%q=%q ", name, value)
			return nil
		})
		return fmt.Sprint(all, seen, err)
	}
	if got, want := parse(object), parse(anyObject); got != want {
		t.Errorf("%q: %s, want %s", data, got, want)
	}
	_, ok := scan([]byte(data), new([maxScanned]member))
	return ok
}

var objects = []struct {
	text    string
	scanned bool
}{
	{`{"key":"user:42","limit":"10/s burst 20"}`, true},
	{" {\t\"key\" : \"é\" ,\r\n\"n\":0, \"ttl\":12 } \n", true},
	{`{"policy":"p","key":"","id":"x","at":"y","verb":"take","n":10,"limit":"1/s","ttl":3}`, true},
	{`{}`, false},
	{`{"key":"a\u0062"}`, false},
	{`{"key":"a","key":"b"}`, false},
	{`{"n":01}`, false}, {`{"n":-1}`, false}, {`{"n":1.5}`, false}, {`{"n":1e3}`, false}, {`{"n":1x}`, false},
	{`{"key":["a"]}`, false}, {`{"key":null}`, false}, {`{"other":1}`, false},
	{`{"n":1,}`, false}, {`{"n":1`, false}, {`{"n":`, false}, {`{"n"`, false}, {`{"n`, false}, {`{`, false}, {``, false}, {`{"n" 1}`, false},
	{`{"n":1} x`, false}, {"{\"n\":1}\u00a0", false}, {"{\"key\":\"a\nb\"}", false}, {`[{"n":1}]`, false},
}

func TestScan(t *testing.T) {
	for _, o := range objects {
		if got := sameObject(t, o.text); got != o.scanned {
			t.Errorf("scan(%q) = %t, want %t", o.text, got, o.scanned)
		}
	}
}

func FuzzScan(f *testing.F) {
	for _, o := range objects {
		f.Add(o.text)
	}
	f.Fuzz(func(t *testing.T, data string) {
		if utf8.ValidString(data) {
			sameObject(t, data)
		}
	})
}

// TestLimitCache checks that a cached limit is that of its text.
func TestLimitCache(t *testing.T) {
	c := newLimitCache()
	for i := range 3000 { // more than it holds
		text := fmt.Sprintf("%d/s", i%1500+1)
		l, err := c.parse(text)
		if want := weir.MustLimit(text); err != nil || l.String() != want.String() {
			t.Fatalf("parse(%q) = %v, %v", text, l, err)
		}
	}
	for range 2 {
		if l, err := c.parse("10 per s"); err == nil {
			t.Errorf("parse = %v, want an error, also the second time", l)
		}
	}
	if n := testing.AllocsPerRun(100, func() { c.parse("7/s") }); n != 0 {
		t.Errorf("%v allocations for a known limit, want none", n)
	}
}
