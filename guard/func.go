package guard

import "context"

// Options say what a wrapped function does instead of being called. A is its argument,
// R its result. The zero value returns errors.
type Options[A, R any] struct {
	// Key names who is limited; one key for all if nil.
	Key func(A) string

	// Cost is the tokens of a call; 1 if nil.
	Cost func(A) int64

	// Fallback answers a denied call; denied is the *Denied.
	Fallback func(ctx context.Context, a A, denied error) (R, error)

	// Value answers a denied call, if there is no Fallback; the *Denied does if nil.
	Value *R

	// OnError answer in their order when the store makes no decision: each returns an
	// answer, or Next to pass on, or another error to fail. If all pass on, the rule's
	// on_store_error says what happens.
	OnError []func(ctx context.Context, a A, err error) (R, error)
}

// Func limits a function.
func Func[A, R any](g *Guard, f func(context.Context, A) (R, error), o Options[A, R]) func(context.Context, A) (R, error) {
	panic("soon")
}
