package guard

import (
	"context"
	"fmt"

	"github.com/floodweir/weir"
)

// PlainOptions holds the configuration of a wrapped function that returns no error. Fallback or Value is required,
// because the function cannot report a denial otherwise.
type PlainOptions[A, R any] struct {
	// Key returns the key of a call; one key for all if nil.
	Key func(A) string

	// Cost returns the tokens of a call; 1 if nil.
	Cost func(A) int64

	// Fallback returns the result of a call that was not admitted; err is the *Denied or
	// *StoreError, or the error of a handler in OnError.
	Fallback func(a A, err error) R

	// Value is the result of a call that was not admitted, if there is no Fallback.
	Value *R

	// OnError are error handlers as those of FuncOptions. Their errors are passed to Fallback.
	OnError []func(a A, err error) (R, error)
}

// Plain limits a function without a context and an error, as Func does. A call waits as long as
// the rule says. Plain returns an error that wraps weir.ErrInvalid if g, f, or both o.Fallback and
// o.Value are nil.
func Plain[A, R any](g *Guard, f func(A) R, o PlainOptions[A, R]) (func(A) R, error) {
	switch {
	case g == nil:
		return nil, errNil
	case f == nil:
		return nil, errNoFunc
	case o.Fallback == nil && o.Value == nil:
		return nil, fmt.Errorf("guard: %s: %w: got neither Fallback nor Value, want one, because the function returns no error", g.resource.Name, weir.ErrInvalid)
	}
	p := FuncOptions[A, R]{Key: o.Key, Cost: o.Cost}
	for _, handler := range o.OnError {
		p.OnError = append(p.OnError, func(_ context.Context, a A, err error) (R, error) { return handler(a, err) })
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

// MustPlain calls Plain, and panics on an error.
func MustPlain[A, R any](g *Guard, f func(A) R, o PlainOptions[A, R]) func(A) R {
	limited, err := Plain(g, f, o)
	if err != nil {
		panic(err)
	}
	return limited
}
