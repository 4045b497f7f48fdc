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
	// The first poll after a new ticket uses the burst of that limit.
	minPoll   = 700 * time.Millisecond
	firstPoll = 200 * time.Millisecond
)

func pollInterval(waiting int64) time.Duration {
	return min(maxPoll, max(minPoll, time.Duration(waiting)*time.Second/pollRate))
}

// ticketPoll returns when a client with this many tickets ahead polls again: after the common
// interval, or half of the estimated wait if that is shorter. It is always soon enough to use
// a token that is given at the highest possible rate. It may be shorter than minPoll.
func ticketPoll(waiting, ahead int64, eta, tokenFor time.Duration, maxRate float64) time.Duration {
	poll := pollInterval(waiting)
	if eta > 0 {
		poll = min(poll, eta/2)
	}
	soonest := time.Duration(float64(ahead) / maxRate * float64(time.Second))
	return min(poll, soonest+tokenFor/2)
}

// estimate returns about when a ticket with this many ahead is admitted; 0 if there were no
// admissions lately.
func estimate(ahead int64, rate float64) time.Duration {
	const longest = 24 * time.Hour
	if rate < 0.01 {
		return 0
	}
	s := float64(ahead+1) / rate
	if s > longest.Seconds() {
		return longest
	}
	return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond)
}

// retryAfter adds jitter to a wait, so that clients do not all return at once. It never
// returns less than the wait.
func retryAfter(wait time.Duration) time.Duration {
	wait = max(firstPoll, wait)
	return wait + rand.N(wait/5+1)
}
