package failover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/missing"
)

// WithFallback returns a store that asks store first. If store makes no decision, which is
// an error that wraps weir.ErrUnavailable, fallback decides: a store of [NewLocal], [Open]
// or [Closed]. If neither decides, the error wraps both errors. A caller whose context has
// ended gets the error of store.
//
// Without store or fallback it returns the missing one, which constructors reject.
//
// Policies need no fallback: their OnStoreError selects one for each policy (see package
// enforce).
func WithFallback(store, fallback weir.Store) weir.Store {
	if s, found := missing.First(store, fallback); found {
		return s
	}
	return &withFallback{store, fallback}
}

type withFallback struct{ store, fallback weir.Store }

// Do implements [weir.Store].
func (s *withFallback) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	d, err := s.store.Do(ctx, r)
	if !undecided(ctx, err) {
		return d, err
	}
	d, second := s.fallback.Do(ctx, r)
	return d, joinErrors(err, second)
}

// DoAll implements [weir.Store].
func (s *withFallback) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	ok, err := s.store.DoAll(ctx, rs, ds)
	if !undecided(ctx, err) {
		return ok, err
	}
	ok, second := s.fallback.DoAll(ctx, rs, ds)
	return ok, joinErrors(err, second)
}

// undecided reports whether err leaves a decision to the fallback. A canceled request is
// not decided: cancelling must not turn into an admission.
func undecided(ctx context.Context, err error) bool {
	if err == nil || !errors.Is(err, weir.ErrUnavailable) || ctx.Err() != nil {
		return false
	}
	deadline, ok := ctx.Deadline()
	return !ok || time.Now().Before(deadline)
}

// joinErrors returns nil if the fallback decided, and otherwise an error that wraps both.
func joinErrors(store, fallback error) error {
	if fallback == nil {
		return nil
	}
	return fmt.Errorf("%w; fallback: %w", store, fallback)
}
