package shop

import (
	"time"

	"github.com/floodweir/weir"
)

// Those who wait ask again every waiting/2,000 seconds, so that they are about 2,000
// questions a second however many they are.
const (
	pollRate = 2000
	pollMost = 20 * time.Second

	// pollLeast is within what one user may ask (2/s), with room for what is clicked; a burst
	// of that is for who has just got a ticket.
	pollLeast = 700 * time.Millisecond
	pollFirst = 200 * time.Millisecond
)

func pollOf(waiting int64) time.Duration {
	return min(pollMost, max(pollLeast, time.Duration(waiting)*time.Second/pollRate))
}

// turnPoll is when who has so many ahead asks again: as all do, but by half of the time that
// it will take, if that is sooner; and in any case in time for a token that is given out as
// early as can be, by a rate that nothing exceeds. It may be shorter than pollLeast.
func turnPoll(waiting, ahead int64, eta, tokenFor time.Duration, most float64) time.Duration {
	poll := pollOf(waiting)
	if eta > 0 {
		poll = min(poll, eta/2)
	}
	soonest := time.Duration(float64(ahead) / most * float64(time.Second))
	return min(poll, soonest+tokenFor/2)
}

// etaOf is about when the turn comes of who has so many ahead; 0 if nobody was admitted
// lately.
func etaOf(ahead int64, rate float64) time.Duration {
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

// again is a wait with jitter, so that not all come back at once, and none too early.
func again(wait time.Duration) time.Duration {
	return weir.Jitter(max(pollFirst, wait), 0.2)
}
