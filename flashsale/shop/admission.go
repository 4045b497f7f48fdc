package shop

import (
	"context"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/sale"
)

// maxTokens bounds the slots of one concurrency limit.
const maxTokens = 10_000

// admission takes and returns the slots of admission tokens of Direct sales. In any other sale
// the inventory admits.
type admission struct {
	*env
	store weir.Store
	rate  *writeRate
}

// tokenLimit returns the limit on outstanding admission tokens of a sale. Limits with another
// count share its state: while units are added, processes learn of it at different times.
func tokenLimit(d *sale.Sale) (weir.Limit, error) {
	return weir.NewLimit(weir.Concurrency{Count: min(maxTokens, int64(d.Headroom)*d.Stock), Lease: d.TokenFor, Shared: true})
}

// tokenRequest returns a request to the token limit of a sale. Each epoch has its own key,
// because the inventory knows no token of an earlier one.
func tokenRequest(verb weir.Verb, d *sale.Sale, n int64) (weir.Request, error) {
	l, err := tokenLimit(d)
	return weir.Request{Verb: verb, Key: fmt.Sprintf("tokens\x00%s\x00%d", d.ID, d.Epoch), Limit: l, N: n}, err
}

// take takes up to n slots, as far as the write rate allows. If it takes none, it returns how
// long to wait.
func (a *admission) take(ctx context.Context, d *sale.Sale, n int64) (int64, time.Duration, error) {
	ctx, cancel := a.call(ctx)
	defer cancel()
	for range 4 {
		tokens, err := tokenRequest(weir.Take, d, n)
		if err != nil {
			return 0, 0, err
		}
		var ds [2]weir.Decision
		rate, err := a.rate.limiter.Request(ctx, a.rate.key, n)
		if err != nil {
			return 0, 0, err
		}
		ok, err := a.store.DoAll(ctx, []weir.Request{tokens, rate}, ds[:])
		if err != nil || ok {
			return n, 0, err
		}
		if n = min(n-1, ds[0].Remaining, ds[1].Remaining); n <= 0 {
			return 0, min(ds[0].Combine(ds[1]).RetryAfter, d.TokenFor), nil
		}
	}
	return 0, slotsEvery, nil
}

// giveBack returns n slots. It does not try again after an error: the slots may be free, and
// expire if they are not. All slots are alike, so if those that expire first come free, as
// many remain as there are tokens, for at least as long.
func (a *admission) giveBack(ctx context.Context, d *sale.Sale, n int64) {
	ctx, cancel := a.call(ctx)
	defer cancel()
	r, err := tokenRequest(weir.Return, d, n)
	if err == nil {
		_, err = a.store.Do(ctx, r)
	}
	if err != nil {
		a.stats.limitErrors.Add(1)
	}
}
