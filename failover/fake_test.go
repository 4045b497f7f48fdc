package failover_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir"
)

// A fake is a store of functions. If all is nil, DoAll calls do for each request.
type fake struct {
	do  func(context.Context, weir.Request) (weir.Decision, error)
	all func(context.Context, []weir.Request, []weir.Decision) (bool, error)
}

func (f fake) Do(ctx context.Context, r weir.Request) (weir.Decision, error) { return f.do(ctx, r) }

func (f fake) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (ok bool, err error) {
	if f.all != nil {
		return f.all(ctx, rs, ds)
	}
	ok = true
	for i := range rs {
		if ds[i], err = f.do(ctx, rs[i]); err != nil {
			return false, err
		}
		ok = ok && ds[i].OK
	}
	return ok, nil
}

var errRefused = fmt.Errorf("fake: %w: connection refused", weir.ErrUnavailable)

// refusing fails at once.
func refusing(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, errRefused
}

// silent returns when its context ends.
func silent(ctx context.Context, _ weir.Request) (weir.Decision, error) {
	<-ctx.Done()
	return weir.Decision{}, ctx.Err()
}

// fine admits every request.
func fine(_ context.Context, r weir.Request) (weir.Decision, error) {
	return weir.Decision{OK: true, Limit: r.Limit, Granted: r.N}, nil
}

var errOdd = errors.New("fake: odd")
