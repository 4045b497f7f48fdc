package protect_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/protect"
)

// An upstream serves 20 requests at a time.
type upstream struct {
	slots chan struct{}

	mu     sync.Mutex
	took   time.Duration
	random *rand.Rand // of exponential service times; nil for constant ones
}

func newUpstream(random *rand.Rand) *upstream {
	return &upstream{slots: make(chan struct{}, 20), took: 20 * time.Millisecond, random: random}
}

func (u *upstream) become(took time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.took = took
}

func (u *upstream) service() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.random == nil {
		return u.took
	}
	return time.Duration(u.random.ExpFloat64() * float64(u.took))
}

func (u *upstream) serve(ctx context.Context) error {
	select {
	case u.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-u.slots }()
	<-time.After(u.service())
	return ctx.Err()
}

// offer sends requests at a constant rate for a number of seconds. Each has a timeout of 2 s. It
// returns the requests answered in each second, and calls at at the beginning of each.
func offer(seconds, perMillisecond int, p protect.Protection, u *upstream, at func(second int)) (good []int) {
	chain := protect.New(protect.Config{Protections: []protect.Protection{p}})
	good = make([]int, seconds+5)
	var mu sync.Mutex
	var clients sync.WaitGroup
	began := time.Now()
	for ms := range seconds * 1000 {
		if ms%1000 == 0 {
			at(ms / 1000)
		}
		<-time.After(time.Millisecond)
		for range perMillisecond {
			clients.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				ctx, pass, err := chain.Enter(ctx, "")
				if err != nil {
					return
				}
				err = u.serve(ctx)
				pass.End(err)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					good[int(time.Since(began)/time.Second)]++
				}
			})
		}
	}
	clients.Wait()
	return good
}

func sum(all []int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}

// TestAdaptiveOverload offers three times what an upstream can serve. The upstream slows down
// from 20 ms to 1 s, and recovers.
func TestAdaptiveOverload(t *testing.T) {
	for _, c := range []struct {
		name      string
		random    *rand.Rand
		variation float64 // of the limit, from the mean
		slow      int     // least percentage of the capacity of the slow upstream
	}{
		{"constant service times", nil, 0.2, 85},
		{"exponential service times", rand.New(rand.NewPCG(1, 2)), 0.5, 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit, err := protect.NewAdaptive(protect.AdaptiveConfig{Min: 10, Max: 400, Initial: 50})
				if err != nil {
					t.Fatal(err)
				}
				u := newUpstream(c.random)
				var limits []float64
				good := offer(90, 3, limit, u, func(second int) {
					switch {
					case second == 45:
						u.become(time.Second)
					case second == 70:
						u.become(20 * time.Millisecond)
					case second > 20 && second < 45:
						limits = append(limits, limit.Limit())
					}
				})
				if n := sum(good[1:45]); n < 90*44*1000/100 {
					t.Errorf("%d responses in 44 s, want 90%% of 44000", n)
				}
				mean := 0.0
				for _, l := range limits {
					mean += l / float64(len(limits))
				}
				for _, l := range limits {
					if l < mean*(1-c.variation) || l > mean*(1+c.variation) {
						t.Errorf("limit %.1f, want within %.0f%% of the mean %.1f", l, 100*c.variation, mean)
					}
				}
				if n := sum(good[47:70]); n < c.slow*23*20/100 {
					t.Errorf("%d responses in 23 s of the slow upstream, want %d%% of 460", n, c.slow)
				}
				if n := sum(good[80:90]); n < 90*10*1000/100 {
					t.Errorf("%d responses in the 10 s that begin 10 s after the recovery, want 90%% of 10000", n)
				}
				t.Logf("limit %.1f, responses per second %v", mean, good)
			})
		})
	}
}

// TestAdaptiveBelowCapacity checks that a limit rejects nothing while the upstream keeps up.
func TestAdaptiveBelowCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, _ := protect.NewAdaptive(protect.AdaptiveConfig{Min: 1, Max: 400, Initial: 50})
		slow := newUpstream(nil)
		slow.slots = make(chan struct{}, 1000)
		if good := offer(60, 1, limit, slow, func(int) {}); sum(good) != 60_000 {
			t.Errorf("%d responses, want all 60000", sum(good))
		}
	})
}

// TestAdaptiveTimeouts checks that a limit shrinks if all requests time out.
func TestAdaptiveTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, _ := protect.NewAdaptive(protect.AdaptiveConfig{Min: 10, Max: 400, Initial: 200})
		u := newUpstream(nil)
		u.become(time.Second) // 200 requests wait for 10 s
		if good := offer(60, 1, limit, u, func(int) {}); sum(good[30:60]) < 30*20*80/100 {
			t.Errorf("%d responses in the last 30 s, want 80%% of 600; %s", sum(good[30:60]), limit.State())
		}
	})
}

// TestAdaptiveIgnoresFastFailures checks that an upstream that refuses connections does not
// move the limit.
func TestAdaptiveIgnoresFastFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, _ := protect.NewAdaptive(protect.AdaptiveConfig{Min: 1, Max: 100, Initial: 10})
		for i := range 2000 {
			exit, err := limit.Enter(context.Background(), "")
			if err != nil {
				t.Fatal(err)
			}
			if i < 10 {
				<-time.After(10 * time.Millisecond)
				exit(nil)
				continue
			}
			<-time.After(time.Millisecond)
			exit(errors.New("connection refused"))
		}
		if got := limit.Limit(); got != 10 {
			t.Errorf("limit %v, want 10", got)
		}
	})
}

func TestAdaptiveWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit, _ := protect.NewAdaptive(protect.AdaptiveConfig{Min: 1, Max: 1, Initial: 1, Wait: time.Second})
		exit, err := limit.Enter(context.Background(), "")
		if err != nil || limit.State() != "1 of 1" {
			t.Fatalf("first: %v, %s", err, limit.State())
		}
		results := make(chan error, 3)
		enter := func(ctx context.Context) {
			exit, err := limit.Enter(ctx, "")
			results <- err
			if err == nil {
				<-time.After(10 * time.Second)
				exit(nil)
			}
		}
		canceled, cancel := context.WithCancel(context.Background())
		go enter(canceled)
		synctest.Wait()
		go enter(context.Background())
		synctest.Wait()
		cancel()
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		<-time.After(500 * time.Millisecond)
		exit(nil)
		if err := <-results; err != nil { // it holds the slot for 10 s
			t.Errorf("waiter: %v, want the slot", err)
		}
		start := time.Now()
		_, err = limit.Enter(context.Background(), "")
		if !errors.Is(err, protect.ErrSaturated) || time.Since(start) != time.Second {
			t.Errorf("last: %v after %v, want %v after 1s", err, time.Since(start), protect.ErrSaturated)
		}
		<-time.After(time.Minute)
	})
}

func TestAdaptiveInvalid(t *testing.T) {
	for _, c := range []protect.AdaptiveConfig{{}, {Min: 2, Initial: 1, Max: 3}, {Min: 1, Initial: 4, Max: 3}, {Min: 1, Initial: 1, Max: 1, Wait: -1}} {
		if _, err := protect.NewAdaptive(c); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("NewAdaptive(%+v): %v, want ErrInvalid", c, err)
		}
	}
}
