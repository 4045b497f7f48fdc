package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir"
)

// FuncOptions holds the configuration of a wrapped function with an argument of type A and a result
// of type R. With the zero value, calls that are not admitted return errors.
type FuncOptions[A, R any] struct {
	// Key returns the key of a call; one key for all if nil. If it panics, the key is empty: see
	// Guard.EnterFunc.
	Key func(A) string

	// Cost returns the tokens of a call; 1 if nil. A negative cost fails the call.
	Cost func(A) int64

	// Fallback returns the result of a denied call; denied is the *Denied.
	Fallback func(ctx context.Context, a A, denied error) (R, error)

	// Value is the result of a denied call if there is no Fallback. If nil too, the call
	// returns the *Denied.
	Value *R

	// OnError are error handlers. If the store makes no decision, they run in order: each
	// returns a result, or Next to pass the error on, or another error to fail. If all pass
	// it on, the rule's on_store_error decides. It decides alone if the call's context has
	// ended.
	OnError []func(ctx context.Context, a A, err error) (R, error)

	// AllErrors means that OnError also handles the errors that the function returns. If all
	// handlers pass one on, the caller gets it. It is the outcome of the call in either case.
	AllErrors bool
}

// Func limits a function. The returned function calls f, or does what FuncOptions says; the outcome
// of a call is what f returns, or that it panicked. If g or f is nil, every call returns an error
// that wraps weir.ErrInvalid.
func Func[A, R any](g *Guard, f func(context.Context, A) (R, error), o FuncOptions[A, R]) func(context.Context, A) (R, error) {
	return func(ctx context.Context, a A) (r R, err error) {
		if f == nil {
			return r, errNoFunc
		}
		var own Entry // on the stack
		e := &own
		if err = o.enter(ctx, e, g, a); err != nil {
			if e, r, err = o.answer(ctx, a, err); e == nil {
				return r, err
			}
		}
		defer e.unfinished()
		r, err = f(ctx, a)
		e.Exit(err)
		if err != nil && o.AllErrors {
			if instead, herr, ok := o.handle(ctx, a, err); ok {
				return instead, herr
			}
		}
		return r, err
	}
}

var errNoFunc = fmt.Errorf("guard: %w: want a function to limit, got nil", weir.ErrInvalid)

// unfinished ends a call whose function did not return.
func (e *Entry) unfinished() { e.Exit(errUnfinished) }

func (o *FuncOptions[A, R]) enter(ctx context.Context, e *Entry, g *Guard, a A) error {
	if g == nil {
		return errNil
	}
	key, n, fault := "", int64(1), error(nil)
	if o.Key != nil {
		key, fault = keyOf(func() string { return o.Key(a) })
	}
	if o.Cost != nil {
		n = o.Cost(a)
	}
	return e.admit(ctx, g, key, n, g.resource.HandlesStoreError || len(o.OnError) > 0, fault)
}

// handle calls the error handlers in order; ok is false if all of them pass err on.
func (o *FuncOptions[A, R]) handle(ctx context.Context, a A, err error) (r R, _ error, ok bool) {
	for _, handler := range o.OnError {
		if r, herr := handler(ctx, a, err); !errors.Is(herr, Next) {
			return r, herr, true
		}
	}
	return r, nil, false
}

// answer returns the result of a call that was not admitted because of err, or the entry of a
// call that goes on.
func (o *FuncOptions[A, R]) answer(ctx context.Context, a A, err error) (e *Entry, r R, _ error) {
	var u *StoreError
	if errors.As(err, &u) && !u.Canceled {
		if r, herr, ok := o.handle(ctx, a, err); ok {
			return nil, r, herr
		}
		if u.FailsOpen {
			if e, err = u.Enter(ctx); err == nil {
				return e, r, nil
			}
		}
	}
	if errors.Is(err, ErrDenied) {
		switch {
		case o.Fallback != nil:
			r, err = o.Fallback(ctx, a, err)
		case o.Value != nil:
			r, err = *o.Value, nil
		}
	}
	return nil, r, err
}
