package failover_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
)

// A cluster has nodes that share a store, each with a local share as its fallback.
type cluster struct {
	nodes []*tested
	store weir.Store
	down  atomic.Value // of func(context.Context) error: what the store does in place of deciding; nil decides
}

func newCluster(t *testing.T, nodes int) *cluster {
	c := &cluster{store: newMem(t)}
	c.set(nil)
	shared := fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
		if down := c.down.Load().(func(context.Context) error); down != nil {
			if err := down(ctx); err != nil {
				return weir.Decision{}, err
			}
		}
		return c.store.Do(ctx, r)
	}}
	for range nodes {
		c.nodes = append(c.nodes, newStore(t, shared, failover.Config{}, newLocal(t, newMem(t), nodes)))
	}
	return c
}

func (c *cluster) set(down func(context.Context) error) { c.down.Store(down) }

// hammer sends requests to all nodes for a time and records the admissions.
func (c *cluster) hammer(t *testing.T, limit weir.Limit, d time.Duration) (all []admission) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, s := range c.nodes {
		for i := range 3 {
			wg.Go(func() {
				for began := time.Now(); time.Since(began) < d; {
					d, err := s.Do(t.Context(), weir.Request{Key: "k", Limit: limit, N: 1})
					if err != nil {
						t.Errorf("Do = %v, want a decision", err)
						return
					}
					if d.OK {
						mu.Lock()
						all = append(all, admission{time.Now().UnixMicro(), 1})
						mu.Unlock()
						continue
					}
					<-time.After(max(time.Millisecond, min(d.RetryAfter, 50*time.Millisecond)) + time.Duration(i)*time.Millisecond/10)
				}
			})
		}
	}
	wg.Wait()
	return all
}

func total(all []admission) (n int64) {
	for _, a := range all {
		n += a.n
	}
	return n
}

// TestThreeNodesInAnOutage runs three nodes for a minute with the store, a minute without
// it and a minute with it. During the outage they admit no more than the limit together. At
// each change they admit at most one capacity of the shares or of the store in addition, and
// what the shares admit in one cool-down.
func TestThreeNodesInAnOutage(t *testing.T) {
	limits := []string{"10/s burst 30", "60/s sliding_log", "100/s burst 200", "5/s burst 2", "60/s fixed_window"}
	if racing {
		limits = limits[:2] // what runs concurrently is the same for all
	}
	for _, text := range limits {
		for _, how := range []struct {
			name string
			down func(context.Context) error
		}{
			{"refused", func(context.Context) error { return errRefused }},
			{"silent", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
		} {
			synctest.Test(t, func(t *testing.T) {
				const nodes, minute = 3, time.Minute
				limit := weir.MustLimit(text)
				share, err := failover.Share(limit, nodes)
				if err != nil {
					t.Fatal(err)
				}
				c := newCluster(t, nodes)
				before := c.hammer(t, limit, minute)
				c.set(how.down)
				without := c.hammer(t, limit, minute)
				c.set(nil)
				after := c.hammer(t, limit, minute)

				span := minute.Microseconds() + 100_000 // the last question may take its deadline
				most := nodes * bound(share, span)
				if n := total(without); n > most || n < most/2 {
					t.Errorf("%s, %s: %d admitted in a minute without the store, want at most %d and about that", text, how.name, n, most)
				}
				over := total(before) + total(without) + total(after) - bound(limit, 3*span)
				// The nodes return to the store one after the other, within a cool-down.
				apart := nodes * (bound(share, failover.DefaultCooldown.Microseconds()) - bound(share, 0))
				extra := nodes*share.Capacity() + limit.Capacity() + apart
				t.Logf("%-20s %-8s with %5d, without %5d, with again %5d; %d over the limit's %d in all, at most %d",
					text, how.name, total(before), total(without), total(after), over, bound(limit, 3*span), extra)
				if over > extra {
					t.Errorf("%s, %s: %d over the limit in all, want at most %d", text, how.name, over, extra)
				}
				if n := total(after); n < bound(limit, minute.Microseconds())*8/10 {
					t.Errorf("%s, %s: %d admitted in a minute with the store back", text, how.name, n)
				}
				for i, s := range c.nodes {
					if d, err := s.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "k", Limit: limit}); err != nil || d.Degraded != "" {
						t.Errorf("node %d afterwards: %+v, %v, want an exact decision", i, d, err)
					}
				}
			})
		}
	}
}

// TestRepeatedOutages checks that repeated outages admit at most the limit and the shares
// together, in any span.
func TestRepeatedOutages(t *testing.T) {
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			const nodes = 3
			limit := weir.MustLimit("20/s burst 30")
			share, err := failover.Share(limit, nodes)
			if err != nil {
				t.Fatal(err)
			}
			c := newCluster(t, nodes)
			g := rand.New(rand.NewPCG(seed, 0))
			done := make(chan struct{})
			go func() {
				defer close(done)
				for range 60 {
					c.set(func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
					time.Sleep(time.Duration(g.Int64N(int64(time.Second))))
					c.set(nil)
					time.Sleep(time.Duration(g.Int64N(int64(3 * time.Second))))
				}
			}()
			all := c.hammer(t, limit, time.Minute)
			<-done
			worst := 0.0
			for i := range all {
				for j := i; j < len(all); j += 1 + (j-i)/20 {
					d := all[j].at - all[i].at
					most := bound(limit, d) + nodes*bound(share, d)
					if n := int64(j - i + 1); n > most {
						t.Fatalf("seed %d: %d admitted in %v, at most %d may be", seed, n, time.Duration(d)*time.Microsecond, most)
					}
					worst = max(worst, float64(j-i+1)/float64(bound(limit, d)))
				}
			}
			t.Logf("seed %d: %d admitted in a minute of outages; in the worst span %.2f times what the limit admits", seed, len(all), worst)
			if worst < 1.05 {
				t.Errorf("seed %d: never above the limit: this test fails the store too little", seed)
			}
		})
	}
}

// TestRecovery checks hundreds of callers during an outage. The store gets at most two
// probes in a second, one at a time. All callers use it within one cool-down after it is
// available.
func TestRecovery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		store.set(silent)
		s := newStore(t, store.fake(), failover.Config{}, failover.Open())
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(10 * time.Millisecond):
						s.Do(t.Context(), request)
					}
				}
			})
		}
		time.Sleep(time.Second)
		for range 5 {
			before := store.calls.Load()
			time.Sleep(time.Second)
			if n := store.calls.Load() - before; n > 2 {
				t.Errorf("%d calls reached an unavailable store in a second, want at most 2", n)
			}
		}
		store.set(fine)
		time.Sleep(failover.DefaultCooldown + failover.DefaultDeadline)
		if s.Open() {
			t.Error("the breaker is open a second after the store is available")
		}
		close(stop)
		wg.Wait()
	})
}

func Example() {
	// An unavailable store and the share of one of three nodes.
	gone := fake{do: refusing}
	mem, err := memstore.New(memstore.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer mem.Close()
	local, err := failover.NewLocal(mem, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	store, err := failover.New(gone, failover.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	lim, err := weir.New(failover.WithFallback(store, local), weir.MustLimit("10/s burst 20"), weir.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := lim.Take(context.Background(), "user:42", 1)
	fmt.Println(d.OK, d.Remaining, d.Limit, d.Degraded, err)
	// Output: true 5 10/s burst 20 local <nil>
}

func ExampleShare() {
	for _, text := range []string{"10/s burst 20", "100/m fixed_window", "2/m sliding_log", "10 concurrency"} {
		share, err := failover.Share(weir.MustLimit(text), 3)
		fmt.Println(share, err)
	}
	// Output:
	// 10/3s burst 6 <nil>
	// 33/m fixed_window <nil>
	// 1/90s sliding_log <nil>
	// 3 concurrency lease 1m <nil>
}

func ExampleClosed() {
	d, err := failover.Closed().Do(context.Background(), weir.Request{Key: "user:42", Limit: weir.MustLimit("10/s"), N: 1})
	fmt.Println(d.OK, d.RetryAfter, d.Degraded, err)
	// Output: false 1s closed <nil>
}

func ExampleOpen() {
	d, err := failover.Open().Do(context.Background(), weir.Request{Key: "user:42", Limit: weir.MustLimit("10/s"), N: 1})
	fmt.Println(d.OK, d.Remaining, d.Degraded, err)
	// Output: true 10 open <nil>
}
