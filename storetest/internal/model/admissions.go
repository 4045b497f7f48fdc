package model

import (
	"github.com/floodweir/weir/internal/algo"
)

// admissions are the charges in a window with their instants, oldest first.
type admissions []admission

type admission struct{ at, n int64 }

// sum counts the tokens of the admissions from an instant on, to before another.
func (l admissions) sum(from, to int64) (n int64) {
	for _, x := range l {
		if from <= x.at && x.at < to {
			n += x.n
		}
	}
	return n
}

// giveBack takes n tokens off the admissions from an instant on, to before
// another, the newest first.
func (l admissions) giveBack(n, from, to int64) {
	for i := len(l) - 1; i >= 0; i-- {
		if x := &l[i]; from <= x.at && x.at < to {
			gone := min(n, x.n)
			x.n -= gone
			n -= gone
		}
	}
}

// most is the number of tokens at which the count of a window saturates: a debt of
// MaxCount under the largest limit.
const most = 2 * algo.MaxCount

// fits returns how many tokens of a are granted if left are available, and whether that
// is OK. A request for none is always OK.
func fits(a algo.Ask, left int64) (n int64, ok bool) {
	switch a.Op {
	case algo.Take, algo.Peek:
		if a.N > left && a.N > 0 {
			return 0, false
		}
		if a.Op == algo.Peek {
			return 0, true
		}
		return a.N, true
	case algo.TakeUpTo:
		n = min(a.N, max(0, left))
		return n, n > 0 || a.N == 0
	case algo.Charge:
		return a.N, true
	}
	return 0, true
}

// missing returns the number of tokens whose lack denied a.
func missing(a algo.Ask) int64 {
	if a.Op == algo.TakeUpTo {
		return 1
	}
	return a.N
}
