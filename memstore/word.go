package memstore

import (
	"math"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A narrow state is a pair of a stepper, packed into the word of an entry:
//
//	us<<11 | rem<<1 | pin
//
// us is below 2^53, and rem below 2^10. Of a bucket, they are the instant at which it is full. Of a
// fixed window, they are its last instant and the tokens taken in it; more tokens are in
// shard.counts. A bucket that a decision finds full is packed as the instant of that decision,
// not as zero, so that a decision with an earlier instant does not find it full too early. Words
// compare like instants: a key is as if never used when its word is at most that of now.
const (
	pin      = 1
	dropped  = table.Dropped // pinned, at an instant that the clock never reaches
	remBits  = 10
	maxUnits = 1 << remBits
)

func pack(us, rem int64) uint64 { return uint64(us)<<(remBits+1) | uint64(rem)<<1 }

func unpack(w uint64) (us, rem int64) {
	return int64(w >> (remBits + 1)), int64(w >> 1 & (maxUnits - 1))
}

// packed returns the word of the state that Step left at now: zeros are a full bucket.
func packed(us, rem, now int64) uint64 {
	if us == 0 {
		us, rem = now, 0
	}
	return pack(us, rem)
}

// A stepper is a rule whose state is a pair: of a token bucket, a leaky bucket or a fixed window.
type stepper interface {
	// Pair returns a state as a pair, and State a pair as a state.
	Pair(state []int64) (us, rem int64)
	State(us, rem int64) [2]int64

	Step(us, rem int64, a algo.Ask) (int64, int64, algo.Result)
	TakeOne(us, rem, now int64) (newUs, newRem int64, ok bool)
}

// narrow returns the rule of a limit as a stepper if its states fit a word, or nil. A named
// state does not: it is stored with its limit.
func narrow(l weir.Limit) stepper {
	if l.Spec().Named {
		return nil
	}
	switch b := l.Spec().Rule.(type) {
	case *algo.TokenBucket:
		if b.Units() <= maxUnits {
			return b
		}
	case *algo.LeakyBucket:
		if b.Units() <= maxUnits {
			return b
		}
	case *algo.FixedWindow:
		return b
	}
	return nil
}

// The clock stays between these instants. A state a hundred years after the last one
// still fits a word, and is not dropped.
const (
	firstInstant = 1
	lastInstant  = algo.MaxInstant - algo.MaxSpan - 1

	never = math.MaxInt64
)
