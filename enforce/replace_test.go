package enforce_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// successor returns an Enforcer of policies that follow those of set.
func successor(t *testing.T, store *memstore.Store, c enforce.Config, old *policy.Set, cs ...policy.Config) (*enforce.Enforcer, *policy.Set) {
	t.Helper()
	set := set(t, cs...).WithPrevious(old)
	e, err := enforce.New(store, set, c)
	if err != nil {
		t.Fatal(err)
	}
	return e, set
}

// TestReplace checks that waiting requests are decided by the new limits, and that a key
// never gets the tokens of both.
func TestReplace(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		first, set := successor(t, store, enforce.Config{}, nil, waiting("p", time.Minute, "10/s burst 50"))
		var passed atomic.Int64
		var all sync.WaitGroup
		for range 150 {
			all.Go(func() {
				var p enforce.Admission
				if enter(t, first, &p).Passes() {
					passed.Add(1)
				}
				p.Exit(enforce.Result{})
			})
		}
		after(time.Second)
		synctest.Wait()
		if got := passed.Load(); got != 60 {
			t.Fatalf("%d pass in the first second, want 60", got)
		}
		second, set := successor(t, store, enforce.Config{}, set, waiting("p", time.Minute, "20/s burst 50"))
		third, _ := successor(t, store, enforce.Config{}, set, waiting("p", time.Minute, "5/s burst 50"))
		first.Replace(second)
		var p enforce.Admission
		if got := enter(t, second, &p); got != enforce.Admitted {
			t.Errorf("who comes now is %s, want admitted", got)
		}
		passed.Add(1)
		after(time.Second)
		if got := passed.Load(); got < 78 || got > 82 {
			t.Errorf("%d pass in two seconds, want 60 and 20", got)
		}
		before := passed.Load()
		second.Replace(third)
		first.Replace(nil)
		after(2 * time.Second)
		if got := passed.Load() - before; got < 9 || got > 12 {
			t.Errorf("%d pass in two more seconds, want 10", got)
		}
		all.Wait()
		if got := passed.Load(); got != 151 {
			t.Errorf("%d pass, want all", got)
		}
	})
}

// TestReplaceDuringWait checks that the time that a request has waited counts, and that its
// decision is that of the successor.
func TestReplaceDuringWait(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		for _, tc := range []struct {
			next    policy.Config
			outcome enforce.Outcome
			after   time.Duration
			event   string
		}{
			{waiting("p", 5*time.Second, "1/8s burst 1"), enforce.Denied, 4 * time.Second, "ada p denied"},
			{waiting("p", time.Minute, "1/8s burst 1"), enforce.Admitted, 7 * time.Second, "ada p admitted"},
			{about("p", "1/8s burst 1"), enforce.Denied, 4 * time.Second, "ada p denied"},
			{about("q", "1/8s burst 1"), enforce.Admitted, 4 * time.Second, "ada q admitted"},
		} {
			var c enforce.Config
			events := observed(&c)
			first, set := successor(t, store, c, nil, waiting("p", time.Minute, "1/4s burst 1"))
			second, _ := successor(t, store, c, set, tc.next)
			var p enforce.Admission
			enter(t, first, &p)
			events()
			time.AfterFunc(time.Second, func() {
				first.Replace(second)
				_, _ = store.Do(context.Background(), weir.Request{ // the key moves now
					Verb: weir.Take, Key: "p|3:ada", N: 1, Limit: fakestore.PolicyLimit(t, "1/8s burst 1"), From: []weir.Limit{fakestore.PolicyLimit(t, "1/4s burst 1")},
				})
			})
			start := time.Now()
			if got := enter(t, first, &p); got != tc.outcome || time.Since(start) != tc.after {
				t.Errorf("%s after %v, want %s after %v", got, time.Since(start), tc.outcome, tc.after)
			}
			same(t, "events", events(), tc.event)
			after(time.Hour)
		}
	})
}

// TestReplaceWithSlot checks that slots of earlier requests are returned, and that requests
// to a replaced Enforcer use the successor.
func TestReplaceWithSlot(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		first, set := successor(t, store, enforce.Config{}, nil, about("p", "1 concurrency lease 1h"))
		second, set := successor(t, store, enforce.Config{}, set, about("p", "1 concurrency lease 1h"))
		third, _ := successor(t, store, enforce.Config{}, set, about("p", "1 concurrency lease 1h"))
		var p, q enforce.Admission
		enter(t, first, &p)
		first.Replace(first)
		first.Replace(second)
		second.Replace(third)
		if got := first.Enter(context.Background(), by("ada", ""), &q); got != enforce.Denied {
			t.Errorf("a second of one: %s, want denied", got)
		}
		p.Exit(enforce.Result{})
		if got := first.Enter(context.Background(), by("ada", ""), &q); got != enforce.Admitted {
			t.Errorf("with the slot free: %s, want admitted", got)
		}
		q.Cancel()
		if got := third.Enter(context.Background(), by("ada", ""), &p); got != enforce.Admitted {
			t.Errorf("after a Cancel: %s, want admitted", got)
		}
		p.Exit(enforce.Result{})
	})
}

// TestSetPolicies checks that the new policies decide every later request with the state of the
// keys, also one that the old ones do not match. An error changes nothing.
func TestSetPolicies(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		e := open(t, store, enforce.Config{})
		if err := e.SetPolicies(set(t, waiting("p", time.Minute, "1/10s burst 1"))); err != nil {
			t.Fatal(err)
		}
		var p, q enforce.Admission
		enter(t, e, &p)
		outcome := make(chan enforce.Outcome, 1)
		go func() { outcome <- enter(t, e, &q) }()
		synctest.Wait()
		for i := range 3 {
			if err := e.SetPolicies(set(t, about("p", fmt.Sprintf("%d/10s burst 1", 2+i)))); err != nil {
				t.Fatal(err)
			}
		}
		if got := enter(t, e, &p); got != enforce.Denied || p.Decision().RetryAfter > 10*time.Second/4 {
			t.Errorf("after the change: %s, retry after %v, want denied with the state of the key", got, p.Decision().RetryAfter)
		}
		after(10 * time.Second)
		if got := <-outcome; got != enforce.Admitted || !strings.Contains(fmt.Sprint(q.Decisions(&q.Charges()[0])), "4/10s") {
			t.Errorf("the request that waits: %s by %v, want admitted by the last limit", got, q.Decisions(&q.Charges()[0]))
		}
		if err := e.SetPolicies(nil); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("SetPolicies(nil) = %v, want ErrInvalid", err)
		}
		after(10 * time.Second)
		if got := enter(t, e, &p); got != enforce.Admitted {
			t.Errorf("after an invalid set: %s, want admitted", got)
		}
		if err := e.SetPolicies(new(policy.Set)); err != nil {
			t.Fatal(err)
		}
		if got := enter(t, e, &p); got != enforce.Admitted {
			t.Errorf("without policies: %s, want admitted", got)
		}
		if err := e.SetPolicies(set(t, about("q", "1/h burst 1"))); err != nil {
			t.Fatal(err)
		}
		if first, second := enter(t, e, &p), enter(t, e, &p); first != enforce.Admitted || second != enforce.Denied {
			t.Errorf("under a policy that is new: %s and %s, want admitted and denied", first, second)
		}
	})
}

// TestSetPoliciesOfOne checks that concurrent changes and requests lose no policy.
func TestSetPoliciesOfOne(t *testing.T) {
	bubble(t, func(t *testing.T, store *memstore.Store) {
		e := open(t, store, enforce.Config{}, about("p", "100/h burst 100"))
		var passed atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				var p enforce.Admission
				for range 50 {
					if enter(t, e, &p).Passes() {
						passed.Add(1)
					}
				}
			})
			all.Go(func() {
				for range 10 {
					if err := e.SetPolicies(set(t, about("p", "100/h burst 100"))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if got := passed.Load(); got != 100 {
			t.Errorf("%d pass, want 100", got)
		}
	})
}
