package guard

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/floodweir/weir"
)

// A Resource describes a guard: a place in a program that has a limit. Name is required.
type Resource struct {
	// Name identifies the guard in rules and keys, in the form of policy.Config.Name. It is
	// not "system". Guards of one name share their buckets, and must have the same Limits
	// and Wait.
	Name string

	// Limits apply unless a rule has others; DefaultLimit if empty.
	Limits []weir.Limit

	// Message is the whole text of Denied. If empty, that is "rate limit exceeded", or "call
	// refused" if a Protection refused the call, with the name and the reason.
	Message string

	// Wait is the longest time that a denied call waits, up to a minute; none if zero. The
	// wait of a rule replaces it.
	Wait time.Duration

	// HandlesStoreError means that the caller handles a *StoreError itself, also if the rule
	// admits the call: see StoreError.
	HandlesStoreError bool

	// The position of the guard, for operators. If all fields are zero, it is the caller of
	// Registry.Guard.
	Function string // such as "example.com/shop.(*Service).GetID"
	File     string
	Line     int
	BuiltBy  BuiltBy
}

// DefaultLimit returns the limit of a Resource without Limits: 100 in 60 seconds, counted from
// the first call.
func DefaultLimit() weir.Limit { return weir.MustLimit("100/60s fixed_window") }

// BuiltBy says how the code of a guard was written.
type BuiltBy string

// The values of BuiltBy.
const (
	// ByHand means code in the program.
	ByHand BuiltBy = ""
	// Generated means code that weir generate wrote.
	Generated BuiltBy = "generated"
	// Woven means code that weir go wove in.
	Woven BuiltBy = "woven"
)

// locate sets the position of the guard, skip frames above the caller.
func (p *Resource) locate(skip int) {
	if p.Function != "" || p.File != "" || p.Line != 0 {
		return
	}
	var pcs [1]uintptr
	if runtime.Callers(skip+2, pcs[:]) == 0 {
		return
	}
	f, _ := runtime.CallersFrames(pcs[:]).Next()
	p.Function, p.File, p.Line = f.Function, f.File, f.Line
}

// where returns the position of p for an error.
func (p *Resource) where() string {
	switch {
	case p.Function == "":
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	case p.File == "":
		return p.Function
	}
	return fmt.Sprintf("%s (%s:%d)", p.Function, p.File, p.Line)
}

// equal reports whether p and q describe one guard.
func (p *Resource) equal(q *Resource) bool {
	return slices.EqualFunc(p.Limits, q.Limits, weir.Limit.Equal) &&
		p.Name == q.Name && p.Message == q.Message && p.Wait == q.Wait && p.HandlesStoreError == q.HandlesStoreError &&
		p.Function == q.Function && p.File == q.File && p.Line == q.Line && p.BuiltBy == q.BuiltBy
}

// differs returns why p and q, which have one name, cannot share buckets, or "".
func (p *Resource) differs(q *Resource) string {
	switch {
	case !slices.EqualFunc(p.Limits, q.Limits, weir.Limit.Equal):
		return fmt.Sprintf("limits %v at %s, and %v at %s", p.Limits, p.where(), q.Limits, q.where())
	case p.Wait != q.Wait:
		return fmt.Sprintf("wait %v at %s, and %v at %s", p.Wait, p.where(), q.Wait, q.where())
	}
	return ""
}
