package gate

import (
	"context"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A Config tunes a Gate. Its zero value works.
type Config struct {
	// Local decides for policies whose OnStoreError is Local while the store does not:
	// see package failover. It is required if there is one.
	Local weir.Store

	// MaxWaiting is how many requests may be held back at a time by policies with an
	// OnDenied.Wait; one more is denied at once. DefaultMaxWaiting if zero.
	MaxWaiting int

	// SettleTTL is how long tokens stay reserved for a request whose result says
	// whether it counts or what it cost; DefaultSettleTTL if zero, 1s to weir.MaxTTL.
	// A request that runs longer is charged at its end; until then others may take what
	// it had reserved.
	SettleTTL time.Duration

	// Blind says that there are no results, as at a door that only answers whether a
	// request may pass. What policies would count by the result is then counted when it
	// is admitted, and a slot is free again at once.
	Blind bool

	// Observe, if not nil, is told what became of a request, once for each policy
	// that it fell under; see [Unsettled] for the exception. It is called before Enter
	// returns and has to be quick.
	Observe func(ctx context.Context, a policy.Attributes, e Event)
}

// The defaults of a Config.
const (
	DefaultMaxWaiting = 1024
	DefaultSettleTTL  = 10 * time.Minute
)

// A Result is what became of a request that passed.
type Result struct {
	// Status is the HTTP status, or the one that another protocol's outcome amounts to:
	// policies that count by the outcome count by it.
	Status int

	// Unheard says that the caller went away before the end: it is charged whatever is
	// counted.
	Unheard bool

	// Tells finds the number that a policy's Settle asks for; nothing does if nil.
	Tells func(policy.Settle) (int64, bool)
}
