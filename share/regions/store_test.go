package regions_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/share/regions"
)

// A failing is a store that can be unavailable.
type failing struct {
	weir.Store
	down bool
}

func (f *failing) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if f.down {
		return weir.Decision{}, fmt.Errorf("failing: %w", weir.ErrUnavailable)
	}
	return f.Store.Do(ctx, r)
}

func (f *failing) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if f.down {
		return false, fmt.Errorf("failing: %w", weir.ErrUnavailable)
	}
	return f.Store.DoAll(ctx, rs, ds)
}

func memory(t *testing.T) *failing {
	t.Helper()
	now := int64(1_700_000_000_000_000)
	s, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &failing{Store: s}
}

func region(t *testing.T, own, rest weir.Store, c regions.Config) *regions.Store {
	t.Helper()
	s, err := regions.New(own, rest, c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// takes sends single Takes until one is denied, and returns how many were admitted, and the denial.
func takes(t *testing.T, s weir.Store, key string, l weir.Limit) (n int, d weir.Decision) {
	t.Helper()
	for {
		d, err := s.Do(t.Context(), weir.Request{Key: key, Limit: l, N: 1})
		switch {
		case err != nil:
			t.Fatal(err)
		case !d.Limit.Equal(l):
			t.Fatalf("the limit of a decision is %v, want %v", d.Limit, l)
		case !d.OK:
			return n, d
		case n > 1000:
			t.Fatal("more than 1,000 admitted")
		}
		n++
	}
}

// TestTwoRegions checks what two regions admit: each its part, both together the rest, and each its
// part alone while the rest is unavailable.
func TestTwoRegions(t *testing.T) {
	l := weir.MustLimit("1000/h burst 100")
	rest := memory(t)
	a := region(t, memory(t), rest, regions.Config{Part: 40, Rest: 20})
	b := region(t, memory(t), rest, regions.Config{Part: 40, Rest: 20})
	if n, d := takes(t, a, "k", l); n != 60 || d.RetryAfter <= 0 || d.RetryAfter > 10*time.Second {
		t.Errorf("the first region admits %d, then %+v, want its part and the rest: 60", n, d)
	}
	if n, _ := takes(t, b, "k", l); n != 40 {
		t.Errorf("the second region admits %d, want its part: 40", n)
	}
	rest.down = true
	if n, d := takes(t, a, "other", l); n != 40 || d.Remaining != 0 {
		t.Errorf("a disconnected region admits %d, then %+v, want its part: 40", n, d)
	}
	if got := a.Stats(); got != (regions.Stats{Own: 80, Rest: 20, Denied: 1, Undecided: 1}) {
		t.Errorf("stats %+v", got)
	}
}

// TestRegionWithoutPart checks a region that has only what all share.
func TestRegionWithoutPart(t *testing.T) {
	rest := memory(t)
	s := region(t, memory(t), rest, regions.Config{Rest: 20})
	if n, _ := takes(t, s, "k", weir.MustLimit("1000/h burst 100")); n != 20 {
		t.Errorf("%d admitted, want 20", n)
	}
	rest.down = true
	if _, err := s.Do(t.Context(), weir.Request{Key: "k", Limit: weir.MustLimit("1000/h burst 100"), N: 1}); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("without the rest: %v, want ErrUnavailable", err)
	}
	if _, err := s.Do(t.Context(), weir.Request{Key: "k", Limit: weir.MustLimit("50 concurrency"), N: 1, Verb: weir.Reserve, ID: "a", TTL: time.Minute}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("a slot of a region without a part: %v, want ErrInvalid", err)
	}
}

// TestOwnOnly checks what never goes to the rest: slots, limits whose rest is less than one, and keys
// that are not divided.
func TestOwnOnly(t *testing.T) {
	rest := memory(t)
	s := region(t, memory(t), rest, regions.Config{Part: 40, Rest: 20, Divided: func(key string) bool { return !strings.HasPrefix(key, "each|") }})
	for _, c := range []struct {
		key, limit string
		want       int
	}{{"k", "4/h burst 4", 1}, {"k", "4/h fixed_window anchor epoch", 1}, {"each|k", "10/h burst 10", 10}, {"each|k", "100/h fixed_window", 100}} {
		if n, _ := takes(t, s, c.key, weir.MustLimit(c.limit)); n != c.want {
			t.Errorf("%s of %s: %d admitted, want %d", c.limit, c.key, n, c.want)
		}
	}
	slots := 0
	for i := range 10 {
		r := weir.Request{Key: "k", Limit: weir.MustLimit("10 concurrency"), N: 1, Verb: weir.Reserve, ID: fmt.Sprint(i), TTL: time.Minute}
		d, err := s.Do(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if d.OK {
			slots++
		}
	}
	if slots != 4 {
		t.Errorf("%d slots, want 4", slots)
	}
	if _, err := s.Do(t.Context(), weir.Request{Key: "k", Limit: weir.MustLimit("1/h"), N: 1}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("a limit without a part: %v, want ErrInvalid", err)
	}
}

// TestVerbs checks where each verb goes.
func TestVerbs(t *testing.T) {
	l := weir.MustLimit("1000/h burst 100")
	own, rest := memory(t), memory(t)
	s := region(t, own, rest, regions.Config{Part: 40, Rest: 20})
	do := func(verb weir.Verb, n int64) weir.Decision {
		t.Helper()
		d, err := s.Do(t.Context(), weir.Request{Verb: verb, Key: "k", Limit: l, N: n})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := do(weir.TakeUpTo, 50); d.Granted != 40 {
		t.Errorf("take_up_to grants %d, want the part: 40", d.Granted)
	}
	if d := do(weir.Peek, 20); !d.OK || d.Remaining != 20 {
		t.Errorf("peek = %+v, want the rest", d)
	}
	if d := do(weir.TakeUpTo, 50); d.Granted != 20 {
		t.Errorf("take_up_to grants %d, want the rest: 20", d.Granted)
	}
	if d := do(weir.Take, 50); d.OK || d.RetryAfter != weir.Never {
		t.Errorf("a cost above both = %+v, want Never", d)
	}
	if d := do(weir.Return, 10); d.Remaining != 10 {
		t.Errorf("return leaves %d in the part, want 10", d.Remaining)
	}
	if d := do(weir.Charge, 15); d.Debt != 5 {
		t.Errorf("charge = %+v, want a debt of 5", d)
	}
	do(weir.Reset, 0)
	if n, _ := takes(t, s, "k", l); n != 60 {
		t.Errorf("%d admitted after a reset, want 60", n)
	}
	rest.down = true
	if _, err := s.Do(t.Context(), weir.Request{Verb: weir.Reset, Key: "k", Limit: l}); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("reset without the rest: %v, want ErrUnavailable: the rest is not reset", err)
	}
	own.down = true
	if _, err := s.Do(t.Context(), weir.Request{Key: "k", Limit: l, N: 1}); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("without the own store: %v, want ErrUnavailable", err)
	}
}

// TestTogether checks requests that are decided together: the part and the rest are charged for all
// or for none.
func TestTogether(t *testing.T) {
	rest := memory(t)
	s := region(t, memory(t), rest, regions.Config{Part: 40, Rest: 20})
	l, small := weir.MustLimit("1000/h burst 100"), weir.MustLimit("10/m burst 4")
	level := func(key string) (n int) {
		t.Helper()
		for {
			if d, err := s.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: key, Limit: l, N: int64(n + 1)}); err != nil || !d.OK {
				return n
			}
			n++
		}
	}
	all := func(rs ...weir.Request) (bool, []weir.Decision) {
		t.Helper()
		ds := make([]weir.Decision, len(rs))
		ok, err := s.DoAll(t.Context(), rs, ds)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range ds {
			if !d.Limit.Equal(rs[i].Limit) {
				t.Errorf("decision %d has the limit %v, want %v", i, d.Limit, rs[i].Limit)
			}
		}
		return ok, ds
	}
	a, b := weir.Request{Key: "a", Limit: l, N: 30}, weir.Request{Key: "b", Limit: small, N: 1}
	if ok, _ := all(a, b); !ok {
		t.Error("two requests that fit the parts are denied")
	}
	a.N = 15
	if ok, ds := all(a, weir.Request{Key: "c", Limit: small, N: 1}); !ok || ds[0].Granted != 15 {
		t.Errorf("a request that fits the rest: %v %+v, want both admitted", ok, ds)
	}
	if n := level("a"); n != 10 {
		t.Errorf("%d left in the part, want 10", n)
	}
	a.N = 5 // of the rest, after 11 of the part
	takesPart := weir.Request{Key: "a", Limit: l, N: 10}
	if ok, _ := all(takesPart); !ok {
		t.Error("the part is denied")
	}
	if ok, ds := all(a, b); ok || ds[1].OK || ds[1].RetryAfter <= 0 {
		t.Errorf("a request under a used limit: %v %+v, want both denied", ok, ds)
	}
	if n := level("a"); n != 5 {
		t.Errorf("%d left of the rest after a denial, want 5", n)
	}
	rest.down = true
	if ok, ds := all(a, weir.Request{Key: "d", Limit: small, N: 1}); ok || ds[0].OK || !ds[1].OK {
		t.Errorf("without the rest: %v %+v, want the denial of the part", ok, ds)
	}
}

// TestGivenBack checks that the rest gets back what it admitted, if another request is denied.
func TestGivenBack(t *testing.T) {
	s := region(t, memory(t), memory(t), regions.Config{Rest: 20, Divided: func(key string) bool { return key != "each" }})
	l, one := weir.MustLimit("1000/h burst 100"), weir.MustLimit("1/h")
	rs := []weir.Request{{Key: "k", Limit: l, N: 15}, {Key: "each", Limit: one, N: 1}}
	for i, want := range []bool{true, false, false} {
		if i == 1 {
			rs[0].N = 3
		}
		ds := make([]weir.Decision, 2)
		if ok, err := s.DoAll(t.Context(), rs, ds); err != nil || ok != want || ds[1].OK != want {
			t.Fatalf("call %d = %v %+v, %v, want %v", i, ok, ds, err, want)
		}
	}
	if n, _ := takes(t, s, "k", l); n != 5 {
		t.Errorf("%d left of the rest, want 5", n)
	}
}

// TestConfig checks what New refuses.
func TestConfig(t *testing.T) {
	for want, c := range map[string]regions.Config{
		"Part: invalid: got -1": {Part: -1}, "Part: invalid: got 101": {Part: 101}, "Rest: invalid: got 61, want 0 to 60": {Part: 40, Rest: 61},
		"want a Part or a Rest": {}, "rest store: invalid: got nil": {Part: 40, Rest: 20},
	} {
		if _, err := regions.New(memory(t), nil, c); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v): %v, want %s", c, err, want)
		}
	}
	if _, err := regions.New(nil, nil, regions.Config{Part: 40}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("New without a store: %v, want ErrInvalid", err)
	}
}
