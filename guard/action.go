package guard

import "context"

// ActionOptions are FuncOptions for a function without a result. An error handler in OnError that
// returns nil handles the error: the function is then not called.
type ActionOptions[A any] struct {
	Key      func(A) string
	Cost     func(A) int64
	Fallback func(ctx context.Context, a A, denied error) error
	OnError  []func(ctx context.Context, a A, err error) error

	// AllErrors means that OnError also handles the errors that the function returns.
	AllErrors bool
}

// Action limits a function without a result, as Func does.
func Action[A any](g *Guard, f func(context.Context, A) error, o ActionOptions[A]) func(context.Context, A) error {
	type none = struct{}
	p := FuncOptions[A, none]{Key: o.Key, Cost: o.Cost, AllErrors: o.AllErrors}
	if o.Fallback != nil {
		p.Fallback = func(ctx context.Context, a A, err error) (none, error) { return none{}, o.Fallback(ctx, a, err) }
	}
	for _, handler := range o.OnError {
		p.OnError = append(p.OnError, func(ctx context.Context, a A, err error) (none, error) { return none{}, handler(ctx, a, err) })
	}
	var whole func(context.Context, A) (none, error)
	if f != nil {
		whole = func(ctx context.Context, a A) (none, error) { return none{}, f(ctx, a) }
	}
	limited := Func(g, whole, p)
	return func(ctx context.Context, a A) error {
		_, err := limited(ctx, a)
		return err
	}
}
