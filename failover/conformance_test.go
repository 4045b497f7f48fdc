package failover_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/storetest"
)

// openOver opens a store over one in memory.
func openOver(over func(weir.Store) (weir.Store, error)) storetest.Open {
	return func(tb testing.TB) storetest.Harness {
		var now atomic.Int64
		now.Store(1)
		mem, err := memstore.New(memstore.Config{Clock: now.Load})
		if err != nil {
			tb.Fatal(err)
		}
		store, err := over(mem)
		if err != nil {
			tb.Fatal(err)
		}
		return storetest.Harness{Store: store, SetNow: now.Store, Close: func() { mem.Close() }, Monotonic: true}
	}
}

func conforms(t *testing.T, open storetest.Open) {
	storetest.Run(t, open)
	decisions := 30_000
	if racing {
		decisions /= 10
	}
	storetest.Differential(t, open, storetest.DiffConfig{Decisions: decisions, Backward: true})
}

// TestConformance checks that a Store over an available store decides like that store.
func TestConformance(t *testing.T) {
	conforms(t, openOver(func(mem weir.Store) (weir.Store, error) {
		store, err := failover.New(mem, failover.Config{Deadline: patient})
		return failover.WithFallback(store, failover.Closed()), err
	}))
}

// TestConformanceOfLocal checks that a local store of one node decides like the store below
// it, except for Degraded and unknown reservations.
func TestConformanceOfLocal(t *testing.T) {
	conforms(t, openOver(func(mem weir.Store) (weir.Store, error) {
		local, err := failover.NewLocal(noticing{mem}, 1)
		return unmarked{local}, err
	}))
}

// noticing records in the context that a reservation is unknown, and then returns
// that error for the rest of the call.
type noticing struct{ weir.Store }

type noticeKey struct{}

func (s noticing) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	unknown := ctx.Value(noticeKey{}).(*error)
	if *unknown != nil {
		return weir.Decision{}, *unknown
	}
	d, err := s.Store.Do(ctx, r)
	if errors.Is(err, weir.ErrNoReservation) {
		*unknown = err
	}
	return d, err
}

func (s noticing) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	unknown := ctx.Value(noticeKey{}).(*error)
	if *unknown != nil {
		return false, *unknown
	}
	ok, err := s.Store.DoAll(ctx, rs, ds)
	if errors.Is(err, weir.ErrNoReservation) {
		*unknown = err
	}
	return ok, err
}

// unmarked checks and removes Degraded, and returns the error that a noticing
// store recorded.
type unmarked struct{ weir.Store }

func (s unmarked) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	var unknown error
	d, err := s.Store.Do(context.WithValue(ctx, noticeKey{}, &unknown), r)
	if unknown != nil {
		return weir.Decision{}, unknown
	}
	if err == nil {
		err = unmark(&d)
	}
	return d, err
}

func (s unmarked) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	var unknown error
	ok, err := s.Store.DoAll(context.WithValue(ctx, noticeKey{}, &unknown), rs, ds)
	if unknown != nil {
		return false, unknown
	}
	for i := range ds {
		if err == nil {
			err = unmark(&ds[i])
		}
	}
	return ok, err
}

func unmark(d *weir.Decision) error {
	if d.Degraded != policy.Local {
		return errors.New("a decision without its mark")
	}
	d.Degraded = ""
	return nil
}
