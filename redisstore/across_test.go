package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/redisstore"
)

// asks runs one DoAll of "verb key n" on a cluster, where every key has its own slot.
// answer makes the reply to a call. asks returns the calls without their limits, sorted
// within each round trip.
func asks(t *testing.T, answer func(trip int, cmd redisstore.Command) redisstore.Reply, requests ...weir.Request) (asked []string, ok bool, ds []weir.Decision, err error) {
	t.Helper()
	conn := &fakeConn{cluster: true}
	conn.do = func(_ context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
		for i, cmd := range cmds {
			replies[i] = answer(len(conn.trips), cmd)
		}
	}
	s := newStore(t, conn, redisstore.Config{})
	ds = make([]weir.Decision, len(requests))
	ok, err = s.DoAll(t.Context(), requests, ds)
	for _, trip := range conn.asked() {
		sort.Strings(trip)
		asked = append(asked, strings.ReplaceAll(strings.Join(trip, " | "), ":"+tag, ""))
	}
	return asked, ok, ds, err
}

func always(reply func(redisstore.Command) redisstore.Reply) func(int, redisstore.Command) redisstore.Reply {
	return func(_ int, cmd redisstore.Command) redisstore.Reply { return reply(cmd) }
}

func want(t *testing.T, asked []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(asked, want) {
		t.Errorf("asked\n%s\nwant\n%s", strings.Join(asked, "\n"), strings.Join(want, "\n"))
	}
}

func verb(v weir.Verb, key string, n int64) weir.Request {
	r := take(key, n)
	if r.Verb = v; v >= weir.Reserve {
		r.ID, r.TTL = "id", time.Minute
	}
	return r
}

func TestOneSlotIsOneStep(t *testing.T) {
	asked, ok, _, err := asks(t, always(grant), take("a", 1), take("a", 2), verb(weir.Charge, "a", 3))
	if !ok || err != nil {
		t.Errorf("DoAll = %v, %v", ok, err)
	}
	want(t, asked, "EVALSHA mode 1; take 1 {a}; take 2 {a}; charge 3 {a}")
}

// TestSlotsAreAskedFirst checks that every slot is asked before one is charged.
func TestSlotsAreAskedFirst(t *testing.T) {
	asked, ok, ds, err := asks(t, always(grant), take("a", 1), take("b", 2), verb(weir.Peek, "c", 3))
	if !ok || err != nil || ds[1].Granted != 2 {
		t.Errorf("DoAll = %v, %v, %+v", ok, err, ds)
	}
	want(t, asked,
		"EVALSHA mode 2; peek 3 {c} | EVALSHA mode 2; take 1 {a} | EVALSHA mode 2; take 2 {b}",
		"EVALSHA; take 1 {a} | EVALSHA; take 2 {b}")

	denyB := func(_ int, cmd redisstore.Command) redisstore.Reply {
		if strings.Contains(cmd.Keys[0], "{b}") {
			return deny(cmd)
		}
		return grant(cmd)
	}
	asked, ok, ds, err = asks(t, denyB, take("a", 1), take("b", 2))
	if ok || err != nil || !ds[0].OK || ds[1].OK {
		t.Errorf("DoAll with a denial = %v, %v, %+v", ok, err, ds)
	}
	want(t, asked, "EVALSHA mode 2; take 1 {a} | EVALSHA mode 2; take 2 {b}")
}

// TestSlotsGiveBack checks that charges are returned, with the instant of the charge, if a
// concurrent request makes another slot deny.
func TestSlotsGiveBack(t *testing.T) {
	denyLater := func(trip int, cmd redisstore.Command) redisstore.Reply {
		if trip == 2 && strings.Contains(cmd.Keys[0], "{b}") {
			return deny(cmd)
		}
		return grant(cmd)
	}
	asked, ok, ds, err := asks(t, denyLater, take("a", 1), verb(weir.Reserve, "r", 4), take("b", 2), verb(weir.Reset, "z", 0))
	if ok || err != nil || ds[2].OK {
		t.Errorf("DoAll = %v, %v, %+v", ok, err, ds)
	}
	want(t, asked,
		"EVALSHA mode 2; reserve 4 {r} | EVALSHA mode 2; reset 0 {z} | EVALSHA mode 2; take 1 {a} | EVALSHA mode 2; take 2 {b}",
		"EVALSHA mode 1; reserve 4 {r} | EVALSHA; take 1 {a} | EVALSHA; take 2 {b}",
		"EVALSHA mode 1; return 1 {a} | EVALSHA mode 1; verb(9) 4 {r}")

	// A reservation that was there before stays.
	again := func(trip int, cmd redisstore.Command) redisstore.Reply {
		if strings.Contains(cmd.Keys[0], "{r}") {
			return redisstore.Reply{Items: []string{pack(4, 4, 0, 0, 1, 0, 1)}}
		}
		return denyLater(trip, cmd)
	}
	asked, _, _, _ = asks(t, again, verb(weir.Reserve, "r", 4), take("b", 2))
	if len(asked) != 2 {
		t.Errorf("asked\n%s\nwant no return", strings.Join(asked, "\n"))
	}
}

// TestSlotsInOrder checks the order of slots: those that can be undone, those whose requests
// depend on one another, those that cannot be denied.
func TestSlotsInOrder(t *testing.T) {
	asked, ok, _, err := asks(t, always(grant),
		verb(weir.Charge, "c", 1), verb(weir.Return, "m", 2), take("m", 3), take("a", 4))
	if !ok || err != nil {
		t.Errorf("DoAll = %v, %v", ok, err)
	}
	want(t, asked[1:],
		"EVALSHA; take 4 {a}",
		"EVALSHA mode 1; return 2 {m}; take 3 {m}",
		"EVALSHA mode 1; charge 1 {c}")

	loseLast := func(trip int, cmd redisstore.Command) redisstore.Reply {
		if trip == 4 {
			return fails(errLost)
		}
		return grant(cmd)
	}
	asked, ok, _, err = asks(t, loseLast, verb(weir.Charge, "c", 1), verb(weir.Return, "m", 2), take("m", 3), take("a", 4))
	if ok || !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("DoAll whose last reply is lost = %v, %v, want ErrUnavailable", ok, err)
	}
	want(t, asked[4:], "EVALSHA mode 1; return 3 {m}; charge 2 {m} | EVALSHA mode 1; return 4 {a}")
}

// TestSlotsCarryOver checks that the state before a decision is kept on denial, on every slot.
func TestSlotsCarryOver(t *testing.T) {
	old := take("a", 1)
	old.From = []weir.Limit{weir.MustLimit("5/h")}
	asked, ok, _, err := asks(t, always(deny), old, take("b", 2))
	if ok || err != nil {
		t.Errorf("DoAll = %v, %v", ok, err)
	}
	want(t, asked,
		"EVALSHA mode 2; take 1 {a} | EVALSHA mode 2; take 2 {b}",
		"EVALSHA mode 3; take 1 {a}")
}

func TestDoAllRefuses(t *testing.T) {
	s := newStore(t, &fakeConn{}, redisstore.Config{})
	many := make([]weir.Request, bounds.MaxBatch+1)
	for i := range many {
		many[i] = take(fmt.Sprint(i), 1)
	}
	for name, c := range map[string]struct {
		rs []weir.Request
		ds int
	}{
		"too many":      {many, len(many)},
		"few decisions": {many[:3], 2},
		"no key":        {[]weir.Request{take("", 1)}, 1},
	} {
		if ok, err := s.DoAll(t.Context(), c.rs, make([]weir.Decision, c.ds)); ok || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("DoAll with %s = %v, %v, want ErrInvalid", name, ok, err)
		}
	}
}
