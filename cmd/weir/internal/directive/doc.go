// Package directive reads //weir:limit lines of Go source and the functions that they
// limit.
//
//	//weir:limit name=getId limit=10 period=10 key=userID fallback=getIDFallback
//	func GetID(ctx context.Context, userID string) (int, error) { … }
//
// [Parse] reads one line. [Find] reads those of a type-checked package and checks them
// against their functions.
//
// # Errors
//
// A fault of a directive is a [Fault] with its position. A directive is never ignored,
// since a missing limit would go unnoticed.
//
// # Concurrency
//
// All functions are safe for concurrent use. Their results are immutable.
package directive
