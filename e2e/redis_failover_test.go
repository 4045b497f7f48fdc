package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
)

// failoverLimit refills less than one token during a test.
var failoverLimit = weir.MustLimit("100000/365d")

// A failoverLoad takes tokens at a steady pace, until it is stopped.
type failoverLoad struct {
	store *redisstore.Store
	keys  []string
	acked []atomic.Int64 // admissions, by key
	acks  atomic.Int64
	// refused is closed when the primary refuses writes for want of a replica.
	refused chan struct{}
	stop    func()
}

func startFailoverLoad(t *testing.T, store *redisstore.Store) *failoverLoad {
	l := &failoverLoad{store: store, keys: []string{"a", "b"}, refused: make(chan struct{})}
	l.acked = make([]atomic.Int64, len(l.keys))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var once sync.Once
	for i := range 2 * len(l.keys) {
		wg.Go(func() {
			k := i % len(l.keys)
			for tick := time.NewTicker(2 * time.Millisecond); ctx.Err() == nil; {
				switch d, err := store.Do(ctx, weir.Request{Key: l.keys[k], Limit: failoverLimit, N: 1}); {
				case err == nil && d.OK:
					l.acked[k].Add(1)
					l.acks.Add(1)
				case err != nil && strings.Contains(err.Error(), "NOREPLICAS"):
					once.Do(func() { close(l.refused) })
				}
				<-tick.C
			}
		})
	}
	l.stop = func() { cancel(); wg.Wait() }
	t.Cleanup(l.stop)
	redistest.Await(t, "the load runs", func() error {
		if n := l.acks.Load(); n < 200 {
			return fmt.Errorf("%d admissions", n)
		}
		return nil
	})
	return l
}

func (l *failoverLoad) counts() (n []int64) {
	for i := range l.acked {
		n = append(n, l.acked[i].Load())
	}
	return n
}

// TestRedisFailoverAdmitsAgain cuts the link to the replica under load, and stops the primary
// later. What a key then gets above its limit is at most what was admitted after the cut. With
// min-replicas-to-write, the primary refuses writes soon after the cut, and a longer cut adds
// nothing.
func TestRedisFailoverAdmitsAgain(t *testing.T) {
	t.Parallel()
	const lag = "min-replicas-to-write 1\nmin-replicas-max-lag 1"
	for _, c := range []struct {
		client, directives string
		cut                time.Duration // to the stop; with a lag, from the first refused write
	}{
		{"rueidis", "", 300 * time.Millisecond},
		{"goredis", "", 1200 * time.Millisecond},
		{"rueidis", lag, 0},
		{"goredis", lag, time.Second},
	} {
		t.Run(fmt.Sprintf("lag=%v/%v", c.directives != "", c.cut), func(t *testing.T) {
			t.Parallel()
			f := redistest.StartFailover(t, "limits", c.directives)
			store := newRedisStore(t, openConn(t, c.client, "redis+sentinel://"+f.Sentinel.Addr+"/limits"), redisstore.Config{Timeout: time.Second})
			l := startFailoverLoad(t, store)

			before, start := l.counts(), time.Now()
			f.Cut(t)
			if c.directives != "" {
				select {
				case <-l.refused:
				case <-time.After(30 * time.Second):
					t.Fatal("the primary admits without a replica")
				}
			}
			refused, lagged := l.acks.Load(), time.Since(start)
			<-time.After(c.cut)
			late := l.acks.Load() - refused
			f.Primary.Stop()
			cut := time.Since(start)
			l.stop()
			after := l.counts()

			acked, over := int64(0), int64(0)
			for k, key := range l.keys {
				var left weir.Decision
				redistest.Await(t, "the replica is promoted", func() error {
					c, err := redistest.Dial(f.Replica.Addr)
					if err != nil {
						return err
					}
					defer c.Close()
					info, err := c.Do("INFO", "replication") // the promotion ends connections
					if err != nil {
						return err
					}
					if !strings.Contains(fmt.Sprint(info), "role:master") {
						return fmt.Errorf("%s", info)
					}
					d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: key, Limit: failoverLimit})
					left = d
					return err
				})
				mustTake(t, store, key, failoverLimit, left.Remaining) // nothing is left
				a, o := after[k]-before[k], after[k]+left.Remaining-failoverLimit.Capacity()
				if o > a || o <= 0 {
					t.Errorf("key %s: %d above the limit, want 1 to %d, the admissions after the cut", key, o, a)
				}
				acked, over = acked+a, over+o
			}
			if c.directives != "" && late > 4 { // those in flight
				t.Errorf("%d admissions after the primary refused one for want of a replica", late)
			}
			t.Logf("stopped after %v, refused from %v: %d admitted after the cut, %d above the limit", cut, lagged, acked, over)
		})
	}
}
