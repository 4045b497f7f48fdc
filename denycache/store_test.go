package denycache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// counted is a memory store with the clock of the bubble that counts its calls. Each call
// takes a round trip.
type counted struct {
	*memstore.Store
	calls     atomic.Int64
	roundTrip time.Duration
	fail      func() error // nil: never
}

func bubble(t *testing.T, roundTrip time.Duration) *counted {
	t.Helper()
	mem, err := memstore.New(memstore.Config{Clock: func() int64 { return time.Now().UnixMicro() }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mem.Close() })
	return &counted{Store: mem, roundTrip: roundTrip}
}

func (s *counted) call() error {
	s.calls.Add(1)
	if s.fail == nil {
		return nil
	}
	return s.fail()
}

func (s *counted) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if err := s.call(); err != nil {
		return weir.Decision{}, err
	}
	sleep(s.roundTrip / 2)
	d, err := s.Store.Do(ctx, r)
	sleep(s.roundTrip / 2)
	return d, err
}

func (s *counted) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if err := s.call(); err != nil {
		return false, err
	}
	sleep(s.roundTrip / 2)
	ok, err := s.Store.DoAll(ctx, rs, ds)
	sleep(s.roundTrip / 2)
	return ok, err
}

// sleep waits in virtual time.
func sleep(d time.Duration) { <-time.After(d) }

func take(key, limit string, n int64) weir.Request {
	return weir.Request{Key: key, Limit: weir.MustLimit(limit), N: n}
}

// TestHotKey offers 50,000 requests per second to a key with a limit of 100 per second. The
// stores have short and long round trips, also longer than the time of a token. The store gets
// few calls for each admission, and the limit is used. Each denial held at some time of its
// request and at its At, and no request waits for long.
func TestHotKey(t *testing.T) {
	const seconds, token = 2, 10 * time.Millisecond
	for name, c := range map[string]struct {
		roundTrip, jitter time.Duration
		calls             int64 // at most, for each admission
		used              int64 // at least, in percent of the limit
	}{
		"short":     {200 * time.Microsecond, 0, 2, 95},
		"usual":     {2 * time.Millisecond, 0, 2, 75},
		"irregular": {time.Millisecond, 9 * time.Millisecond, 3, 60},
		"long":      {15 * time.Millisecond, 0, 3, 40},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := bubble(t, c.roundTrip)
			var mu sync.Mutex
			var random = rand.New(rand.NewPCG(1, 1))
			var longest time.Duration // round trip
			store.fail = func() error {
				mu.Lock()
				extra := time.Duration(random.Int64N(int64(c.jitter) + 1))
				longest = max(longest, c.roundTrip+extra)
				mu.Unlock()
				sleep(extra)
				return nil
			}
			cache := open(t, store, denycache.Config{})
			limited := take("a", "100/s burst 1", 1)
			type denial struct{ from, to, at time.Time }
			var admitted []time.Time
			var denials []denial
			var slowest time.Duration
			var all sync.WaitGroup
			start, started := time.Now(), int64(0)
			for range seconds * 50_000 {
				if time.Since(start) < 2*(c.roundTrip+c.jitter) { // no denial to repeat yet
					started = store.calls.Load()
				}
				all.Go(func() {
					from := time.Now()
					d, err := cache.Do(t.Context(), limited)
					to := time.Now()
					mu.Lock()
					defer mu.Unlock()
					slowest = max(slowest, to.Sub(from))
					switch {
					case err != nil:
						t.Error(err)
					case d.OK:
						admitted = append(admitted, d.At)
					default:
						denials = append(denials, denial{from, to, d.At})
					}
				})
				sleep(20 * time.Microsecond)
			}
			all.Wait()
			calls, due := store.calls.Load()-started, 100*time.Since(start).Milliseconds()/1000+1
			n := int64(len(admitted))
			t.Logf("%s: admitted %d of %d, calls %d after the first %d, repeated %d, slowest %v", name, n, due, calls, started, cache.Stats().Repeated, slowest)
			if n > due || n < due*c.used/100 {
				t.Errorf("%s: admitted %d of %d, want at least %d %%", name, n, due, c.used)
			}
			if most := c.calls*n + seconds; calls > most {
				t.Errorf("%s: %d calls, want at most %d", name, calls, most)
			}
			if most := 3*longest + 5*time.Millisecond; slowest > most {
				t.Errorf("%s: a request took %v, want at most %v", name, slowest, most)
			}
			slices.SortFunc(admitted, time.Time.Compare)
			for _, d := range denials {
				// The last admission until the denial left no token before its request.
				i, _ := slices.BinarySearchFunc(admitted, d.to.Add(1), time.Time.Compare)
				if i == 0 || !admitted[i-1].Add(token).After(d.from) {
					t.Fatalf("%s: denied from %v to %v, when a token was left", name, d.from, d.to)
				}
				i, _ = slices.BinarySearchFunc(admitted, d.at.Add(1), time.Time.Compare)
				if i == 0 || !admitted[i-1].Add(token).After(d.at) || d.at.After(d.to) {
					t.Fatalf("%s: denied from %v to %v as of %v, when a token was left", name, d.from, d.to, d.at)
				}
			}
		})
	}
}

// TestRetryAfter checks the decision of a repeated denial over its time, and that the request
// is admitted exactly when RetryAfter has passed.
func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubble(t, 0)
		cache := open(t, store, denycache.Config{})
		r := take("a", "2/s burst 1", 1)
		ctx := t.Context()
		cache.Do(ctx, r)
		first, _ := cache.Do(ctx, r)
		for _, passed := range []time.Duration{0, time.Microsecond, 100*time.Millisecond + 1, 499_999 * time.Microsecond} {
			sleep(passed - time.Since(first.At))
			want, _ := store.Store.Do(ctx, r)
			if got, err := cache.Do(ctx, r); err != nil || got.OK || got != want {
				t.Errorf("after %v: %+v, %v, want %+v", passed, got, err, want)
			}
		}
		if n := store.calls.Load(); n != 2 {
			t.Errorf("%d calls, want 2", n)
		}
		sleep(first.RetryAfter - time.Since(first.At))
		if d, err := cache.Do(ctx, r); err != nil || !d.OK {
			t.Errorf("after RetryAfter: %+v, %v, want an admission", d, err)
		}
	})
}

// TestLateDenial has a request receive a denial after that has ended, as on a busy machine. Its
// At is the last moment at which the denial held.
func TestLateDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubble(t, 0)
		cache := open(t, store, denycache.Config{})
		start := time.Now()
		cache.SetClock(func() time.Duration { return time.Since(start) })
		r := take("a", "2/s burst 1", 1)
		cache.Do(t.Context(), r)
		cache.Do(t.Context(), r)
		sleep(700 * time.Millisecond)
		got, denied := cache.DenyLate(r, 400*time.Millisecond)
		if d := got[0]; !denied || d.OK || d.At.Sub(start) != 499_999*time.Microsecond || d.RetryAfter != time.Microsecond {
			t.Errorf("denied: %t, %+v, want a denial after 499.999 ms", denied, d)
		}
		if _, denied := cache.DenyLate(r, 500*time.Millisecond); denied {
			t.Error("denied after RetryAfter")
		}
	})
}

// TestChanges checks that each request that can end a denial does so at once in its process,
// and in another one after MaxAge.
func TestChanges(t *testing.T) {
	const limit = "2/h"
	reserved := take("a", limit, 1)
	reserved.Verb, reserved.ID, reserved.TTL = weir.Reserve, "x", time.Hour
	by := func(v weir.Verb) weir.Request {
		r := reserved
		r.Verb, r.N = v, 0
		if v == weir.Return {
			r.N = 1
		}
		return r
	}
	moved := take("b", limit, 1)
	moved.From = []weir.Limit{weir.MustLimit("2/h burst 3")}
	for name, change := range map[string][]weir.Request{
		"return":         {by(weir.Return)},
		"reset":          {by(weir.Reset)},
		"commit":         {by(weir.Commit)},
		"cancel":         {by(weir.Cancel)},
		"return, reset":  {by(weir.Return), by(weir.Reset)},
		"return, denied": {by(weir.Return), take("b", "1/s", 2)},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, ctx := bubble(t, 0), t.Context()
			here, there := open(t, store, denycache.Config{}), open(t, store, denycache.Config{})
			r := take("a", limit, 1)
			r.Verb = weir.TakeUpTo
			for _, q := range []weir.Request{reserved, r} {
				if d, err := here.Do(ctx, q); !d.OK || err != nil {
					t.Fatal(d, err)
				}
			}
			for range 3 {
				for _, cache := range []weir.Store{here, there} {
					if d, err := cache.Do(ctx, r); d.OK || err != nil {
						t.Errorf("%s: got %+v, %v before, want a denial", name, d, err)
					}
				}
			}
			if n := store.calls.Load(); n != 4 {
				t.Errorf("%s: %d calls, want 4", name, n)
			}
			ok, err := here.DoAll(ctx, change, make([]weir.Decision, len(change)))
			if err != nil {
				t.Fatal(err)
			}
			if d, err := here.Do(ctx, r); d.OK != ok || err != nil {
				t.Errorf("%s: OK = %v, %v at once, want %v", name, d.OK, err, ok)
			}
			if !ok {
				return
			}
			here.Do(ctx, by(weir.Reset))
			sleep(denycache.DefaultMaxAge - 1)
			if d, err := there.Do(ctx, r); d.OK || err != nil {
				t.Errorf("%s: OK = %v, %v in another process before MaxAge", name, d.OK, err)
			}
			sleep(1)
			if d, err := there.Do(ctx, r); !d.OK || err != nil {
				t.Errorf("%s: OK = %v, %v in another process after MaxAge, want an admission", name, d.OK, err)
			}
		})
	}
}

// TestLostReply checks that a request without a reply, which may have taken or returned tokens,
// ends the repetition of a denial of its key.
func TestLostReply(t *testing.T) {
	for _, verb := range []weir.Verb{weir.Take, weir.TakeUpTo, weir.Charge, weir.Return, weir.Reset} {
		synctest.Test(t, func(t *testing.T) {
			store, ctx := bubble(t, 0), t.Context()
			cache := open(t, store, denycache.Config{})
			cache.Do(ctx, take("a", "3/h", 2))
			denied := take("a", "3/h", 2)
			cache.Do(ctx, denied)
			lost := take("a", "3/h", 1)
			lost.Verb = verb
			store.fail = func() error { return weir.ErrUnavailable }
			if _, err := cache.Do(ctx, lost); !errors.Is(err, weir.ErrUnavailable) {
				t.Fatalf("%s: error %v, want ErrUnavailable", verb, err)
			}
			if _, err := cache.Do(ctx, denied); !errors.Is(err, weir.ErrUnavailable) {
				t.Errorf("after %s without a reply: error %v, want a call of the store", verb, err)
			}
		})
	}
}

// TestLimitChanges checks that a change of the limit ends a denial at once: another limit, the
// same limit after others, and another limit of a shared state.
func TestLimitChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ctx := bubble(t, 0), t.Context()
		cache := open(t, store, denycache.Config{})
		small, large := weir.MustLimit("1/h"), weir.MustLimit("9/h burst 3")
		lim, err := weir.New(cache, small, weir.Config{})
		if err != nil {
			t.Fatal(err)
		}
		taken := func(want ...bool) {
			t.Helper()
			for i, want := range want {
				if d, err := lim.Take(ctx, "a", 1); d.OK != want || err != nil {
					t.Errorf("%d: OK = %v, %v, want %v", i, d.OK, err, want)
				}
			}
		}
		taken(true, false, false)
		for _, l := range []weir.Limit{large, small} {
			if err := lim.SetLimit(l, weir.CarryReset); err != nil {
				t.Fatal(err)
			}
			if l == large {
				taken(true, true, true, false, false)
			}
		}
		// The state of small is the one before: the store denies.
		calls := store.calls.Load()
		if lim.Take(ctx, "a", 1); store.calls.Load() == calls {
			t.Error("a denial from before two changes of the limit was repeated")
		}

		small, large = small.Named("n"), large.Named("n")
		of := func(l weir.Limit) weir.Request { return weir.Request{Key: "b", Limit: l, N: 1} }
		cache.Do(ctx, of(small))
		cache.Do(ctx, of(small))
		calls = store.calls.Load()
		cache.Do(ctx, of(small))
		if n := store.calls.Load(); n != calls {
			t.Errorf("%d calls for a repeated denial under a named limit", n-calls)
		}
		cache.Do(ctx, of(large)) // migrates the state
		calls = store.calls.Load()
		if cache.Do(ctx, of(small)); store.calls.Load() == calls {
			t.Error("a denial from before a migration of the state was repeated")
		}
	})
}

// TestNotRepeated lists what always calls the store.
func TestNotRepeated(t *testing.T) {
	denial := weir.Decision{RetryAfter: time.Hour}
	reserve := take("a", "1/h", 1)
	reserve.Verb, reserve.ID, reserve.TTL = weir.Reserve, "x", time.Hour
	peek := take("a", "1/h", 1)
	peek.Verb = weir.Peek
	many := slices.Repeat([]weir.Request{take("a", "1/h", 1)}, 17)
	for name, c := range map[string]struct {
		store weir.Store
		rs    []weir.Request
		calls int64
	}{
		"a denial":              {fakestore.Answering(denial), []weir.Request{take("a", "1/h", 1)}, 1},
		"a batch":               {fakestore.Answering(denial), many[:16], 1},
		"a cost above capacity": {fakestore.Answering(weir.Decision{RetryAfter: weir.Never}), []weir.Request{take("a", "1/h", 2)}, 1},
		"a large batch":         {fakestore.Answering(denial), many, 4},
		"an admission":          {fakestore.Answering(weir.Decision{OK: true}), []weir.Request{take("a", "1/h", 1)}, 4},
		"a peek":                {fakestore.Answering(denial), []weir.Request{peek}, 4},
		"a reservation":         {fakestore.Answering(denial), []weir.Request{reserve}, 4},
		"0 tokens":              {fakestore.Answering(denial), []weir.Request{take("a", "1/h", 0)}, 4},
		"slots":                 {fakestore.Answering(denial), []weir.Request{{Key: "a", Limit: must(weir.Concurrency{Count: 1}), N: 1}}, 4},
		"an unknown wait":       {fakestore.Answering(weir.Decision{}), []weir.Request{take("a", "1/h", 1)}, 4},
		"a long key":            {fakestore.Answering(denial), []weir.Request{take(string(make([]byte, 1025)), "1/h", 1)}, 4},
		"a degraded decision":   {fakestore.Answering(weir.Decision{RetryAfter: time.Hour, Degraded: policy.Local}), []weir.Request{take("a", "1/h", 1)}, 4},
		"an error":              {fakestore.Failing(weir.ErrUnavailable), []weir.Request{take("a", "1/h", 1)}, 4},
	} {
		var calls atomic.Int64
		count := func(context.Context, *weir.Request) error { calls.Add(1); return nil }
		cache := open(t, fakestore.Around(c.store, count, nil), denycache.Config{})
		for range 2 {
			cache.DoAll(t.Context(), c.rs, make([]weir.Decision, len(c.rs)))
		}
		for range 2 {
			if len(c.rs) == 1 {
				cache.Do(t.Context(), c.rs[0])
			} else {
				cache.DoAll(t.Context(), c.rs, make([]weir.Decision, len(c.rs)))
			}
		}
		if got := calls.Load(); got != c.calls*int64(len(c.rs)) {
			t.Errorf("%s: %d requests in the store, want %d", name, got, c.calls*int64(len(c.rs)))
		}
	}
}

// TestProbe checks the requests that wait for the decision of an equal one after a denial has
// ended: if its context ends, if the store fails, panics or stalls.
func TestProbe(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		fail  func() error
		most  time.Duration // that a waiter may take
		calls int64
	}{
		"admitted": {nil, 2 * time.Millisecond, 10},
		"fails":    {func() error { sleep(time.Millisecond); return broken }, 2 * time.Millisecond, 10},
		"panics":   {func() error { sleep(time.Millisecond); panic(broken) }, 2 * time.Millisecond, 10},
		"stalls":   {func() error { sleep(time.Second); return broken }, time.Second + 8*time.Millisecond, 10},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := bubble(t, time.Millisecond)
			cache := open(t, store, denycache.Config{})
			r := take("a", "100/1s fixed_window", 1)
			all := r
			all.N = 100
			cache.Do(t.Context(), all)
			cache.Do(t.Context(), r)
			sleep(time.Second)
			store.calls.Store(0)
			store.fail = c.fail
			start := time.Now()
			var done sync.WaitGroup
			for i := range 10 {
				done.Go(func() {
					defer func() {
						if e := recover(); e != nil && e != broken {
							panic(e)
						}
						if took := time.Since(start); took > c.most {
							t.Errorf("%s: request %d took %v, want at most %v", name, i, took, c.most)
						}
					}()
					if d, err := cache.Do(t.Context(), r); c.fail == nil && (!d.OK || err != nil) || c.fail != nil && !errors.Is(err, broken) {
						t.Errorf("%s: %+v, %v", name, d, err)
					}
				})
			}
			ctx, cancel := context.WithCancel(t.Context())
			done.Go(func() {
				synctest.Wait()
				cancel()
			})
			done.Go(func() {
				defer func() { _ = recover() }()
				cache.Do(ctx, r)
			})
			done.Wait()
			if n := store.calls.Load(); n < c.calls {
				t.Errorf("%s: %d calls, want at least %d", name, n, c.calls)
			}
		})
	}
}

// TestBounded checks that an attacker with many keys does not grow the cache, and that it
// replaces denials that have ended first.
func TestBounded(t *testing.T) {
	cache := open(t, fakestore.Answering(weir.Decision{RetryAfter: time.Hour}), denycache.Config{MaxKeys: 1000})
	for i := range 100_000 {
		cache.Do(t.Context(), take(fmt.Sprint(i), "1/h", 1))
	}
	if s := cache.Stats(); s.Keys > s.MaxKeys || s.MaxKeys != 1024 || s.Keys < 900 {
		t.Errorf("%+v, want 900 to 1024 keys", s)
	}
	for name, c := range map[string]denycache.Config{
		"MaxKeys": {MaxKeys: -1}, "many": {MaxKeys: 1 << 25}, "MaxAge": {MaxAge: -1}, "long": {MaxAge: time.Hour},
	} {
		if _, err := denycache.New(fakestore.Memory(t), c); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	if _, err := denycache.New(nil, denycache.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("no store: %v, want ErrInvalid", err)
	}
}

// TestRace takes, returns and resets few keys from several goroutines. After the last Reset, a
// key is not denied.
func TestRace(t *testing.T) {
	cache := open(t, fakestore.Memory(t), denycache.Config{MaxKeys: 8})
	var all sync.WaitGroup
	for g := range 8 {
		all.Go(func() {
			ds := make([]weir.Decision, 2)
			own := fmt.Sprint("own", g)
			for i := range 2000 {
				cache.Do(t.Context(), take("a", "2/h", 1))
				cache.DoAll(t.Context(), []weir.Request{take("a", "2/h", 1), take("b", "2/h", 1)}, ds)
				for range 3 {
					cache.Do(t.Context(), take(own, "2/h", 1))
				}
				reset := take(own, "2/h", 0)
				reset.Verb = weir.Reset
				cache.Do(t.Context(), reset)
				if d, err := cache.Do(t.Context(), take(own, "2/h", 1)); !d.OK || err != nil {
					t.Errorf("after a Reset: %+v, %v", d, err)
				}
				if i%7 == g%7 {
					reset.Key = "a"
					cache.Do(t.Context(), reset)
				}
			}
		})
	}
	all.Wait()
}

func repeating(tb testing.TB) (*denycache.Store, []weir.Request) {
	cache := open(tb, fakestore.Answering(weir.Decision{RetryAfter: time.Hour}), denycache.Config{MaxAge: time.Minute})
	rs := []weir.Request{take("203.0.113.7", "1/h", 1), take("api", "100/s", 1)}
	cache.Do(context.Background(), rs[0])
	cache.DoAll(context.Background(), rs, make([]weir.Decision, 2))
	return cache, rs
}

// TestAllocations checks that a repeated denial allocates nothing.
func TestAllocations(t *testing.T) {
	cache, rs := repeating(t)
	ds := make([]weir.Decision, 2)
	if n := testing.AllocsPerRun(1000, func() {
		cache.Do(context.Background(), rs[0])
		cache.DoAll(context.Background(), rs, ds)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
	if n := cache.Stats().Repeated; n < 2000 {
		t.Errorf("%d repeated, want all", n)
	}
}

// TestAllocationsOfCalls checks that an admitted call of the store allocates nothing.
func TestAllocationsOfCalls(t *testing.T) {
	cache := open(t, fakestore.Answering(weir.Decision{OK: true, Remaining: 5}), denycache.Config{})
	rs := []weir.Request{take("203.0.113.7", "9/h", 1), take("api", "100/s", 1)}
	ds := make([]weir.Decision, 2)
	if n := testing.AllocsPerRun(1000, func() {
		cache.Do(context.Background(), rs[0])
		cache.DoAll(context.Background(), rs, ds)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkRepeat(b *testing.B) {
	cache, rs := repeating(b)
	ds := make([]weir.Decision, 2)
	b.Run("one", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cache.Do(context.Background(), rs[0])
		}
	})
	b.Run("batch", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			cache.DoAll(context.Background(), rs, ds)
		}
	})
}

// TestDeniedReservationMoves checks that a denied reservation under another limit, which moves
// the state of the former one, ends the repetition of the former limit's denials.
func TestDeniedReservationMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, ctx := bubble(t, 0), t.Context()
		cache := open(t, store, denycache.Config{})
		used := take("a", "1/h", 1)
		for i := range 3 {
			if d, err := cache.Do(ctx, used); err != nil || d.OK != (i == 0) {
				t.Fatalf("request %d: %+v, %v", i, d, err)
			}
		}
		moved := take("a", "2/h burst 2", 2)
		moved.Verb, moved.ID, moved.TTL = weir.Reserve, "x", time.Hour
		moved.From, moved.Carry = []weir.Limit{used.Limit}, weir.CarryProportional
		if d, err := cache.Do(ctx, moved); err != nil || d.OK {
			t.Fatalf("reservation: %+v, %v, want a denial", d, err)
		}
		want, _ := store.Store.Do(ctx, weir.Request{Verb: weir.Peek, Key: "a", Limit: used.Limit, N: 1})
		if got, err := cache.Do(ctx, used); err != nil || got.OK != want.OK || !got.OK {
			t.Errorf("after the move: OK = %v, %v, want %v as in the store", got.OK, err, want.OK)
		}
	})
}
