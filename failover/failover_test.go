package failover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/policy"
)

var request = weir.Request{Key: "k", Limit: weir.MustLimit("10/s"), N: 1}

func TestNewErrors(t *testing.T) {
	for _, tt := range []struct {
		store weir.Store
		c     failover.Config
		want  string
	}{
		{nil, failover.Config{}, "failover: store: invalid: got nil, want a store such as that of package redisstore"},
		{failover.Open(), failover.Config{Deadline: -1}, "failover: Deadline: invalid: got -1ns, want more than 0, at most 1h0m0s"},
		{failover.Open(), failover.Config{Deadline: 2 * time.Hour}, "failover: Deadline: invalid: got 2h0m0s, want more than 0, at most 1h0m0s"},
		{failover.Open(), failover.Config{Cooldown: -time.Second}, "failover: Cooldown: invalid: got -1s, want more than 0, at most 24h0m0s"},
		{failover.Open(), failover.Config{Failures: -1}, "failover: Failures: invalid: got -1, want 1 to 1048576"},
		{failover.Open(), failover.Config{MaxCalls: 1<<20 + 1}, "failover: MaxCalls: invalid: got 1048577, want 1 to 1048576"},
	} {
		_, err := failover.New(tt.store, tt.c)
		if fmt.Sprint(err) != tt.want || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("New(%v, %+v) = %v, want %s", tt.store, tt.c, err, tt.want)
		}
	}
	for _, nodes := range []int{-1, 0, failover.MaxNodes + 1} {
		if _, err := failover.NewLocal(failover.Open(), nodes); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("nodes: invalid: got %d, want 1 to 1048576", nodes)) {
			t.Errorf("NewLocal(_, %d) = %v, want an error that says so", nodes, err)
		}
		if _, err := failover.Share(request.Limit, nodes); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Share(_, %d) = %v, want an error that wraps ErrInvalid", nodes, err)
		}
	}
	if _, err := failover.NewLocal(nil, 1); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("NewLocal(nil, 1) = %v, want an error that wraps ErrInvalid", err)
	}
	if _, err := failover.Share(weir.Limit{}, 2); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Share of the zero Limit = %v, want an error that wraps ErrInvalid", err)
	}
}

// ask sends one request, and then the same as a batch, and passes the result and the
// duration of each to check.
func ask(t *testing.T, s weir.Store, ctx context.Context, r weir.Request, check func(d weir.Decision, err error, took time.Duration)) {
	t.Helper()
	began := time.Now()
	d, err := s.Do(ctx, r)
	check(d, err, time.Since(began))
	began = time.Now()
	ds := make([]weir.Decision, 2)
	ok, err := s.DoAll(ctx, []weir.Request{r, r}, ds)
	took := time.Since(began)
	if err != nil {
		ds = make([]weir.Decision, 2)
	}
	for _, d := range ds {
		check(d, err, took)
		if err == nil && ok != ds[0].OK {
			t.Errorf("DoAll = %v with decisions %+v", ok, ds)
		}
	}
}

// TestDeadline checks that a call without a reply takes exactly the deadline, whether or
// not the store follows its context.
func TestDeadline(t *testing.T) {
	for _, heeds := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			defer close(release)
			store := fake{do: func(ctx context.Context, _ weir.Request) (weir.Decision, error) {
				if deadline, ok := ctx.Deadline(); ctx.Err() == nil && !ok || ctx.Err() == nil && time.Until(deadline) != failover.DefaultDeadline {
					t.Errorf("the store's context ends in %v, want %v", time.Until(deadline), failover.DefaultDeadline)
				}
				if heeds {
					return silent(ctx, weir.Request{})
				}
				<-release
				return weir.Decision{}, nil
			}}
			s := newStore(t, store, failover.Config{Failures: 100})
			ask(t, s, t.Context(), request, func(d weir.Decision, err error, took time.Duration) {
				if took != 50*time.Millisecond || !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), "no reply in 50ms") {
					t.Errorf("heeding %t: %v after %v, want ErrUnavailable for a deadline of 50ms after that", heeds, err, took)
				}
			})
			s = newStore(t, store, failover.Config{Failures: 100}, failover.Open())
			ask(t, s, t.Context(), request, func(d weir.Decision, err error, took time.Duration) {
				if took != 50*time.Millisecond || err != nil || !d.OK || d.Degraded != policy.Open {
					t.Errorf("heeding %t: %+v, %v after %v, want the fallback's after 50ms", heeds, d, err, took)
				}
			})
		})
	}
}

// TestMaxCalls checks that a store that hangs has at most MaxCalls calls in flight. Further
// calls fail at once. When the calls return, the store is called again.
func TestMaxCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var held atomic.Int64
		store := fake{do: func(context.Context, weir.Request) (weir.Decision, error) {
			held.Add(1)
			<-release
			return weir.Decision{OK: true}, nil
		}}
		s := newStore(t, store, failover.Config{MaxCalls: 3, Failures: 1000}, failover.Open())
		for i := range 10 {
			began := time.Now()
			d, err := s.Do(t.Context(), request)
			want := failover.DefaultDeadline
			if i >= 3 {
				want = 0
			}
			if took := time.Since(began); took != want || err != nil || d.Degraded != policy.Open {
				t.Errorf("call %d = %+v, %v after %v, want the fallback's after %v", i, d, err, took, want)
			}
		}
		if _, err := newStore(t, store, failover.Config{MaxCalls: 1}).Do(t.Context(), request); !strings.Contains(fmt.Sprint(err), "no reply in") {
			t.Errorf("Do = %v, want a deadline that passed", err)
		}
		if n := held.Load(); n != 4 {
			t.Errorf("%d calls reached the store, want 3 and 1", n)
		}
		close(release)
		synctest.Wait()
		if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != "" || !d.OK {
			t.Errorf("Do once the store is well = %+v, %v, want its decision", d, err)
		}
	})
}

// TestMaxCallsError checks the error of a call beyond MaxCalls.
func TestMaxCallsError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, fake{do: silent}, failover.Config{MaxCalls: 1, Deadline: time.Second})
		go s.Do(t.Context(), request)
		synctest.Wait()
		_, err := s.Do(t.Context(), request)
		if want := "failover: store unavailable: 1 calls are in flight"; fmt.Sprint(err) != want || !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("Do = %v, want %s", err, want)
		}
		synctest.Wait()
		time.Sleep(time.Second)
	})
}

// TestCanceledCaller checks that a canceled request returns at once. That is no failure of
// the store, and the fallback does not decide the request.
func TestCanceledCaller(t *testing.T) {
	for _, tt := range []struct {
		name string
		ctx  func(context.Context) (context.Context, context.CancelFunc)
		took time.Duration
		want error
	}{
		{"deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 20*time.Millisecond)
		}, 20 * time.Millisecond, context.DeadlineExceeded},
		{"cancelled", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(10*time.Millisecond, cancel)
			return ctx, cancel
		}, 10 * time.Millisecond, context.Canceled},
		{"gone before", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		}, 0, context.Canceled},
	} {
		for _, heeds := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				release := make(chan struct{})
				defer close(release)
				s := newStore(t, fake{do: func(ctx context.Context, r weir.Request) (weir.Decision, error) {
					if heeds {
						return silent(ctx, r)
					}
					<-release
					return weir.Decision{}, nil
				}}, failover.Config{Failures: 1, Deadline: time.Second}, failover.Open())
				for range 3 {
					ctx, cancel := tt.ctx(t.Context())
					began := time.Now()
					_, err := s.Do(ctx, request)
					took := time.Since(began)
					cancel()
					if took != tt.took || !errors.Is(err, tt.want) || !errors.Is(err, weir.ErrUnavailable) {
						t.Errorf("%s, heeding %t: %v after %v, want %v after %v", tt.name, heeds, err, took, tt.want, tt.took)
					}
				}
				if s.Open() {
					t.Errorf("%s, heeding %t: the breaker is open because of cancellations", tt.name, heeds)
				}
			})
		}
	}
}

// TestStoreReturnsFirst checks a store that returns because of the deadline before the
// context of the caller has ended.
func TestStoreReturnsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t, fake{do: func(ctx context.Context, _ weir.Request) (weir.Decision, error) {
			deadline, _ := ctx.Deadline()
			time.Sleep(time.Until(deadline))
			return weir.Decision{}, errors.New("fake: i/o timeout")
		}}, failover.Config{Failures: 1}, failover.Open())
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
			if d, err := s.Do(ctx, request); err == nil {
				t.Errorf("Do = %+v, want an error: its caller's time was up", d)
			}
			cancel()
		}
		if s.Open() {
			t.Error("the breaker is open because callers had little time")
		}
		// Of its own deadline the same error is a failure.
		if d, err := s.Do(t.Context(), request); err != nil || d.Degraded != policy.Open || !s.Open() {
			t.Errorf("Do = %+v, %v, open %t, want the fallback's decision", d, err, s.Open())
		}
		if err := s.Err(); err == nil || !strings.Contains(err.Error(), "no reply in 50ms") {
			t.Errorf("Err() = %v, want the deadline", err)
		}
	})
}

// TestErrors checks which errors are failures of the store and open the breaker, and what
// the caller gets.
func TestErrors(t *testing.T) {
	wrap := func(err error) error { return fmt.Errorf("fake: %w", err) }
	for _, tt := range []struct {
		err    error
		passes bool // unchanged, and no failure
	}{
		{wrap(weir.ErrInvalid), true},
		{wrap(weir.ErrNoReservation), true},
		{wrap(weir.ErrFull), true},
		{wrap(weir.ErrClosed), true},
		{wrap(weir.ErrUnavailable), false},
		{errOdd, false},
		{wrap(context.Canceled), false}, // the caller did not cancel
	} {
		store := fake{do: func(context.Context, weir.Request) (weir.Decision, error) { return weir.Decision{}, tt.err }}
		bare := newStore(t, store, failover.Config{Failures: 1, Cooldown: time.Hour})
		with := newStore(t, store, failover.Config{Failures: 1, Cooldown: time.Hour}, failover.Closed())
		ask(t, bare, t.Context(), request, func(_ weir.Decision, err error, _ time.Duration) {
			switch {
			case tt.passes && err != tt.err:
				t.Errorf("%v came back as %v, want it as it is", tt.err, err)
			case !tt.passes && !errors.Is(err, weir.ErrUnavailable):
				t.Errorf("%v came back as %v, want ErrUnavailable", tt.err, err)
			case !strings.Contains(err.Error(), tt.err.Error()):
				t.Errorf("%v came back as %v, want its text in it", tt.err, err)
			}
		})
		ask(t, with, t.Context(), request, func(d weir.Decision, err error, _ time.Duration) {
			if tt.passes && err != tt.err || !tt.passes && (err != nil || d.Degraded != policy.Closed) {
				t.Errorf("%v with a fallback = %+v, %v", tt.err, d, err)
			}
		})
		if bare.Open() == tt.passes || with.Open() == tt.passes {
			t.Errorf("after %v: open %t and %t, want %t", tt.err, bare.Open(), with.Open(), !tt.passes)
		}
	}
}

// TestInvalid checks that an invalid request gets its error while the breaker is open, and
// does not reach the store.
func TestInvalid(t *testing.T) {
	s := newStore(t, fake{do: refusing}, failover.Config{Failures: 1}, failover.Open())
	for range 3 {
		for _, r := range []weir.Request{{Limit: request.Limit}, {Key: "k"}, {Key: "k", Limit: request.Limit, N: -1}} {
			ask(t, s, t.Context(), r, func(d weir.Decision, err error, _ time.Duration) {
				if !errors.Is(err, weir.ErrInvalid) {
					t.Errorf("%+v = %+v, %v, want ErrInvalid", r, d, err)
				}
			})
		}
		if _, err := s.DoAll(t.Context(), make([]weir.Request, 2), make([]weir.Decision, 1)); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("DoAll of 2 into 1 = %v, want ErrInvalid", err)
		}
		s.Do(t.Context(), request)
	}
}

// TestFallbackFails checks that an error wraps those of the store and of the fallback.
func TestFallbackFails(t *testing.T) {
	full := fake{do: func(context.Context, weir.Request) (weir.Decision, error) {
		return weir.Decision{}, fmt.Errorf("fake: %w", weir.ErrFull)
	}}
	s := newStore(t, fake{do: refusing}, failover.Config{}, full)
	ask(t, s, t.Context(), request, func(_ weir.Decision, err error, _ time.Duration) {
		if !errors.Is(err, weir.ErrFull) || !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%v, want both errors", err)
		}
	})
}

// TestPanic checks that a panic of the store reaches its caller.
func TestPanic(t *testing.T) {
	s := newStore(t, fake{do: func(context.Context, weir.Request) (weir.Decision, error) { panic("odd") }}, failover.Config{Failures: 2})
	for range 2 {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); !strings.Contains(v, "store panicked: odd") || !strings.Contains(v, "TestPanic") {
					t.Errorf("panic %q, want the store's, with its stack", v)
				}
			}()
			s.Do(t.Context(), request)
		}()
	}
	if _, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) || !s.Open() {
		t.Errorf("Do after two panics = %v, open %t, want it open", err, s.Open())
	}
}

// TestCallerKeepsItsSlices checks that the store does not read or write the slices of a
// caller that has returned.
func TestCallerKeepsItsSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := weir.MustLimit("5/s")
		wake := make(chan struct{})
		look := func(rs ...weir.Request) {
			<-wake
			for _, r := range rs {
				if r.Key != "k" || r.From[0] != former {
					t.Errorf("the store reads %+v, want what was asked", r)
				}
			}
		}
		s := newStore(t, fake{
			do: func(_ context.Context, r weir.Request) (weir.Decision, error) {
				look(r)
				return weir.Decision{OK: true}, nil
			},
			all: func(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
				look(rs...)
				for i := range ds {
					ds[i].OK = true
				}
				return true, nil
			},
		}, failover.Config{})
		r := request
		r.From = []weir.Limit{former}
		rs, ds := []weir.Request{r, r}, make([]weir.Decision, 2)
		if _, err := s.Do(t.Context(), r); err == nil {
			t.Error("Do = no error, want a deadline")
		}
		if _, err := s.DoAll(t.Context(), rs, ds); err == nil {
			t.Error("DoAll = no error, want a deadline")
		}
		r.From[0] = request.Limit
		clear(rs)
		close(wake)
		synctest.Wait()
		if ds[0].OK || ds[1].OK {
			t.Errorf("decisions written after the caller left: %+v", ds)
		}
	})
}

// TestAllocations checks that a decision costs one allocation beside those of the store.
func TestAllocations(t *testing.T) {
	s := newStore(t, newMem(t), failover.Config{Deadline: patient})
	ctx, r := t.Context(), request
	r.Limit = weir.MustLimit("1000000/s")
	rs, ds := []weir.Request{r, r, r}, make([]weir.Decision, 3)
	if n := testing.AllocsPerRun(1000, func() { s.Do(ctx, r) }); n > 1 {
		t.Errorf("Do: %v allocations, want 1", n)
	}
	if n := testing.AllocsPerRun(1000, func() { s.DoAll(ctx, rs, ds) }); n > 1 && !racing {
		t.Errorf("DoAll of 3: %v allocations, want 1", n)
	}
	local := newLocal(t, newMem(t), 3)
	if n := testing.AllocsPerRun(1000, func() { local.Do(ctx, r) }); n > 0 {
		t.Errorf("Do of a share: %v allocations, want none", n)
	}
	if n := testing.AllocsPerRun(1000, func() { local.DoAll(ctx, rs, ds) }); n > 0 && !racing {
		t.Errorf("DoAll of shares: %v allocations, want none", n)
	}
}
