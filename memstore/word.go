package memstore

import (
	"math"

	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore/internal/table"
)

// A narrow state is a token bucket's or leaky bucket's, packed into the word of an entry:
//
//	us<<11 | rem<<1 | pin
//
// us, below 2^53, and rem, below 2^10, are the instant at which the bucket is
// full. A full bucket is packed as the instant at which it was found full, not as
// zero: a decision that read the clock earlier then can't find it full too early.
// As words compare like instants, a key is as never used when its word is at most
// that of now.
const (
	pin      = 1
	gone     = table.Gone // pinned, and at an instant that the clock never reaches
	remBits  = 10
	maxUnits = 1 << remBits
)

func pack(us, rem int64) uint64 { return uint64(us)<<(remBits+1) | uint64(rem)<<1 }

func unpack(w uint64) (us, rem int64) {
	return int64(w >> (remBits + 1)), int64(w >> 1 & (maxUnits - 1))
}

// packed is the word of a state that a rule's Step left at now: zeros are full.
func packed(us, rem, now int64) uint64 {
	if us == 0 {
		us, rem = now, 0
	}
	return pack(us, rem)
}

// A stepper is a rule whose state is one instant: a token bucket, or a leaky one.
type stepper interface {
	Units() int64
	Step(us, rem int64, a algo.Ask) (int64, int64, algo.Result)
}

// narrow is rule as one whose states fit a word, or nil.
func narrow(rule algo.Rule) stepper {
	switch b := rule.(type) {
	case *algo.TokenBucket:
		if b.Units() <= maxUnits {
			return b
		}
	case *algo.LeakyBucket:
		if b.Units() <= maxUnits {
			return b
		}
	}
	return nil
}

// Instants that the clock is kept within: a state a hundred years ahead of the
// last one still packs, and is not gone.
const (
	firstInstant = 1
	lastInstant  = algo.MaxInstant - algo.MaxSpan - 1

	never = math.MaxInt64
)
