package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// waiting returns a policy that holds requests back for at most d.
func waiting(name string, d time.Duration, limit ...string) policy.Config {
	return policy.Config{Name: name, Limits: limits(limit...), OnDenied: policy.OnDenied{Wait: d}}
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		h := wrap(t, store, set(t,
			waiting("slow", 3*time.Second, "1/s"),
			policy.Config{Name: "daily", Match: policy.Match{Paths: []string{"/daily"}}, Limits: limits("2/24h")},
		), httplimit.Config{})
		for step, want := range []struct {
			path   string
			after  time.Duration
			status int
			remain string
		}{
			{"/daily", 0, 200, `"slow";r=0;t=1, "daily";r=1;t=43200`},
			{"/daily", time.Second, 200, `"slow";r=0;t=1, "daily";r=0;t=86399`},
			{"/daily", 0, 429, `"slow";r=0;t=1, "daily";r=0;t=43199`}, // no wait is long enough for daily
			{"/", time.Second, 200, `"slow";r=0;t=1`},
		} {
			start := time.Now()
			w := get(h, want.path, peer)
			if got := time.Since(start); w.Code != want.status || got != want.after || w.Header().Get("RateLimit") != want.remain {
				t.Errorf("step %d: %d after %v with %s, want %d after %v with %s", step, w.Code, got, w.Header().Get("RateLimit"), want.status, want.after, want.remain)
			}
		}
	})
}

// TestWaitOfTheDenyingPolicy checks that the wait of the denying policy applies.
func TestWaitOfTheDenyingPolicy(t *testing.T) {
	for _, tc := range []struct {
		name        string
		short, long time.Duration
		status      int
		after       time.Duration
	}{
		{"the one that holds back longest does not wait", 10 * time.Second, 0, 429, 0},
		{"it waits, but not so long", 10 * time.Second, 4*time.Second - 1, 429, 0},
		{"it waits long enough", 0, 4 * time.Second, 200, 4 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := bubbled(t)
			defer store.Close()
			h := wrap(t, store, set(t, waiting("short", tc.short, "1/s"), waiting("long", tc.long, "1/4s")), httplimit.Config{})
			get(h, "/", peer)
			start := time.Now()
			if w := get(h, "/", peer); w.Code != tc.status || time.Since(start) != tc.after {
				t.Errorf("%s: %d after %v, want %d after %v", tc.name, w.Code, time.Since(start), tc.status, tc.after)
			}
		})
	}
}

// TestWaitIsFair checks that 64 requests of one key are served in order, each at the first
// possible time, and that one at a time asks the store.
func TestWaitIsFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		var asked, asking atomic.Int64
		counting := fakestore.Store{One: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
			asked.Add(1)
			if asking.Add(1) > 1 {
				t.Error("two requests of a key ask at once")
			}
			defer asking.Add(-1)
			<-time.After(time.Microsecond)
			return store.Do(ctx, r)
		}}
		h := wrap(t, counting, set(t, waiting("p", time.Minute, "10/s burst 1")), httplimit.Config{})
		const n = 64
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		start := time.Now()
		for i := range n {
			all.Go(func() {
				if w := get(h, "/", peer); w.Code != 200 {
					t.Errorf("request %d = %d, want 200", i, w.Code)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
				if got, want := time.Since(start), time.Duration(i)*100*time.Millisecond; got < want || got > want+time.Millisecond {
					t.Errorf("request %d is served after %v, want %v", i, got, want)
				}
			})
			<-time.After(10 * time.Microsecond)
		}
		<-time.After(time.Second + 50*time.Millisecond) // no other request asks now
		other := time.Now()
		if w := get(h, "/", "203.0.113.8:1"); w.Code != 200 || time.Since(other) > time.Millisecond {
			t.Errorf("a request of another key = %d after %v, want 200 at once", w.Code, time.Since(other))
		}
		all.Wait()
		if !slices.IsSorted(order) || len(order) != n {
			t.Errorf("served in the order %v, want that in which they came", order)
		}
		if got := asked.Load(); got > 3*n {
			t.Errorf("%d requests ask the store %d times, want at most %d", n, got, 3*n)
		}
	})
}

// TestWaitingIsBounded checks that a request is denied at once if MaxWaiters wait, and takes
// nothing.
func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		c := httplimit.Config{Options: enforce.Options{MaxWaiters: 2}}
		h := wrap(t, store, set(t, waiting("p", time.Minute, "1/s burst 1")), c)
		get(h, "/", peer)
		get(h, "/", "203.0.113.8:1")
		codes := make([]int, 2)
		for i := range codes {
			go func() { codes[i] = get(h, "/", peer).Code }()
			synctest.Wait()
		}
		start := time.Now()
		for step, addr := range []string{peer, "203.0.113.8:1"} { // of the same queue, and of another
			w := get(h, "/", addr)
			if w.Code != 429 || time.Since(start) != 0 || w.Header().Get("Retry-After") != []string{"3", "1"}[step] {
				t.Errorf("step %d: with the room full, %d after %v with Retry-After %q, want 429 at once", step, w.Code, time.Since(start), w.Header().Get("Retry-After"))
			}
		}
		after(2 * time.Second)
		if codes[0] != 200 || codes[1] != 200 {
			t.Errorf("those in the room = %v, want 200", codes)
		}
	})
}

// TestWaitAtOnce checks concurrent requests for several keys, of which some are canceled.
func TestWaitAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		h := wrap(t, store, set(t, waiting("p", 4*time.Second, "2/s burst 1")), httplimit.Config{Options: enforce.Options{MaxWaiters: 40}})
		for round := range 3 {
			var codes [600]atomic.Int64
			var all sync.WaitGroup
			for i := range 64 {
				ctx, cancel := context.WithCancel(t.Context())
				r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
				r.RemoteAddr = fmt.Sprintf("203.0.113.%d:1", i%4)
				all.Go(func() {
					defer cancel()
					w := httptest.NewRecorder()
					h.ServeHTTP(w, r)
					codes[w.Code].Add(1)
				})
				if i%16 == 15 {
					time.AfterFunc(700*time.Millisecond, cancel)
				}
			}
			all.Wait()
			// Each of 4 keys admits 1 at once and 8 in the 4 seconds, if so many wait.
			ok, denied, gone := codes[200].Load(), codes[429].Load(), codes[503].Load()
			if ok+denied+gone != 64 || ok < 20 || ok > 36 || denied < 20 {
				t.Errorf("round %d: %d served, %d denied, %d gone, want 64 in all, 20 to 36 served", round, ok, denied, gone)
			}
			after(time.Minute)
		}
	})
}

// TestDeniedInTheQueue checks that a request whose time ends in the queue is denied.
func TestDeniedInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		takes := 0
		store := fakestore.Store{One: func(_ context.Context, r weir.Request) (weir.Decision, error) {
			d := weir.Decision{OK: true, Limit: r.Limit}
			if r.Verb == weir.Take {
				switch takes++; takes {
				case 1:
					d.OK, d.RetryAfter = false, time.Second
				case 2:
					<-time.After(time.Minute)
				}
			}
			return d, nil
		}}
		c := httplimit.Config{}
		events := observed(&c)
		h := wrap(t, store, set(t, waiting("p", 2*time.Second, "1/s")), c)
		first := 0
		go func() { first = get(h, "/", peer).Code }()
		synctest.Wait()
		start := time.Now()
		w, got := get(h, "/", peer), events()
		if w.Code != 429 || time.Since(start) != 2*time.Second || !slices.Equal(got, []string{"p denied"}) {
			t.Errorf("%d after %v and %q, want 429 after 2s and p denied", w.Code, time.Since(start), got)
		}
		after(time.Minute)
		if first != 200 || takes != 2 {
			t.Errorf("the one before = %d after %d requests to take, want 200 after its 2", first, takes)
		}
	})
}

// TestWaitEndsWithTheClient checks that a request that is canceled while it waits takes
// nothing, and leaves its queue.
func TestWaitEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		var served atomic.Int64
		c := httplimit.Config{}
		events := observed(&c)
		p := waiting("p", time.Minute, "1/s burst 1")
		p.Count = policy.CountAll
		h := serving(t, store, set(t, p), c, func(http.ResponseWriter, *http.Request) { served.Add(1) })
		get(h, "/", peer)
		ctx, cancel := context.WithCancel(t.Context())
		gone := [2]*httptest.ResponseRecorder{httptest.NewRecorder(), httptest.NewRecorder()}
		for _, w := range gone { // one sleeps and the other queues
			r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
			r.RemoteAddr = peer
			go h.ServeHTTP(w, r)
			synctest.Wait()
		}
		start, last := time.Now(), time.Duration(0)
		go func() { get(h, "/", peer); last = time.Since(start) }()
		after(500 * time.Millisecond)
		cancel()
		after(10 * time.Second)
		if served.Load() != 2 || gone[0].Code != 503 || gone[1].Code != 503 {
			t.Errorf("served %d, those who went got %d and %d, want 2, 503 and 503", served.Load(), gone[0].Code, gone[1].Code)
		}
		if last != time.Second {
			t.Errorf("the one behind is served after %v, want 1s", last)
		}
		got, want := events(), []string{"p admitted", "p admitted", "p failed_closed error", "p failed_closed error"}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("events = %q, want %q", got, want)
		}
	})
}

// TestClientLeavesDuringDelay checks that requests that are admitted, and canceled during the
// delay of a queue, return their slots. Their tokens stay charged: leaving is not free.
func TestClientLeavesDuringDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		var served atomic.Int64
		h := serving(t, canceling(store), set(t, waiting("p", time.Minute, "1/s leaky_bucket burst 5 queue"), waiting("slot", 0, "4 concurrency lease 1h")), httplimit.Config{},
			func(http.ResponseWriter, *http.Request) { served.Add(1) })
		start := time.Now()
		get(h, "/", peer)
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			r := httptest.NewRequest("GET", "/", nil).WithContext(ctx)
			r.RemoteAddr = peer
			go h.ServeHTTP(httptest.NewRecorder(), r)
		}
		after(100 * time.Millisecond)
		if got := charged(t, store, "slot", "4 concurrency lease 1h"); got != 3 {
			t.Errorf("%d slots are taken during the delays, want 3", got)
		}
		cancel()
		synctest.Wait()
		if got := charged(t, store, "slot", "4 concurrency lease 1h"); got != 0 {
			t.Errorf("%d slots are taken after the clients left, want 0", got)
		}
		if got := get(h, "/", peer).Code; got != 200 || time.Since(start) != 4*time.Second || served.Load() != 2 {
			t.Errorf("the next one = %d after %v, %d served, want 200 after 4s, and 2", got, time.Since(start), served.Load())
		}
	})
}

// TestWaitForAnotherKey checks that a request that waited for one key can wait for another,
// and leaves the first queue.
func TestWaitForAnotherKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		all := waiting("all", time.Minute, "1/10s burst 1")
		all.Match.Paths, all.Key = []string{"/all"}, []policy.KeyPart{{Source: policy.Constant, Name: "all"}}
		h := wrap(t, store, set(t, waiting("one", time.Minute, "1/11s burst 1"), all), httplimit.Config{})
		get(h, "/", peer)
		after(5 * time.Second)
		start := time.Now()
		ended := map[string]time.Duration{}
		var mu sync.Mutex
		ask := func(name, path, addr string) {
			go func() {
				w := get(h, path, addr)
				mu.Lock()
				defer mu.Unlock()
				ended[fmt.Sprint(name, " ", w.Code)] = time.Since(start)
			}()
			synctest.Wait()
		}
		ask("waits for one, then for all", "/all", peer)
		ask("behind it for one", "/", peer)
		after(time.Second)
		ask("takes all meanwhile", "/all", "203.0.113.8:1")
		after(time.Minute)
		want := map[string]time.Duration{
			"takes all meanwhile 200":         time.Second,
			"behind it for one 200":           6 * time.Second,
			"waits for one, then for all 200": 17 * time.Second,
		}
		if fmt.Sprint(ended) != fmt.Sprint(want) {
			t.Errorf("ended %v, want %v", ended, want)
		}
	})
}

// TestStoreErrorWhileWaiting checks OnStoreError if the store fails while a request waits.
func TestStoreErrorWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		store := fakestore.Store{One: func(_ context.Context, r weir.Request) (weir.Decision, error) {
			if asked++; asked > 1 {
				return weir.Decision{}, weir.ErrUnavailable
			}
			return weir.Decision{Limit: r.Limit, RetryAfter: time.Second}, nil
		}}
		h := wrap(t, store, set(t, waiting("p", time.Minute, "1/s")), httplimit.Config{})
		start := time.Now()
		if w := get(h, "/", peer); w.Code != 200 || w.Header().Get(httplimit.DegradedField) != "local" || time.Since(start) != time.Second {
			t.Errorf("%d %q after %v, want 200 local after 1s", w.Code, w.Header().Get(httplimit.DegradedField), time.Since(start))
		}
	})
}

// TestWaitWithoutATime checks that a denial without a retry delay is not retried.
func TestWaitWithoutATime(t *testing.T) {
	for _, retry := range []time.Duration{0, weir.Never} {
		synctest.Test(t, func(t *testing.T) {
			h := wrap(t, fakestore.Answering(weir.Decision{RetryAfter: retry}), set(t, waiting("p", time.Minute, "1/s")), httplimit.Config{})
			start := time.Now()
			if w := get(h, "/", peer); w.Code != 429 || time.Since(start) != 0 {
				t.Errorf("retry after %v: %d after %v, want 429 at once", retry, w.Code, time.Since(start))
			}
		})
	}
}
