// Package guard limits Go functions: who calls too often gets an error, a fallback or
// another value, and the function is not called.
//
//	var getID = guard.Default().MustGuard(guard.Point{
//		Name:   "getId",
//		Limits: []weir.Limit{weir.MustLimit("10/10s")},
//	})
//
//	func GetID(ctx context.Context, user string) (id int, err error) {
//		entry, err := getID.Enter(ctx, guard.Key(user))
//		if err != nil {
//			return 0, err // a *guard.Denied, or a *guard.Undecided
//		}
//		defer entry.Done(&err)
//		…
//	}
//
// [Func] and its kin wrap a function instead, and [Enter] is for code that is not one
// function. What the directive //weir:limit makes is
// code like the above: see docs/functions.md.
//
// # Names and numbers
//
// The program says where its limits are, and what they are unless somebody says
// otherwise. Whoever operates it says otherwise by name, in the section functions of a
// policy file (Config.Functions), while it runs: other limits, for certain keys too, in
// shadow, or off, one by one or as a whole.
//
// # What may be refused
//
// A call is denied by its limits, or by a [Ward] such as a circuit breaker: *[Denied].
// Limits are asked first, together, and get back what they gave to a call that a ward
// refuses. If the store makes no decision, the rule's on_store_error says what happens,
// after whoever was declared to answer instead: *[Undecided].
//
// # What counts
//
// A rule that counts failures or successes goes by what the function returned: an error,
// and a panic, is a failure. A caller that went away is charged either way. What a
// fallback returns is not the outcome of the function. Slots of a concurrency limit are
// held until the entry exits, however long that takes, and come free by themselves if the
// process dies.
//
// # Registries
//
// A [Registry] knows every guard of a program, where it stands and how it does, so that
// no limit is lost in silence. [Default] is that of the process, as slog.Default is its
// logger: generated code finds it there.
//
// # Concurrency
//
// Everything is safe for concurrent use, but that an [Entry] is of one call.
package guard
