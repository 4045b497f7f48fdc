package guard

import (
	"context"

	"github.com/floodweir/weir"
)

// A Guard asks about one place. It is safe for concurrent use.
type Guard struct{}

// Guard makes a guard of a place. An error wraps weir.ErrInvalid.
func (r *Registry) Guard(p Point) (*Guard, error) { panic("soon") }

// MustGuard is Guard for limits that the program text holds: it panics on an error.
func (r *Registry) MustGuard(p Point) *Guard { panic("soon") }

// Key joins what names who is limited into one key. A single part is its text;
// several are joined by commas, with a backslash before every comma and backslash in
// them.
func Key(parts ...any) string { panic("soon") }

// Name is the name of the guard of a function unless it has one: the import path, the
// receiver's type and the function, joined by dots, in the form of policy.Config.Name.
// What does not fit is cut at its beginning and told apart by a hash.
func Name(path, receiver, function string) string { panic("soon") }

// Enter asks whether a call may go through for key, and waits if the rule says so; an
// empty key is one for all. An error is a *Denied or a *Undecided, or wraps
// weir.ErrInvalid. Otherwise the caller exits the entry when the call is done.
func (g *Guard) Enter(ctx context.Context, key string) (*Entry, error) { panic("soon") }

// EnterN is Enter at a cost of n tokens of every limit.
func (g *Guard) EnterN(ctx context.Context, key string, n int64) (*Entry, error) { panic("soon") }

// Enter asks about a resource of the Default registry by name, with one key for all: code
// that is not one function. What rules its name has are those of Config.Functions. A
// resource without a rule limits nobody, and Live lists it.
//
//	e, err := guard.Enter(ctx, "resource")
//	if err != nil {
//		return err
//	}
//	defer func() { e.Exit(err) }()
func Enter(ctx context.Context, name string) (*Entry, error) { panic("soon") }

// Enter is as the function Enter, for this registry and for key.
func (r *Registry) Enter(ctx context.Context, name, key string) (*Entry, error) { panic("soon") }

// An Entry is one call that went through. A nil Entry exits as well.
type Entry struct{}

// Exit ends the call with what it returned: the outcome is counted, its duration noted,
// what it held given back. Exiting again does nothing. In a defer statement the argument
// is what it is at that moment, so defer a function that calls it, or use Done.
func (e *Entry) Exit(err error) {}

// Done is Exit for a defer statement: with *err as it is at the end of the function, and
// as failed if the function panics.
func (e *Entry) Done(err *error) {}

// Decision is how the call was let through.
func (e *Entry) Decision() weir.Decision { panic("soon") }
