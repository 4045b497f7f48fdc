package algo

import (
	"errors"
	"math"
)

const (
	// MaxInstant is the largest instant and the largest product of a state that
	// both Go's int64 and Lua's doubles hold exactly.
	MaxInstant = 1<<53 - 1

	// MaxSpan is the longest span of a rule, in µs: one hundred years of 365.25 days. A
	// period, the time from empty to full, and a debt are never longer.
	MaxSpan = 36525 * 24 * 3600 * 1_000_000

	// MaxCount is the largest number of tokens that a rule counts.
	MaxCount = 1 << 40

	// Never is the Retry of a request that no wait helps.
	Never = math.MaxInt64
)

// An Op names an operation on a state.
type Op uint8

const (
	// Take consumes n tokens if all n fit, and nothing otherwise.
	Take Op = iota
	// TakeUpTo consumes as many of n tokens as fit. It is denied when none does.
	TakeUpTo
	// Peek consumes nothing and returns the result of Take.
	Peek
	// Charge consumes n tokens whether they fit or not; what does not fit becomes
	// debt. It is always OK.
	Charge
	// Return gives n tokens back, never beyond the capacity. It is always OK.
	Return
)

// A Place is where the tokens of a [TenantBucket] are. Other rules have only Own.
type Place uint8

const (
	Own     Place = iota // the level of the child
	Credit               // what is lent to the child, by weight
	Pool                 // what is lent to any child
	Surplus              // of a Return: Credit or Pool
)

// An Ask is one request to a state.
type Ask struct {
	Op    Op
	Place Place // Return: the place of the charge
	Now   int64 // the instant of the decision, µs
	N     int64 // tokens, not negative

	// At is the instant of the charge that a Return gives back, so that a window that
	// has passed is not credited. Zero means the newest charges. A log gives back what
	// was charged at At, and a sliding window what was charged in At's segment. A fixed
	// window gives back tokens if At is in the current window. Buckets do not
	// distinguish charges and ignore it.
	At int64

	// ID and TTL name and time a slot of a Concurrency rule: the slot ID is taken
	// for TTL µs, or renewed if it is held. A zero ID is an anonymous slot, a zero
	// TTL the rule's own lease. Other rules ignore both.
	ID  uint64
	TTL int64
}

// A Result is the result of an Ask.
type Result struct {
	OK      bool
	Place   Place // from which the tokens are; of a Peek, would be
	Granted int64 // tokens consumed; 0 for Peek; of Return 0, but for Concurrency the slots freed
	Balance int64 // tokens left after the decision, rounded down; negative in debt
	Retry   int64 // µs until the request would be admitted; 0 when OK; or Never
	Reset   int64 // µs until the state is as if never used
	Delay   int64 // µs to hold an admitted request back (leaky queue)
}

// A Rule is one limit's arithmetic. Rules are immutable, and safe for use by
// several goroutines at once; a state is not.
type Rule interface {
	// Name returns the name of the algorithm: that of its file, of its Lua twin, and of
	// the algorithm in a policy file.
	Name() string

	// Params returns the numbers with which a twin in another language decides as Do
	// does; each rule documents their order. now is roughly the instant of the decision:
	// the rule of a calendar lists the windows around it.
	Params(now int64) []int64

	// Words returns the number of words of a new state. Rules with a Variable state grow
	// it.
	Words() int

	// Variable reports whether the length of a state changes as it is used.
	Variable() bool

	// Capacity returns the most tokens of a single Take. A larger one is always denied.
	Capacity() int64

	// Horizon returns the longest time, in µs, after which a state without debt is as if
	// never used.
	Horizon() int64

	// Do decides a and returns the state after it. It may write into s and return it, as
	// append does. If the result is not OK the words of s are unchanged, with two
	// exceptions. [Primed] records the first use of a key even then, and a store keeps
	// that. [TenantBucket] brings s forward to a.Now, also for a Peek, which has no effect on
	// results from then on. A state that is empty, shorter than Words or all zeros was never
	// used.
	Do(s []int64, a Ask) ([]int64, Result)

	// Until returns the instant from which s is as if never used; 0 if it is so already.
	Until(s []int64) int64

	// Shift moves every instant in s back by d µs, for the state of a clock that was d
	// ahead, or forward by -d if d is negative. No instant becomes less than 1.
	Shift(s []int64, d int64)
}

// Refill returns the longest time, in µs, that an empty state without debt takes to fill. It is
// the horizon of a rule, without the idle period of a [Primed].
func Refill(r Rule) int64 {
	if outer, ok := r.(interface{ Inner() Rule }); ok {
		return Refill(outer.Inner())
	}
	return r.Horizon()
}

// Errors of the constructors. They are wrapped with the invalid value and the accepted
// ones.
var (
	// ErrRange reports a parameter outside of its range.
	ErrRange = errors.New("out of range")
	// ErrInexact reports a limit that cannot be kept exactly in both Go and Lua.
	ErrInexact = errors.New("cannot be kept exactly")
)

// gcd returns the greatest common divisor of two positive numbers.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// zero clears a state in place: the key is as if never used.
func zero(s []int64) []int64 {
	clear(s)
	return s
}

// grown returns s with at least n words, new ones zero.
func grown(s []int64, n int) []int64 {
	for len(s) < n {
		s = append(s, 0)
	}
	return s
}
