package weir

import (
	"math/rand/v2"
	"time"
)

// Jitter adds to a wait a random part of itself, up to the given share: callers
// told the same instant then come back spread out, and none comes too early. It
// leaves Never and a share of 0 or less as they are.
func Jitter(wait time.Duration, share float64) time.Duration {
	if wait == Never || wait <= 0 || share <= 0 {
		return wait
	}
	extra := time.Duration(rand.Float64() * share * float64(wait))
	if wait > Never-1-extra {
		return Never - 1
	}
	return wait + extra
}
