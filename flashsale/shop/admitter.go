package shop

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

// admitter admits waiting tickets of one sale.
type admitter struct {
	*env
	admission *admission
	sale      *liveSale

	measured  time.Time // when rate was measured
	admitted  int64     // since then
	rate      float64   // recent admissions per second
	notBefore time.Time // the limit had no token until then
}

func newAdmitter(e *env, a *admission, l *liveSale) *admitter {
	return &admitter{env: e, admission: a, sale: l, measured: time.Now()}
}

func (a *admitter) run(ctx context.Context) {
	tick := time.NewTicker(admitEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.sale.finished:
			return
		case <-tick.C:
		case <-a.sale.admitNow:
		}
		p := a.sale.snapshot.Load()
		if n := a.sale.takeUsedTokens(p.sale.Epoch, p.now(a.clock())); n > 0 {
			a.admission.giveBack(ctx, &p.sale, n)
		}
		a.admit(ctx)
		a.measure()
	}
}

// admit admits as many waiting tickets as tokens may be outstanding.
func (a *admitter) admit(ctx context.Context) {
	p := a.sale.snapshot.Load()
	joined := a.sale.joined.Swap(0)
	now := p.now(a.clock())
	if !p.counted || p.sale.State != sale.Exposed || p.counts.Waiting == 0 && joined == 0 ||
		now.Before(p.sale.StartsAt) || !now.Before(p.sale.EndsAt) || time.Now().Before(a.notBefore) {
		return
	}
	for range 4 { // a few batches per run; the next run comes soon
		began := time.Now()
		c, err := a.count(ctx, a.sale.id, p.sale.Epoch)
		if err != nil {
			if errors.Is(err, sale.ErrStale) {
				signal(a.sale.syncNow)
			}
			return
		}
		a.sale.setCounts(p.sale.Epoch, c, true, a.clock())
		n := min(c.Waiting, int64(p.sale.Headroom)*c.Free-c.Outstanding, maxAdmitBatch)
		if n <= 0 || c.Paused {
			return
		}
		if !a.admitBatch(ctx, p, c, n) || time.Since(began) > admitEvery {
			return
		}
	}
}

// admitBatch admits up to n tickets and reports whether it admitted all n.
func (a *admitter) admitBatch(ctx context.Context, p *snapshot, c sale.Counts, n int64) bool {
	got, wait, err := a.admission.take(ctx, &p.sale, n)
	if err != nil {
		a.stats.limitErrors.Add(1)
		a.log.Warn("admission skipped: limit store unavailable", "sale", a.sale.id, "error", err)
		return false
	}
	if got == 0 {
		a.notBefore = time.Now().Add(min(wait, 100*time.Millisecond))
		return false
	}
	a.crash.At(crashpoint.AdmitTaken)
	// c was read before the slots were leased, so no token outlives its slot.
	until := c.Now.Add(p.sale.TokenFor).Truncate(time.Millisecond)
	call, cancel := a.call(ctx)
	m, err := a.inventory.Admit(call, a.sale.id, p.sale.Epoch, newID(), int(got), until)
	cancel()
	if err != nil {
		return false // the tokens may be outstanding; their slots expire
	}
	a.crash.At(crashpoint.AdmitDone)
	a.admitted += int64(m)
	a.stats.admitted.Add(int64(m))
	if rest := got - int64(m); rest > 0 {
		a.admission.giveBack(ctx, &p.sale, rest)
	}
	return got == n && int64(m) == got
}

// measure updates the rate of admissions for estimates: half of the old rate, half of the
// last half second.
func (a *admitter) measure() {
	passed := time.Since(a.measured)
	if passed < 500*time.Millisecond {
		return
	}
	a.rate = (a.rate + float64(a.admitted)/passed.Seconds()) / 2
	a.measured, a.admitted = time.Now(), 0
	a.sale.admitRate.Store(math.Float64bits(a.rate))
}

// admissionRate returns the recent admissions per second.
func (l *liveSale) admissionRate() float64 { return math.Float64frombits(l.admitRate.Load()) }
