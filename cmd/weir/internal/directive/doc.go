// Package directive reads //weir:limit lines of Go source: what they say, and what they
// stand on.
//
//	//weir:limit name=getId limit=10 period=10 key=userID fallback=getIDFallback
//	func GetID(ctx context.Context, userID string) (int, error) { … }
//
// [Parse] reads one line. [Find] reads those of a package whose types are known, and
// checks them against the functions they stand on.
//
// # Errors
//
// Whatever is wrong with a directive is a [Fault] with its place, never a directive that
// is left out: a limit that is not in force without anybody being told is the worst that
// can happen to one.
//
// # Concurrency
//
// All functions may be called at the same time; what they return is not written to again.
package directive
