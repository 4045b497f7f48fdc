package guard

import (
	"context"
	"fmt"

	"github.com/floodweir/weir"
)

// PlainOptions say what a wrapped function without an error does instead of being
// called. Fallback or Value is required: there is no other way to say that a call was
// refused.
type PlainOptions[A, R any] struct {
	// Key names who is limited; one key for all if nil.
	Key func(A) string

	// Cost is the tokens of a call; 1 if nil.
	Cost func(A) int64

	// Fallback answers a call that was refused; err is the *Denied or *Undecided, or what
	// failed in OnError.
	Fallback func(a A, err error) R

	// Value answers a call that was refused, if there is no Fallback.
	Value *R

	// OnError are as those of Options. What one of them fails with goes to Fallback.
	OnError []func(a A, err error) (R, error)
}

// Plain is Func for a function without a context and an error: it waits as long as the
// rule says. An error wraps weir.ErrInvalid: g, f, or both of o.Fallback and o.Value are
// nil.
func Plain[A, R any](g *Guard, f func(A) R, o PlainOptions[A, R]) (func(A) R, error) {
	switch {
	case g == nil:
		return nil, errNil
	case f == nil:
		return nil, errNoFunc
	case o.Fallback == nil && o.Value == nil:
		return nil, fmt.Errorf("guard: %s: %w: a function without an error wants a Fallback or a Value, got neither", g.point.Name, weir.ErrInvalid)
	}
	p := Options[A, R]{Key: o.Key, Cost: o.Cost}
	for _, link := range o.OnError {
		p.OnError = append(p.OnError, func(_ context.Context, a A, err error) (R, error) { return link(a, err) })
	}
	limited := Func(g, func(_ context.Context, a A) (R, error) { return f(a), nil }, p)
	return func(a A) R {
		r, err := limited(context.Background(), a)
		switch {
		case err == nil:
			return r
		case o.Fallback != nil:
			return o.Fallback(a, err)
		}
		return *o.Value
	}, nil
}

// MustPlain is Plain for options that the program text holds: it panics on an error.
func MustPlain[A, R any](g *Guard, f func(A) R, o PlainOptions[A, R]) func(A) R {
	limited, err := Plain(g, f, o)
	if err != nil {
		panic(err)
	}
	return limited
}
