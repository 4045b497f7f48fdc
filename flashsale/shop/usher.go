package shop

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/google/uuid"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

const (
	admitBatch = 500
	maxTokens  = 10_000 // slots of one concurrency limit
)

// tokens is the limit of admission tokens that are out. Its state is shared with that of
// any other number: while units are added, shops know of it one after the other. Each epoch
// has its own: the Inventory knows no token of an earlier one.
func tokens(d *sale.Sale) (weir.Limit, error) {
	return weir.NewLimit(weir.Concurrency{Count: min(maxTokens, int64(d.Headroom)*d.Stock), Lease: d.TokenFor, Shared: true})
}

// outOf is what is asked of the limit of tokens for a sale.
func outOf(verb weir.Verb, d *sale.Sale, n int64) (weir.Request, error) {
	l, err := tokens(d)
	return weir.Request{Verb: verb, Key: fmt.Sprintf("tokens\x00%s\x00%d", d.ID, d.Epoch), Limit: l, N: n}, err
}

// An usher admits from the line of one sale.
type usher struct {
	*Shop
	*live
	seen     time.Time // of the rate
	admitted int64     // since seen
	rate     float64   // admissions per second, lately
	again    time.Time // not before
}

func (s *Shop) usher(ctx context.Context, l *live) {
	u := &usher{Shop: s, live: l, seen: time.Now()}
	tick := time.NewTicker(admitEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.gone:
			return
		case <-tick.C:
		case <-l.wake:
		}
		u.giveSlots(ctx)
		u.admit(ctx)
		u.observe()
	}
}

// giveSlots returns the slots of tokens that were used since the last time.
func (u *usher) giveSlots(ctx context.Context) {
	p := u.snap.Load()
	if n := u.takeUsed(p.sale.Epoch, p.now(u.Clock())); n > 0 {
		u.returnSlots(ctx, &p.sale, n)
	}
}

// returnSlots gives back n slots, once: without an answer they may be free, and come free by
// themselves if they are not. The slots of all tokens are alike: that those come free which
// would end first leaves as many as there are tokens, for at least as long.
func (u *usher) returnSlots(ctx context.Context, d *sale.Sale, n int64) {
	ctx, cancel := u.within(ctx)
	defer cancel()
	r, err := outOf(weir.Return, d, n)
	if err == nil {
		_, err = u.Limits.Do(ctx, r)
	}
	if err != nil {
		u.tally.limitsAway.Add(1)
	}
}

// admit admits as many of the line as may be out.
func (u *usher) admit(ctx context.Context) {
	p := u.snap.Load()
	joined := u.joined.Swap(0)
	now := p.now(u.Clock())
	if !p.have || p.sale.State != sale.Exposed || p.counts.Waiting == 0 && joined == 0 ||
		now.Before(p.sale.StartsAt) || !now.Before(p.sale.EndsAt) {
		return
	}
	if time.Now().Before(u.again) {
		return
	}
	for range 4 { // a few batches a turn; the next turn comes soon
		took := time.Now()
		c, err := u.Shop.count(ctx, u.id, p.sale.Epoch)
		if err != nil {
			if errors.Is(err, sale.ErrStale) {
				kick(u.kept)
			}
			return
		}
		u.setCounts(p.sale.Epoch, c, true, u.Clock())
		n := min(c.Waiting, int64(p.sale.Headroom)*c.Free-c.Outstanding, admitBatch)
		if n <= 0 || c.Paused {
			return
		}
		if !u.batch(ctx, p, c, n) || time.Since(took) > admitEvery {
			return
		}
	}
}

// batch admits up to n, and reports whether all n were.
func (u *usher) batch(ctx context.Context, p *snapshot, c sale.Counts, n int64) bool {
	got, wait, err := u.take(ctx, &p.sale, n)
	if err != nil {
		u.tally.limitsAway.Add(1)
		u.Log.Warn("nobody admitted: the limit does not answer", "sale", u.id, "error", err)
		return false
	}
	if got == 0 {
		u.again = time.Now().Add(min(wait, 100*time.Millisecond))
		return false
	}
	u.Crash.At(crashpoint.AdmitTaken)
	// The Inventory counted before the slots were leased: no token outlives its slot.
	until := c.Now.Add(p.sale.TokenFor).Truncate(time.Millisecond)
	ask, cancel := u.within(ctx)
	m, err := u.Inventory.Admit(ask, u.id, p.sale.Epoch, newID(), int(got), until)
	cancel()
	if err != nil {
		return false // they may be out: the slots come free by themselves
	}
	u.Crash.At(crashpoint.AdmitDone)
	u.admitted += int64(m)
	u.tally.admitted.Add(int64(m))
	if rest := got - int64(m); rest > 0 {
		u.returnSlots(ctx, &p.sale, rest)
	}
	return got == n && int64(m) == got
}

// take takes up to n tokens of both limits, and says how long to wait if there is none.
func (s *Shop) take(ctx context.Context, d *sale.Sale, n int64) (int64, time.Duration, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	for range 4 {
		out, err := outOf(weir.Take, d, n)
		if err != nil {
			return 0, 0, err
		}
		// Both decisions are looked at: what both have left is what can be had.
		var ds [2]weir.Decision
		ok, err := s.Limits.DoAll(ctx, []weir.Request{out, s.drain.limiter.Request(weir.Take, s.drain.key, n)}, ds[:])
		if err != nil || ok {
			return n, 0, err
		}
		if n = min(n-1, ds[0].Remaining, ds[1].Remaining); n <= 0 {
			wait := weir.Combine(ds[:]).RetryAfter
			return 0, min(wait, d.TokenFor), nil
		}
	}
	return 0, admitEvery, nil
}

// observe keeps the rate of admissions for estimates, half of it of the last second.
func (u *usher) observe() {
	passed := time.Since(u.seen)
	if passed < 500*time.Millisecond {
		return
	}
	now := float64(u.admitted) / passed.Seconds()
	u.rate = (u.rate + now) / 2
	u.seen, u.admitted = time.Now(), 0
	u.turned.Store(math.Float64bits(u.rate))
}

// admissions is how many are admitted per second, lately.
func (l *live) admissions() float64 { return math.Float64frombits(l.turned.Load()) }

// newID is a unique name that sorts by time.
func newID() string {
	id, err := uuid.NewV7()
	if err != nil {
		panic("shop: no randomness: " + err.Error()) // the runtime ends the process before
	}
	return id.String()
}
