package guard

import "context"

// ActionOptions are Options of a function without a result, field by field. A link of
// OnError answers by returning nil: the function is then not called.
type ActionOptions[A any] struct {
	Key      func(A) string
	Cost     func(A) int64
	Fallback func(ctx context.Context, a A, denied error) error
	OnError  []func(ctx context.Context, a A, err error) error
}

// Action is Func for a function without a result.
func Action[A any](g *Guard, f func(context.Context, A) error, o ActionOptions[A]) func(context.Context, A) error {
	type none = struct{}
	p := Options[A, none]{Key: o.Key, Cost: o.Cost}
	if o.Fallback != nil {
		p.Fallback = func(ctx context.Context, a A, err error) (none, error) { return none{}, o.Fallback(ctx, a, err) }
	}
	for _, link := range o.OnError {
		p.OnError = append(p.OnError, func(ctx context.Context, a A, err error) (none, error) { return none{}, link(ctx, a, err) })
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

// ActionOptions0 are ActionOptions of a function without an argument, field by field.
type ActionOptions0 struct {
	Key      func() string
	Cost     func() int64
	Fallback func(ctx context.Context, denied error) error
	OnError  []func(ctx context.Context, err error) error
}

// Action0 is Action for a function without an argument.
func Action0(g *Guard, f func(context.Context) error, o ActionOptions0) func(context.Context) error {
	type none = struct{}
	p := ActionOptions[none]{}
	if o.Key != nil {
		p.Key = func(none) string { return o.Key() }
	}
	if o.Cost != nil {
		p.Cost = func(none) int64 { return o.Cost() }
	}
	if o.Fallback != nil {
		p.Fallback = func(ctx context.Context, _ none, err error) error { return o.Fallback(ctx, err) }
	}
	for _, link := range o.OnError {
		p.OnError = append(p.OnError, func(ctx context.Context, _ none, err error) error { return link(ctx, err) })
	}
	var whole func(context.Context, none) error
	if f != nil {
		whole = func(ctx context.Context, _ none) error { return f(ctx) }
	}
	limited := Action(g, whole, p)
	return func(ctx context.Context) error { return limited(ctx, none{}) }
}

// ActionOptions2 are ActionOptions of a function of two arguments, field by field.
type ActionOptions2[A, B any] struct {
	Key      func(A, B) string
	Cost     func(A, B) int64
	Fallback func(ctx context.Context, a A, b B, denied error) error
	OnError  []func(ctx context.Context, a A, b B, err error) error
}

// Action2 is Action for a function of two arguments.
func Action2[A, B any](g *Guard, f func(context.Context, A, B) error, o ActionOptions2[A, B]) func(context.Context, A, B) error {
	p := ActionOptions[pair[A, B]]{}
	if o.Key != nil {
		p.Key = func(p pair[A, B]) string { return o.Key(p.a, p.b) }
	}
	if o.Cost != nil {
		p.Cost = func(p pair[A, B]) int64 { return o.Cost(p.a, p.b) }
	}
	if o.Fallback != nil {
		p.Fallback = func(ctx context.Context, p pair[A, B], err error) error { return o.Fallback(ctx, p.a, p.b, err) }
	}
	for _, link := range o.OnError {
		p.OnError = append(p.OnError, func(ctx context.Context, p pair[A, B], err error) error { return link(ctx, p.a, p.b, err) })
	}
	var whole func(context.Context, pair[A, B]) error
	if f != nil {
		whole = func(ctx context.Context, p pair[A, B]) error { return f(ctx, p.a, p.b) }
	}
	limited := Action(g, whole, p)
	return func(ctx context.Context, a A, b B) error { return limited(ctx, pair[A, B]{a, b}) }
}
