package algo

// A Due is an open reservation: N tokens of a Place, charged at At under a Rule, that return at
// the instant Deadline.
type Due struct {
	Deadline, At, N int64
	Place           Place
	Rule            Rule
}

const (
	// maxRetryDues and maxResetDues bound the work for one decision: the reservations that a
	// Retry and a Reset account for.
	maxRetryDues = 512
	maxResetDues = 32
)

// Await returns r, the result of a, with the Retry and the Reset corrected for the reservations
// that return their tokens by themselves. s is the state after the decision; dues are its open
// reservations in order of their deadlines. Await uses buf, and leaves s as it is.
//
// The Retry of a denial is then exact with up to 512 deadlines before it. With more it is the
// next deadline: no retry before it is admitted, and one at it may be denied. The Reset is
// exact with up to 32 deadlines before it, and with more it may be too late.
func Await(rule Rule, s []int64, a Ask, r Result, dues func(yield func(Due) bool), buf []int64) Result {
	waits, n := !r.OK && r.Retry != Never, 0
	want := wanted(a)
	for d := range dues {
		waits = waits && d.Deadline < a.Now+r.Retry
		switch {
		case !waits && d.Deadline >= a.Now+r.Reset:
			return r
		case waits && n == maxRetryDues:
			r.Retry = d.Deadline - a.Now
			return r
		case !waits && n >= maxResetDues:
			return r
		}
		if n++; n == 1 {
			s = append(buf[:0], s...)
		}
		if rule.Until(s) > d.Deadline {
			s, _ = Settling(rule, d.Rule).Do(s, Ask{Op: Return, Place: d.Place, Now: d.Deadline, N: d.N, At: d.At})
		}
		r.Reset = max(d.Deadline, rule.Until(s)) - a.Now
		if waits {
			_, then := rule.Do(s, Ask{Op: Peek, Now: d.Deadline, N: want})
			r.Retry = d.Deadline - a.Now + then.Retry
		}
	}
	return r
}
