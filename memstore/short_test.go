package memstore_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// full is a Store with Do and DoAll only, so that a Limiter has no short form.
type full struct{ weir.Store }

// TestShortFormIsDo makes the same random requests of two Limiters with one clock: one with the
// short form of Allow, and one without. Both must admit the same tokens, and leave the same state.
// The requests include changes of the limit, credits, reservations, resets and a full store.
func TestShortFormIsDo(t *testing.T) {
	limits := []string{
		"1/s", "3/s burst 7", "7/h burst 100", "1000000/s", "10000000/s burst 3", "1024/m", "1000003/h burst 5", "1/24h",
		"5/s leaky_bucket burst 3", "5/s leaky_bucket burst 3 queue", "3/s fixed_window", "1030/s fixed_window", "3/s sliding_window", "3/s initial 1",
	}
	steps := 5_000
	if racing {
		steps /= 10
	}
	for seed := range uint64(16) {
		r := rand.New(rand.NewPCG(seed, 18))
		clock := clockAt(begin)
		c := weir.Config{Prefix: []string{"", "p"}[seed%2]}
		if seed%8 == 7 {
			c.Name = "named"
		}
		var both [2]*weir.Limiter
		two := [2]weir.Limit{weir.MustLimit(limits[r.IntN(len(limits))]), weir.MustLimit(limits[r.IntN(len(limits))])}
		for i := range both {
			m := memstore.Config{Clock: clock.Load, MaxKeys: 6}
			if seed%4 == 3 {
				m.Snapshot = filepath.Join(t.TempDir(), "snapshot")
			}
			var s weir.Store = newStore(t, m)
			if i == 1 {
				s = full{s}
			}
			l, err := weir.New(s, two[0], c)
			if err != nil {
				t.Fatal(err)
			}
			both[i] = l
		}
		keys := []string{"*", "a", "b", "c", "d", "e", "f", "g", ""}
		ctx := context.Background()
		for step := range steps {
			key, n := keys[r.IntN(len(keys))], r.Int64N(4)
			id, next := strconv.FormatInt(n, 10), two[r.IntN(2)]
			ttl, carry := time.Duration(1+r.IntN(2_000_000))*time.Microsecond, weir.Carry(r.IntN(5))
			what := r.IntN(400)
			if r.IntN(3) == 0 {
				clock.Add(r.Int64N([]int64{2, 1000, 1_000_000}[r.IntN(3)]))
			}
			do := func(l *weir.Limiter) (bool, string) {
				var d weir.Decision
				var err error
				switch {
				case what < 150:
					return l.Allow(), ""
				case what < 340:
					return l.AllowKey(key), ""
				case what < 346:
					err = l.SetLimit(next, carry)
				case what < 352:
					d, err = l.Reset(ctx, key)
				case what < 360:
					d, err = l.Return(ctx, key, n)
				case what < 370:
					d, err = l.Charge(ctx, key, n*350)
				case what < 380:
					_, d, err = l.Reserve(ctx, key, id, 1+n, ttl)
				case what < 385:
					var res weir.Reservation
					if res, err = l.Reservation(ctx, key, id); err == nil {
						d, err = res.Cancel(ctx)
					}
				default:
					d, err = l.Peek(ctx, key, n)
				}
				text := ""
				if err != nil {
					text = err.Error()
				}
				return d.OK, text + d.Limit.String() + d.RetryAfter.String() + d.ResetAfter.String() + strconv.FormatInt(d.Remaining-d.Debt, 10)
			}
			ok, text := do(both[0])
			wantOK, want := do(both[1])
			if ok != wantOK || text != want {
				t.Fatalf("seed %d, step %d, request %d of %q under %v: got %v %s, want %v %s", seed, step, what, key, both[0].Limit(), ok, text, wantOK, want)
			}
		}
	}
}

// TestShortFormConcurrent checks that Allow, AllowKey and Take of one key share one state while
// the table of the key moves and its reservations come and go.
func TestShortFormConcurrent(t *testing.T) {
	const askers, each = 4, 2000
	s := newStore(t, memstore.Config{Clock: clockAt(begin).Load})
	l, err := weir.New(s, weir.MustLimit("3000/h"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for a := range askers {
		wg.Go(func() {
			for i := range each {
				ok := false
				switch (a + i) % 3 {
				case 0:
					ok = l.Allow()
				case 1:
					ok = l.AllowKey("*")
				default:
					d, err := l.Take(ctx, "*", 1)
					if err != nil {
						t.Error(err)
					}
					ok = d.OK
				}
				if ok {
					admitted.Add(1)
				}
				if i%16 == a {
					l.AllowKey("new " + strconv.Itoa(a) + " " + strconv.Itoa(i))
				}
				if i%64 == a {
					id := strconv.Itoa(a)
					res, d, err := l.Reserve(ctx, "*", id, 1, time.Hour)
					if err != nil {
						t.Error(err)
					}
					if d.OK {
						if _, err = res.Cancel(ctx); err != nil {
							t.Error(err)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	// A request that a reservation denies takes nothing, and reservations return what they took.
	if d := take(t, s, "*", l.Limit(), 0); admitted.Load()+d.Remaining != 3000 {
		t.Errorf("%d admitted and %d left, want 3000 together", admitted.Load(), d.Remaining)
	}
}

// An embedding has the methods of a memory store, and decides itself.
type embedding struct{ *memstore.Store }

func (embedding) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, nil
}

// TestShortFormOfEmbeddedStore checks that a store that embeds a memory store decides Allow.
func TestShortFormOfEmbeddedStore(t *testing.T) {
	s := newStore(t, memstore.Config{})
	l, err := weir.New(embedding{s}, weir.MustLimit("1000/s"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	take(t, s, "*", l.Limit(), 1)
	take(t, s, "k", l.Limit(), 1)
	for range 3 {
		if l.Allow() || l.AllowKey("k") {
			t.Fatal("Allow = true, want the denial of the store")
		}
	}
}

// TestShortFormClosed checks that a closed store admits nothing.
func TestShortFormClosed(t *testing.T) {
	s := newStore(t, memstore.Config{})
	l, err := weir.New(s, weir.MustLimit("1000/s"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if !l.Allow() || !l.AllowKey("k") {
			t.Fatal("Allow = false, want true")
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if l.Allow() || l.AllowKey("k") {
		t.Error("Allow of a closed store = true, want false")
	}
}
