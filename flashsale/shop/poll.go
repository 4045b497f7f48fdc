package shop

import (
	"math/rand/v2"
	"time"
)

// Waiting clients poll every waiting/2,000 seconds: together about 2,000 requests per second,
// however many they are.
const (
	pollRate = 2000
	maxPoll  = 20 * time.Second

	// minPoll leaves room within the limit per user (2/s) for requests that the user clicks.
	minPoll = 700 * time.Millisecond
)

// pollInterval returns when a client without a ticket polls again. A ticket has its own
// interval (sale.PollInterval).
func pollInterval(waiting int64) time.Duration {
	return min(maxPoll, max(minPoll, time.Duration(waiting)*time.Second/pollRate))
}

const minRetry = 200 * time.Millisecond

// retryAfter adds jitter to a wait, so that clients do not all return at once. It never
// returns less than the wait.
func retryAfter(wait time.Duration) time.Duration {
	wait = max(minRetry, wait)
	return wait + rand.N(wait/5+1)
}
