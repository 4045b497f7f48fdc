package guard_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestSingleIsEnter makes the same calls of two guards with one clock, while their rules change. One
// has an empty key, which the store may decide alone. The other has a key of space, which is the
// same bucket.
func TestSingleIsEnter(t *testing.T) {
	for _, limit := range []string{"3/s burst 5", "3/s fixed_window", "3/s leaky_bucket burst 2", "2 concurrency", "3/s sliding_window"} {
		var now atomic.Int64
		now.Store(1_700_000_000_000_000)
		var guards [2]*guard.Guard
		var registries [2]*guard.Registry
		var configs [2]guard.Config
		for i := range guards {
			s, err := memstore.New(memstore.Config{Clock: now.Load})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			configs[i] = guard.Config{Store: s, Instance: "here"}
			registries[i] = registry(t, configs[i])
			guards[i] = registries[i].MustGuard(guard.Resource{Name: "f", Limits: limits(limit)})
		}
		r := rand.New(rand.NewPCG(18, 1))
		var held [2][]*guard.Entry
		for step := range 2000 {
			now.Add(r.Int64N(200_000))
			what, n := r.IntN(20), int64(1+r.IntN(20)/19)
			var got [2]string
			for i, g := range guards {
				switch {
				case what == 0:
					c := configs[i]
					switch step % 3 {
					case 0:
						c.Functions = &guard.Functions{Mode: []policy.Mode{policy.Shadow, policy.Off}[step%2]}
					case 1:
						c.Functions = functions(rule(t, policy.Config{Name: "f", Limits: limits("7/m burst 3")}))
					}
					configure(t, registries[i], c)
				case what < 4 && len(held[i]) > 0:
					held[i][0].Exit(nil)
					held[i] = held[i][1:]
				default:
					e, err := g.EnterN(context.Background(), []string{"", " "}[i], n)
					var denied *guard.Denied
					if errors.As(err, &denied) {
						got[i] = fmt.Sprintf("%v %+v", err, denied.Decision)
					} else if err != nil {
						t.Fatal(err)
					}
					if e != nil {
						got[i] = fmt.Sprintf("%+v", e.Decision())
						held[i] = append(held[i], e)
					}
				}
			}
			if got[0] != got[1] {
				t.Fatalf("%s: step %d: with an empty key %s, with one of space %s", limit, step, got[0], got[1])
			}
		}
		a, b := registries[0].Live()[0], registries[1].Live()[0]
		if a.Passed != b.Passed || a.Denied != b.Denied || a.Running != b.Running {
			t.Errorf("%s: counters %+v and %+v, want equal ones", limit, a, b)
		}
	}
}

// TestSingleObserved checks that calls with an empty key are reported, wait in a queue and fall
// back to the rule of a store that is closed.
func TestSingleObserved(t *testing.T) {
	seen := 0
	c := guard.Config{Observe: func(context.Context, string, enforce.Event) { seen++ }}
	g := registry(t, c).MustGuard(guard.Resource{Name: "f", Limits: limits("10/s")})
	e, err := g.Enter(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	if e.Exit(nil); seen != 1 {
		t.Errorf("Observe was called %d times, want 1", seen)
	}
	s, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g = registry(t, guard.Config{Store: s}).MustGuard(guard.Resource{Name: "f", Limits: limits("10/s"), HandlesStoreError: true})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var failed *guard.StoreError
	if _, err = g.Enter(context.Background(), ""); !errors.As(err, &failed) || !errors.Is(err, weir.ErrClosed) {
		t.Errorf("Enter of a closed store = %v, want a StoreError", err)
	}
}

// TestSingleQueued checks that a call with an empty key waits for its delay in a queue.
func TestSingleQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits("1/s leaky_bucket burst 3 queue")})
		begin := time.Now()
		for range 3 {
			e, err := g.Enter(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			e.Exit(nil)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("three calls of a queue took %v, want 2s", took)
		}
	})
}

// A refusing protection refuses calls while it is set.
type refusing struct{ atomic.Bool }

func (*refusing) Name() string  { return "refusing" }
func (*refusing) State() string { return "" }
func (r *refusing) Enter(context.Context, string) (func(error), error) {
	if r.Load() {
		return nil, errors.New("refused")
	}
	return nil, nil
}

// TestSingleRefused checks that a call with an empty key that a protection of the system refuses
// costs no token.
func TestSingleRefused(t *testing.T) {
	p := new(refusing)
	g := registry(t, guard.Config{
		Functions:   &guard.Functions{System: &guard.Rule{Settings: guard.Settings{Bulkhead: &guard.Bulkhead{Max: 1}}}},
		Protections: func(string, guard.Settings) ([]guard.Protection, error) { return []guard.Protection{p}, nil },
	}).MustGuard(guard.Resource{Name: "f", Limits: limits("1/h")})
	p.Store(true)
	if n := passed(t, g, "", 3); n != 0 {
		t.Fatalf("%d calls passed that a protection refuses, want 0", n)
	}
	p.Store(false)
	if n := passed(t, g, "", 3); n != 1 {
		t.Errorf("%d calls passed, want 1: those before cost no token", n)
	}
}

// TestSingleSlotIsRenewed checks that a call with an empty key keeps its slot for longer than the
// lease, also if the memory of its slot was that of a call before.
func TestSingleSlotIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := registry(t, guard.Config{}).MustGuard(guard.Resource{Name: "f", Limits: limits("1 concurrency lease 3s")})
		for range 3 {
			e, err := g.Enter(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			for range 5 {
				time.Sleep(2 * time.Second)
				if n := passed(t, g, "", 1); n != 0 {
					t.Fatal("a second call passed, want the slot renewed")
				}
			}
			e.Exit(nil)
			synctest.Wait() // for a renewal at this instant, which then returns the slot
		}
	})
}
