package model

import (
	"math/big"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// A State is one key's state under one limit, and the rule that changes it.
type State interface {
	// Do decides, as the Do of a rule in package algo.
	Do(a algo.Ask) algo.Result
	// Until is the instant from which the state is as if never used; 0 if it is so
	// already.
	Until() int64
	// Clone is a copy that shares nothing that changes.
	Clone() State
}

// NewState is a state of limit that was never used.
func NewState(limit weir.Limit) State {
	switch c := limit.Config().(type) {
	case weir.TokenBucket:
		return newTokenBucket(c)
	case weir.LeakyBucket:
		if c.Nginx {
			return newNginx(c)
		}
		return newLeaky(c)
	case weir.FixedWindow:
		return newWindow(c)
	case weir.SlidingWindow:
		return newSliding(c)
	case weir.SlidingLog:
		return newLog(c)
	case weir.Concurrency:
		return newSlots(c)
	case weir.TenantBucket:
		return newTenants(c)
	}
	panic("model: no rule for " + limit.String())
}

// mul is a product that cannot overflow.
func mul(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }

// ceilDiv is a/b, rounded up, for b > 0.
func ceilDiv(a, b *big.Int) int64 {
	q, r := new(big.Int).DivMod(a, b, new(big.Int)) // 0 ≤ r < b
	if r.Sign() > 0 {
		q.Add(q, one)
	}
	return saturate(q)
}

// floorDiv is a/b, rounded down, for b > 0.
func floorDiv(a, b *big.Int) int64 {
	return saturate(new(big.Int).Div(a, b)) // Euclid's division rounds down for b > 0
}

var one = big.NewInt(1)

// saturate is a as an int64, or the nearest one.
func saturate(a *big.Int) int64 {
	if a.IsInt64() {
		return a.Int64()
	}
	if a.Sign() < 0 {
		return -1 << 63
	}
	return 1<<63 - 1
}

// ceilMicros is d in µs, rounded up.
func ceilMicros(d time.Duration) int64 {
	us := d.Microseconds()
	if d%time.Microsecond != 0 {
		us++
	}
	return us
}
