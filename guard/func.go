package guard

import (
	"context"
	"errors"
	"fmt"

	"github.com/floodweir/weir"
)

// Options say what a wrapped function does instead of being called. A is its argument,
// R its result. The zero value returns errors.
type Options[A, R any] struct {
	// Key names who is limited; one key for all if nil.
	Key func(A) string

	// Cost is the tokens of a call; 1 if nil. A negative one is an error of the call.
	Cost func(A) int64

	// Fallback answers a denied call; denied is the *Denied.
	Fallback func(ctx context.Context, a A, denied error) (R, error)

	// Value answers a denied call, if there is no Fallback; the *Denied does if nil.
	Value *R

	// OnError answer in their order when the store makes no decision: each returns an
	// answer, or Next to pass on, or another error to fail. If all pass on, the rule's
	// on_store_error says what happens. They are not asked for a caller whose context has
	// ended.
	OnError []func(ctx context.Context, a A, err error) (R, error)
}

// Func limits a function. It returns what the function does, or what Options says
// instead; the outcome of a call is what the function returns, or that it panicked. Like
// all that wrap, it wants a guard of Registry.Guard and a function: without one of them
// every call is an error that wraps weir.ErrInvalid.
func Func[A, R any](g *Guard, f func(context.Context, A) (R, error), o Options[A, R]) func(context.Context, A) (R, error) {
	return func(ctx context.Context, a A) (r R, err error) {
		if f == nil {
			return r, errNoFunc
		}
		e, err := o.enter(ctx, g, a)
		if err != nil {
			if e, r, err = o.instead(ctx, a, err); e == nil {
				return r, err
			}
		}
		defer e.unfinished()
		r, err = f(ctx, a)
		e.Exit(err)
		return r, err
	}
}

var errNoFunc = fmt.Errorf("guard: %w: want a function to limit, got nil", weir.ErrInvalid)

// unfinished ends a call whose function did not return.
func (e *Entry) unfinished() { e.Exit(errUnfinished) }

func (o *Options[A, R]) enter(ctx context.Context, g *Guard, a A) (*Entry, error) {
	if g == nil {
		return nil, errNil
	}
	key, n := "", int64(1)
	if o.Key != nil {
		key = o.Key(a)
	}
	if o.Cost != nil {
		n = o.Cost(a)
	}
	return g.enter(ctx, key, n, g.point.Answered || len(o.OnError) > 0)
}

// instead is the answer to a call that did not enter because of err, or the entry of one
// that may go on all the same.
func (o *Options[A, R]) instead(ctx context.Context, a A, err error) (e *Entry, r R, _ error) {
	var u *StoreError
	if errors.As(err, &u) && ctx.Err() == nil {
		for _, link := range o.OnError {
			if r, lerr := link(ctx, a, err); !errors.Is(lerr, Next) {
				return nil, r, lerr
			}
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

// Options0 are Options of a function without an argument, field by field.
type Options0[R any] struct {
	Key      func() string
	Cost     func() int64
	Fallback func(ctx context.Context, denied error) (R, error)
	Value    *R
	OnError  []func(ctx context.Context, err error) (R, error)
}

// Func0 is Func for a function without an argument.
func Func0[R any](g *Guard, f func(context.Context) (R, error), o Options0[R]) func(context.Context) (R, error) {
	type none = struct{}
	p := Options[none, R]{Value: o.Value}
	if o.Key != nil {
		p.Key = func(none) string { return o.Key() }
	}
	if o.Cost != nil {
		p.Cost = func(none) int64 { return o.Cost() }
	}
	if o.Fallback != nil {
		p.Fallback = func(ctx context.Context, _ none, err error) (R, error) { return o.Fallback(ctx, err) }
	}
	for _, link := range o.OnError {
		p.OnError = append(p.OnError, func(ctx context.Context, _ none, err error) (R, error) { return link(ctx, err) })
	}
	var whole func(context.Context, none) (R, error)
	if f != nil {
		whole = func(ctx context.Context, _ none) (R, error) { return f(ctx) }
	}
	limited := Func(g, whole, p)
	return func(ctx context.Context) (R, error) { return limited(ctx, none{}) }
}

// Options2 are Options of a function of two arguments, field by field.
type Options2[A, B, R any] struct {
	Key      func(A, B) string
	Cost     func(A, B) int64
	Fallback func(ctx context.Context, a A, b B, denied error) (R, error)
	Value    *R
	OnError  []func(ctx context.Context, a A, b B, err error) (R, error)
}

// pair is two arguments.
type pair[A, B any] struct {
	a A
	b B
}

// Func2 is Func for a function of two arguments. One of more takes a struct of them.
func Func2[A, B, R any](g *Guard, f func(context.Context, A, B) (R, error), o Options2[A, B, R]) func(context.Context, A, B) (R, error) {
	p := Options[pair[A, B], R]{Value: o.Value}
	if o.Key != nil {
		p.Key = func(p pair[A, B]) string { return o.Key(p.a, p.b) }
	}
	if o.Cost != nil {
		p.Cost = func(p pair[A, B]) int64 { return o.Cost(p.a, p.b) }
	}
	if o.Fallback != nil {
		p.Fallback = func(ctx context.Context, p pair[A, B], err error) (R, error) { return o.Fallback(ctx, p.a, p.b, err) }
	}
	for _, link := range o.OnError {
		p.OnError = append(p.OnError, func(ctx context.Context, p pair[A, B], err error) (R, error) { return link(ctx, p.a, p.b, err) })
	}
	var whole func(context.Context, pair[A, B]) (R, error)
	if f != nil {
		whole = func(ctx context.Context, p pair[A, B]) (R, error) { return f(ctx, p.a, p.b) }
	}
	limited := Func(g, whole, p)
	return func(ctx context.Context, a A, b B) (R, error) { return limited(ctx, pair[A, B]{a, b}) }
}
