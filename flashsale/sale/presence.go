package sale

import "time"

const (
	// ReclaimFor is the time for which an absent ticket keeps its rank.
	ReclaimFor = 10 * time.Minute

	// TurnPoll is the poll interval of an admitted ticket.
	TurnPoll = time.Second

	// MaxUnpaid is the number of unpaid reservations from which on a user gets no ticket.
	MaxUnpaid = 4
)

// PollInterval returns when a waiting ticket polls again. With fewer than 200 tickets ahead it is
// a second, with fewer than 2,200 five seconds. Otherwise it is ten seconds, or a second per
// 10,000 waiting tickets if that is longer.
func PollInterval(ahead, waiting int64) time.Duration {
	switch {
	case ahead < 200:
		return time.Second
	case ahead < 2200:
		return 5 * time.Second
	}
	return max(10*time.Second, time.Duration(waiting/10)*time.Millisecond)
}

// Grace returns how long after a call a ticket stays present: three poll intervals and two
// seconds.
func Grace(poll time.Duration) time.Duration { return 3*poll + 2*time.Second }

// Penalty returns how much later the next rank of a user with unpaid returned reservations is:
// one, two, four and at most eight times payWithin.
func Penalty(unpaid int, payWithin time.Duration) time.Duration {
	if unpaid <= 0 {
		return 0
	}
	return payWithin << min(unpaid-1, 3)
}
