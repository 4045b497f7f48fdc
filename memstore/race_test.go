package memstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// TestGrowthLosesNothing checks that however many come at once to keys while their shards
// grow, each key admits exactly what its limit says.
func TestGrowthLosesNothing(t *testing.T) {
	const askers, known, each = 8, 64, 100
	s := newStore(t, memstore.Config{Clock: func() int64 { return 1_000_000 }})
	limit := weir.MustLimit("100/h")
	wide := weir.MustLimit("100/h fixed_window")
	keys := keysOf(known)
	var admitted [askers][2][known]int
	var wg sync.WaitGroup
	for a := range askers {
		wg.Go(func() {
			fresh := 0
			for round := range each {
				for k, key := range keys {
					for i, l := range []weir.Limit{limit, wide} {
						if d := take(t, s, key, l, 1); d.OK {
							admitted[a][i][k]++
						}
					}
					if (k+round)%8 == a { // something new, so that tables grow
						take(t, s, "new "+strconv.Itoa(a)+" "+strconv.Itoa(fresh), limit, 1)
						fresh++
					}
				}
			}
		})
	}
	wg.Wait()
	for i, name := range []string{"token bucket", "fixed window"} {
		for k := range keys {
			sum := 0
			for a := range askers {
				sum += admitted[a][i][k]
			}
			if sum != 100 {
				t.Errorf("%s, key %d: %d admitted, want 100", name, k, sum)
			}
		}
	}
}

// TestMovingLosesNothing checks that no charge is lost while the only table of a small
// store moves again and again, as keys come and go.
func TestMovingLosesNothing(t *testing.T) {
	fleeting, limit := weir.MustLimit("1000000/s"), weir.MustLimit("1000000/1000h")
	now := clockAt(begin)
	s := newStore(t, memstore.Config{MaxKeys: 64, Clock: now.Load})
	var wg sync.WaitGroup
	var stop atomic.Bool
	var taken [2]int64
	for i, key := range keysOf(2) {
		take(t, s, key, limit, 1)
		wg.Go(func() {
			for taken[i] = 1; !stop.Load() && taken[i] < 900_000; taken[i]++ {
				take(t, s, key, limit, 1)
			}
		})
	}
	moves := 100_000
	if racing {
		moves /= 4
	}
	for i := range moves {
		take(t, s, strconv.Itoa(i), fleeting, 1)
		now.Add(2)
	}
	stop.Store(true)
	wg.Wait()
	for i, key := range keysOf(2) {
		if d := do(t, s, weir.Request{Verb: weir.Peek, Key: key, Limit: limit}); d.Remaining != 1_000_000-taken[i] {
			t.Errorf("%d remaining, want %d", d.Remaining, 1_000_000-taken[i])
		}
	}
}

// TestTogetherIsSeenTogether checks that two keys that are always charged together are
// observed together, while tables grow. A batch finds them equal, and of two requests in
// a row the second one never finds its key behind.
func TestTogetherIsSeenTogether(t *testing.T) {
	const rounds = 2000
	for _, texts := range [][2]string{
		{"1000000/h", "1000000/h"},
		{"1000000/h", "1000000/h fixed_window"},
		{"1000000/h fixed_window", "1000000/h sliding_window"},
	} {
		first, second := weir.MustLimit(texts[0]), weir.MustLimit(texts[1])
		s := newStore(t, memstore.Config{MaxKeys: 1 << 16, Clock: clockAt(begin).Load})
		both := func(verb weir.Verb, n int64) []weir.Request {
			return []weir.Request{{Verb: verb, Key: "a", Limit: first, N: n}, {Verb: verb, Key: "b", Limit: second, N: n}}
		}
		var wg sync.WaitGroup
		var stop atomic.Bool
		for w := range 2 {
			wg.Go(func() {
				ds := make([]weir.Decision, 2)
				for i := range rounds {
					if ok, err := s.DoAll(context.Background(), both(weir.Take, 1), ds); !ok || err != nil {
						t.Errorf("DoAll = %t, %v", ok, err)
					}
					rs := both(weir.Take, 1)
					rs[1].N = second.Capacity() + 1
					if ok, err := s.DoAll(context.Background(), rs, ds); ok || err != nil {
						t.Errorf("DoAll above the capacity = %t, %v", ok, err)
					}
					take(t, s, "new "+strconv.Itoa(w*rounds+i), first, 1)
				}
				stop.Store(true)
			})
		}
		for range 2 {
			wg.Go(func() {
				ds := make([]weir.Decision, 2)
				for !stop.Load() {
					if _, err := s.DoAll(context.Background(), both(weir.Peek, 1), ds); err != nil || ds[0].Remaining != ds[1].Remaining {
						t.Errorf("%s and %s: %d and %d remaining at one instant, %v", first, second, ds[0].Remaining, ds[1].Remaining, err)
						return
					}
					a := do(t, s, both(weir.Peek, 1)[0])
					b := do(t, s, both(weir.Peek, 1)[1])
					if b.Remaining > a.Remaining {
						t.Errorf("%s then %s: %d then %d remaining", first, second, a.Remaining, b.Remaining)
						return
					}
				}
			})
		}
		wg.Wait()
		if d := do(t, s, both(weir.Peek, 1)[0]); d.Remaining != 1_000_000-2*rounds {
			t.Errorf("%s: %d remaining at the end, want %d", first, d.Remaining, 1_000_000-2*rounds)
		}
	}
}

// TestBatchesMeetSingles checks that no charge is lost where batches, which hold a lock,
// meet single requests, which need none.
func TestBatchesMeetSingles(t *testing.T) {
	const rounds = 3000
	limit := weir.MustLimit("1000000/h")
	s := newStore(t, memstore.Config{Clock: clockAt(begin).Load})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			ds := make([]weir.Decision, 2)
			for range rounds {
				rs := []weir.Request{{Key: "a", Limit: limit, N: 1}, {Key: "b", Limit: limit, N: 1}}
				if ok, err := s.DoAll(context.Background(), rs, ds); !ok || err != nil {
					t.Errorf("DoAll = %t, %v", ok, err)
				}
			}
		})
		wg.Go(func() {
			for range rounds {
				take(t, s, "a", limit, 1)
				take(t, s, "b", limit, 1)
				do(t, s, weir.Request{Verb: weir.Return, Key: "b", Limit: limit, N: 1})
			}
		})
	}
	wg.Wait()
	for key, want := range map[string]int64{"a": 1_000_000 - 4*rounds, "b": 1_000_000 - 2*rounds} {
		if d := do(t, s, weir.Request{Verb: weir.Peek, Key: key, Limit: limit}); d.Remaining != want {
			t.Errorf("%d remaining of %s, want %d", d.Remaining, key, want)
		}
	}
}

// TestReservationsRunOutUnderLoad checks that reservations that expire under load go
// back once each, and that later requests are then admitted.
func TestReservationsRunOutUnderLoad(t *testing.T) {
	for _, text := range []string{"100/1000h", "100/1000h fixed_window"} {
		limit := weir.MustLimit(text)
		now := clockAt(begin)
		s := newStore(t, memstore.Config{Clock: now.Load})
		for round := range 50 {
			do(t, s, weir.Request{Verb: weir.Reserve, Key: "k", Limit: limit, N: 100, ID: strconv.Itoa(round), TTL: time.Millisecond})
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for g := range 4 {
				wg.Go(func() {
					if g == 0 {
						now.Add(1000)
					}
					late := now.Load() >= begin+1000*int64(round+1)
					for range 10 {
						d := take(t, s, "k", limit, 1)
						if d.OK {
							admitted.Add(1)
						} else if late {
							t.Errorf("%s, round %d: denied after the reservation ran out", limit, round)
						}
					}
				})
			}
			wg.Wait()
			if d := do(t, s, weir.Request{Verb: weir.Peek, Key: "k", Limit: limit, N: 1}); d.Remaining != 100-admitted.Load() {
				t.Fatalf("%s, round %d: %d remaining after %d admitted", limit, round, d.Remaining, admitted.Load())
			}
			do(t, s, weir.Request{Verb: weir.Return, Key: "k", Limit: limit, N: admitted.Load()})
		}
	}
}

// TestAccounts checks that whatever happens, what the store says it uses is what it uses:
// when everything has been forgotten, nothing.
func TestAccounts(t *testing.T) {
	limits := []weir.Limit{}
	for _, text := range []string{"5/s", "5/s fixed_window", "50/s sliding_log", "50 concurrency lease 1s", "1000003/s burst 3"} {
		limits = append(limits, weir.MustLimit(text))
	}
	var now atomic.Int64
	now.Store(begin)
	s := newStore(t, memstore.Config{MaxKeys: 200, Full: memstore.Share, Clock: now.Load})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(g), 1))
			for range 5000 {
				var rs []weir.Request
				for range 1 + r.IntN(3) {
					q := weir.Request{
						Verb: weir.Verb(r.IntN(9)), Key: strconv.Itoa(r.IntN(100)), Limit: limits[r.IntN(len(limits))],
						N: 1 + r.Int64N(8), ID: strconv.Itoa(r.IntN(5)), TTL: time.Duration(1+r.IntN(2000)) * time.Millisecond,
					}
					if r.IntN(3) == 0 {
						q.From = []weir.Limit{limits[r.IntN(len(limits))]}
					}
					rs = append(rs, q)
				}
				_, err := s.DoAll(context.Background(), rs, make([]weir.Decision, len(rs)))
				if err != nil && !errors.Is(err, weir.ErrFull) && !errors.Is(err, weir.ErrNoReservation) {
					t.Error(err)
				}
				if st := s.Stats(); st.Used > 200+len(limits) {
					t.Errorf("%+v, want at most %d used", st, 200+len(limits))
				}
				now.Add(r.Int64N(10_000))
			}
		})
	}
	wg.Wait()
	now.Add(hour)
	for _, l := range limits { // makes room, and settles what ran out
		for i := range 200 {
			take(t, s, "late "+strconv.Itoa(i), l, 1)
		}
		now.Add(hour)
	}
	for i := range 200 { // each is forgotten by name
		for _, l := range limits {
			do(t, s, weir.Request{Verb: weir.Reset, Key: "late " + strconv.Itoa(i), Limit: l})
			do(t, s, weir.Request{Verb: weir.Reset, Key: strconv.Itoa(i), Limit: l})
		}
	}
	if st := s.Stats(); st.Keys != st.Used || st.Reservations != 0 || st.Keys > len(limits) {
		t.Errorf("at the end %+v, want no reservations and only shared states", st)
	}
}
