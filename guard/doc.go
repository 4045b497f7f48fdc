// Package guard limits Go functions: calls over the limit return an error, a fallback or a fixed
// value, and the function is not called.
//
//	var getID = guard.Default().MustGuard(guard.Resource{
//		Name:   "getId",
//		Limits: []weir.Limit{weir.MustLimit("10/10s")},
//	})
//
//	func GetID(ctx context.Context, user string) (id int, err error) {
//		entry, err := getID.Enter(ctx, guard.Key(user))
//		if err != nil {
//			return 0, err // a *guard.Denied or a *guard.StoreError
//		}
//		defer entry.Done(&err)
//		…
//	}
//
// [Func], [Action] and [Plain] wrap a function instead. [Enter] is for code that is not one
// function. The directive //weir:limit generates code like the above: see docs/functions.md.
//
// # Names and rules
//
// The program names its limits and sets their defaults. An operator changes them by name while
// the program runs, in the section functions of a policy file (Config.Functions): other limits,
// also for single keys, in shadow mode, or off.
//
// # Denials
//
// A call is denied by its limits, or by a [Protection] such as a circuit breaker: *[Denied].
// Limits are asked first, together. They get their tokens back if a protection refuses the call.
// If the store makes no decision, the handlers of OnError run first; then the rule's
// on_store_error decides: *[StoreError].
//
// # Counting by the outcome
//
// A rule that counts failures or successes uses what the function returned: an error or a panic
// is a failure. A call whose context was canceled is charged in either case. The result of a
// fallback is not the outcome of the function. Slots of a concurrency limit are held until the
// entry exits, and are released if the process dies.
//
// # Registries
//
// A [Registry] lists every guard of a program with its position and its counters, so that a
// limit that is missing is noticed. [Default] is that of the process, like the default logger of
// slog; generated code uses it.
//
// # Concurrency
//
// All functions and types are safe for concurrent use, except that an [Entry] belongs to one
// call.
package guard
