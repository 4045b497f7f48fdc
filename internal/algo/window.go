package algo

import "fmt"

const (
	// maxUsed is where a count of tokens saturates: it leaves room for a debt of
	// MaxCount under the largest limit.
	maxUsed = 2 * MaxCount

	// maxEntries is the most entries of a state that remembers single admissions.
	maxEntries = 10_000
)

// admit returns how many tokens a consumes if balance are left, and whether it is OK. A
// request for none is always OK, and so is Return, which consumes nothing.
func admit(a Ask, balance int64) (n int64, ok bool) {
	switch a.Op {
	case Take:
		if a.N == 0 || a.N <= balance {
			return a.N, true
		}
		return 0, false
	case TakeUpTo:
		n = min(a.N, max(0, balance))
		return n, n > 0 || a.N == 0
	case Peek:
		return 0, a.N == 0 || a.N <= balance
	case Charge:
		return a.N, true
	}
	return 0, true
}

// wanted is the number of tokens whose lack made a denied: any one of them for
// TakeUpTo.
func wanted(a Ask) int64 {
	if a.Op == TakeUpTo {
		return 1
	}
	return a.N
}

// saturated is used + n, at most most. It requires used ≤ most.
func saturated(used, n, most int64) int64 {
	if n > most-used {
		return most
	}
	return used + n
}

// checkCount checks the count, which every rule of this package has.
func checkCount(count, most int64) error {
	if count < 1 || count > most {
		return fmt.Errorf("count %d: %w: want 1 to %d", count, ErrRange, most)
	}
	return nil
}

func checkPeriod(name string, period int64) error {
	if period < 1 || period > MaxSpan {
		return fmt.Errorf("%s %d µs: %w: want 1 to %d (100 years)", name, period, ErrRange, int64(MaxSpan))
	}
	return nil
}
