package failover_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
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
		{failover.Open(), failover.Config{MaxQueue: -1}, "failover: MaxQueue: invalid: got -1, want 1 to 1048576"},
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
	for _, missing := range []weir.Store{nil, (*memstore.Store)(nil)} {
		for _, store := range []weir.Store{failover.WithFallback(missing, failover.Open()), failover.WithFallback(failover.Open(), missing)} {
			if _, err := weir.New(store, request.Limit, weir.Config{}); !errors.Is(err, weir.ErrInvalid) {
				t.Errorf("New of WithFallback with a missing store = %v, want an error that wraps ErrInvalid", err)
			}
		}
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

// TestDeadline checks that a call without a reply takes the deadline.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			fallback []weir.Store
			mode     weir.FailMode
		}{{nil, ""}, {[]weir.Store{failover.Open()}, policy.Open}} {
			s := newStore(t, fake{do: silent}, failover.Config{}, c.fallback...)
			ask(t, s, t.Context(), request, func(d weir.Decision, err error, took time.Duration) {
				if took != 50*time.Millisecond || d.Degraded != c.mode {
					t.Errorf("%+v, %v after %v, want mode %q after 50ms", d, err, took, c.mode)
				}
				if c.mode == "" && (!errors.Is(err, weir.ErrUnavailable) || !strings.Contains(err.Error(), "no reply in 50ms")) {
					t.Errorf("%v, want ErrUnavailable for a deadline of 50ms", err)
				}
			})
		}
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
		synctest.Test(t, func(t *testing.T) {
			s := newStore(t, fake{do: silent}, failover.Config{Deadline: time.Second}, failover.Open())
			for range 30 {
				ctx, cancel := tt.ctx(t.Context())
				began := time.Now()
				_, err := s.Do(ctx, request)
				took := time.Since(began)
				cancel()
				if took != tt.took || !errors.Is(err, tt.want) || !errors.Is(err, weir.ErrUnavailable) {
					t.Errorf("%s: %v after %v, want %v after %v", tt.name, err, took, tt.want, tt.took)
				}
			}
			if s.Open() {
				t.Errorf("%s: the breaker is open because of cancellations", tt.name)
			}
		})
	}
}

// TestShortDeadlines checks that the breaker opens although every caller has less time than
// the deadline, such as the 20 ms of Envoy. One reply shows that the store is available.
func TestShortDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store switched
		store.set(silent)
		s := newStore(t, store.fake(), failover.Config{}, failover.Open())
		hurried := func() (weir.Decision, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			return s.Do(ctx, request)
		}
		asked := 0
		for ; !s.Open() && asked < 100; asked++ {
			hurried()
		}
		if asked != 8 { // 8·20 ms ≥ 3·50 ms
			t.Errorf("the breaker opened after %d callers that canceled after 20 ms, want 8", asked)
		}
		if d, err := hurried(); err != nil || d.Degraded != policy.Open {
			t.Errorf("Do while the breaker is open = %+v, %v, want the fallback's decision", d, err)
		}
		<-time.After(failover.DefaultCooldown)
		store.set(fine)
		s.Do(t.Context(), request)
		for range 100 {
			store.set(silent)
			hurried()
			store.set(fine)
			hurried()
		}
		if s.Open() {
			t.Error("the breaker is open although the store replies")
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
		bare := newStore(t, store, failover.Config{})
		with := newStore(t, store, failover.Config{}, failover.Closed())
		for range 20 {
			bare.Do(t.Context(), request)
			with.Do(t.Context(), request)
		}
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
	s := newStore(t, fake{do: refusing}, failover.Config{}, failover.Open())
	for range 40 {
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

// TestPanic checks that a panic of the store reaches its caller, and is a failure.
func TestPanic(t *testing.T) {
	s := newStore(t, fake{do: func(context.Context, weir.Request) (weir.Decision, error) { panic("odd") }}, failover.Config{MaxCalls: 1})
	for range 20 {
		func() {
			defer func() {
				if v := fmt.Sprint(recover()); v != "odd" {
					t.Errorf("panic %q, want the store's", v)
				}
			}()
			s.Do(t.Context(), request)
		}()
	}
	if _, err := s.Do(t.Context(), request); !errors.Is(err, weir.ErrUnavailable) || !s.Open() {
		t.Errorf("Do after 20 panics = %v, open %t, want it open", err, s.Open())
	}
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
