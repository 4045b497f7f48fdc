package weir_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
)

// plans are the limits of tenants, which change while a test runs.
type plans struct {
	mu     sync.Mutex
	limits map[string]weir.Limit
}

func (p *plans) set(tenant, limit string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.limits == nil {
		p.limits = map[string]weir.Limit{}
	}
	p.limits[tenant] = weir.MustLimit(limit)
}

func (p *plans) limit(_ context.Context, tenant string) (weir.Limit, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limits[tenant], nil
}

func newPlans(t *testing.T, usual string, c weir.Config) (*plans, *weir.Limiter) {
	t.Helper()
	store, err := memstore.New(memstore.Config{Clock: func() int64 { return 1_767_225_600_000_000 }})
	if err != nil {
		t.Fatal(err)
	}
	var p plans
	c.LimitFunc = p.limit
	l, err := weir.New(store, weir.MustLimit(usual), c)
	if err != nil {
		t.Fatal(err)
	}
	return &p, l
}

// TestLimitFuncKeepsState checks that a key keeps its state while its limit from code
// changes: to a limit of its own, to another one, and back to the usual limit.
func TestLimitFuncKeepsState(t *testing.T) {
	p, l := newPlans(t, "10/h", weir.Config{Carry: weir.CarryAsIs})
	for i, c := range []struct {
		limit string // of tenant a from now on
		want  string
	}{
		{"", "10/h burst 10: 7 remaining"},
		{"", "10/h burst 10: 4 remaining"},
		{"100/h", "100/h burst 100: 1 remaining"},
		{"20/h", "20/h burst 20: denied, 1 remaining"},
		{"2/m", "2/m burst 2: denied, 1 remaining"},
		{"10/h", "10/h burst 10: denied, 1 remaining"},
	} {
		if c.limit != "" {
			p.set("a", c.limit)
		}
		d, err := l.Take(t.Context(), "a", 3)
		got := fmt.Sprintf("%s: %d remaining", d.Limit, d.Remaining)
		if !d.OK {
			got = fmt.Sprintf("%s: denied, %d remaining", d.Limit, d.Remaining)
		}
		if err != nil || got != c.want {
			t.Errorf("step %d: %s, %v; want %s", i, got, err, c.want)
		}
	}
	if d, err := l.Peek(t.Context(), "b", 1); err != nil || d.Remaining != 10 {
		t.Errorf("another tenant has %d remaining, %v; want 10", d.Remaining, err)
	}
}

// TestLimitFuncAndSetLimit checks that SetLimit changes the limit of the keys without a
// limit of their own.
func TestLimitFuncAndSetLimit(t *testing.T) {
	p, l := newPlans(t, "10/h", weir.Config{})
	p.set("own", "50/h")
	for _, key := range []string{"own", "usual"} {
		if _, err := l.Take(t.Context(), key, 5); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.SetLimit(weir.MustLimit("20/h"), weir.CarryProportional); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"own": 45, "usual": 10} {
		if d, err := l.Peek(t.Context(), key, 1); err != nil || d.Remaining != want {
			t.Errorf("%s has %d remaining, %v; want %d", key, d.Remaining, err, want)
		}
	}
}

func TestLimitFuncErrors(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	down := errors.New("database down")
	l, err := weir.New(store, weir.Limit{}, weir.Config{LimitFunc: func(_ context.Context, key string) (weir.Limit, error) {
		if key == "broken" {
			return weir.Limit{}, down
		}
		return weir.Limit{}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for _, c := range []struct {
		key, want string
		is        error
	}{{"broken", "database down", down}, {"unknown", "zero Limit", weir.ErrInvalid}} {
		_, _, reserve := l.Reserve(ctx, c.key, "id", 1, 1000)
		_, handle := l.Reservation(ctx, c.key, "id")
		_, take := l.Take(ctx, c.key, 1)
		_, waitN := l.WaitN(ctx, c.key, 1, weir.NoWait)
		for name, err := range map[string]error{
			"Take": take, "WaitN": waitN, "WaitKey": l.WaitKey(ctx, c.key), "Reserve": reserve, "Reservation": handle,
		} {
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) || errors.Is(err, weir.ErrDenied) {
				t.Errorf("%s of %s: %v, want %q", name, c.key, err, c.want)
			}
		}
		if l.AllowKey(c.key) {
			t.Errorf("AllowKey of %s = true without a limit", c.key)
		}
	}
}

// TestLimitFuncIsBounded checks that the limits of many more keys than are remembered are
// decided, also at once.
func TestLimitFuncIsBounded(t *testing.T) {
	p, l := newPlans(t, "10/h", weir.Config{})
	p.set("k1", "20/h")
	var wg sync.WaitGroup
	all := func(_ context.Context, key string) (weir.Limit, error) { return weir.MustLimit("20/h"), nil }
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	many, err := weir.New(store, weir.Limit{}, weir.Config{LimitFunc: all})
	if err != nil {
		t.Fatal(err)
	}
	for g := range 4 {
		wg.Go(func() {
			for i := range 20_000 {
				if d, err := many.Take(t.Context(), fmt.Sprint(g, " ", i), 1); err != nil || d.Remaining != 19 {
					t.Errorf("Take = %d remaining, %v; want 19", d.Remaining, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if d, err := l.Peek(t.Context(), "k1", 1); err != nil || d.Remaining != 20 {
		t.Errorf("Peek = %d remaining, %v; want 20", d.Remaining, err)
	}
}

// TestLimitFuncForgets checks that keys which the Limiter forgot keep their state if their
// limit changes, to another of their own or to the usual one. With a name this holds for any
// number of limits.
func TestLimitFuncForgets(t *testing.T) {
	for _, name := range []string{"", "name"} {
		p, l := newPlans(t, "10/h", weir.Config{Name: name})
		key := func(i int) string { return fmt.Sprint("k", i) }
		const keys = 99
		for i := range keys {
			limit := "20/h"
			if name != "" {
				limit = fmt.Sprint(20+i, "/h")
			}
			p.set(key(i), limit)
			if d, err := l.TakeUpTo(t.Context(), key(i), 20); err != nil || d.Granted != 20 {
				t.Fatalf("%s: %+v, %v", key(i), d, err)
			}
		}
		flood := []weir.Limit{weir.MustLimit("30/h"), weir.MustLimit("40/h")}
		for i := range 1 << 17 { // forgets most of the keys
			other := fmt.Sprint("flood", i)
			p.limits[other] = flood[i%2]
			if _, err := l.Request(t.Context(), other, 1); err != nil {
				t.Fatal(err)
			}
			delete(p.limits, other)
		}
		for i := range keys {
			want := int64(0)
			switch i % 3 {
			case 0:
				p.set(key(i), "45/h")
				want = 25
			case 1:
				p.set(key(i), "10/h")
			default:
				delete(p.limits, key(i))
			}
			if d, err := l.TakeUpTo(t.Context(), key(i), 100); err != nil || d.Granted != want {
				t.Errorf("name %q: %s under another limit = %d granted, %v; want %d", name, key(i), d.Granted, err, want)
			}
		}
		if n := testing.AllocsPerRun(100, func() { l.AllowKey("usual") }); n != 0 {
			t.Errorf("name %q: AllowKey allocates %v times", name, n)
		}
	}
}

// TestLimitFuncAllocatesNothing checks that a decision under a limit from code allocates
// nothing.
func TestLimitFuncAllocatesNothing(t *testing.T) {
	p, l := newPlans(t, "1000000/s", weir.Config{})
	p.set("own", "2000000/s")
	for _, key := range []string{"own", "usual"} {
		l.AllowKey(key)
		if n := testing.AllocsPerRun(100, func() { l.AllowKey(key) }); n != 0 {
			t.Errorf("AllowKey(%q) allocates %v times", key, n)
		}
	}
}

// TestBillingDayPerKey checks keys whose months begin on a day from code, also after a change of the
// day, which keeps what was used.
func TestBillingDayPerKey(t *testing.T) {
	store, advance := fakestore.Clocked(t) // 1 January
	var p plans
	for tenant, day := range map[string]int{"a": 10, "b": 31, "c": 1} {
		p.set(tenant, fmt.Sprintf("5/month calendar UTC day %d", day))
	}
	l, err := weir.New(store, weir.MustLimit("5/month"), weir.Config{Name: "quota", LimitFunc: p.limit})
	if err != nil {
		t.Fatal(err)
	}
	const days = 24 * time.Hour
	for tenant, end := range map[string]time.Duration{"a": 9 * days, "b": 30 * days, "c": 31 * days} {
		if d, err := l.Take(t.Context(), tenant, 5); err != nil || !d.OK || d.ResetAfter != end {
			t.Errorf("%s: %+v, %v, want 5 tokens until %v", tenant, d, err, end)
		}
	}
	advance(5 * days)
	p.set("a", "5/month calendar UTC day 8")
	if d, err := l.Take(t.Context(), "a", 1); err != nil || d.OK || d.RetryAfter != 2*days {
		t.Errorf("after a change of the day: %+v, %v, want a denial until the 8th", d, err)
	}
}
