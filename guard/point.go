package guard

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/floodweir/weir"
)

// A Point describes a guard: a place in a program where a limit is asked about. Name is
// required.
type Resource struct {
	// Name is what rules and keys know the guard by, in the form of policy.Config.Name,
	// but not "system". Guards of one name share their buckets and have to have the same
	// Limits and Wait.
	Name string

	// Limits are those unless a rule says otherwise; DefaultLimit if none.
	Limits []weir.Limit

	// Message is that of Denied; if empty, "rate limit exceeded", or "call refused" if it
	// was a Ward.
	Message string

	// Wait holds a denied call back for at most so long, up to a minute; none if zero. A
	// rule says otherwise if it has a wait of its own.
	Wait time.Duration

	// Answered says that somebody answers for the store when it makes no decision: see
	// Undecided.
	Answered bool

	// Where the guard stands, for people. If all of them are zero, it is where the guard
	// was made.
	Function string // such as "example.com/shop.(*Service).GetID"
	File     string
	Line     int
	BuiltBy  BuiltBy
}

// DefaultLimit is the limit of a Point that has none: 100 in 60 seconds, counted from
// the first call.
func DefaultLimit() weir.Limit { return weir.MustLimit("100/60s fixed_window") }

// Made says how a guard came to be.
type BuiltBy string

const (
	// ByHand is a guard that the program makes itself.
	ByHand BuiltBy = ""
	// Generated is one in code that weir generate wrote.
	Generated BuiltBy = "generated"
	// Woven is one in code that weir go wove in.
	Woven BuiltBy = "woven"
)

// locate fills in where the guard stands, skip frames above the caller.
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

// where says where p stands, for an error.
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
		p.Name == q.Name && p.Message == q.Message && p.Wait == q.Wait && p.Answered == q.Answered &&
		p.Function == q.Function && p.File == q.File && p.Line == q.Line && p.BuiltBy == q.BuiltBy
}

// differs is why p and q, which have one name, cannot share buckets, or "".
func (p *Resource) differs(q *Resource) string {
	switch {
	case !slices.EqualFunc(p.Limits, q.Limits, weir.Limit.Equal):
		return fmt.Sprintf("limits %v at %s, and %v at %s", p.Limits, p.where(), q.Limits, q.where())
	case p.Wait != q.Wait:
		return fmt.Sprintf("wait %v at %s, and %v at %s", p.Wait, p.where(), q.Wait, q.where())
	}
	return ""
}
