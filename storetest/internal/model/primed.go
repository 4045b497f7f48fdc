package model

import (
	"github.com/floodweir/weir/internal/algo"
)

// primed is another bucket, of which a new key finds not all but initial tokens.
// It remembers until when a key is not new.
type primed struct {
	fresh   func() filling // a full one
	inner   filling
	missing int64 // from full, at the first request
	seen    int64
}

// filling is a bucket that takes Horizon from empty to full.
type filling interface {
	State
	Horizon() int64
}

func newPrimed(fresh func() filling, missing int64) *primed {
	return &primed{fresh: fresh, inner: fresh(), missing: missing}
}

func (p *primed) Do(a algo.Ask) algo.Result {
	inner, isNew := p.inner, a.Now >= p.seen
	if isNew {
		inner = p.fresh()
		inner.Do(algo.Ask{Op: algo.Charge, Now: a.Now, N: p.missing})
	}
	r := inner.Do(a)
	if a.Op == algo.Peek || a.N == 0 {
		r.Reset = max(0, p.seen-a.Now)
		return r
	}
	p.inner = inner
	if isNew || r.OK { // a first request is remembered even if it is denied
		p.see(a.Now)
	}
	r.Reset = p.seen - a.Now
	return r
}

// first records the first use of a key at now.
func (p *primed) first(now int64) { p.carried(now, p.missing) }

// idle is the time for which a full key is not new.
func (p *primed) idle() int64 { return max(day, p.inner.Horizon()) }

// see keeps the key from being new until its bucket is full, and then for a day, or longer
// if an empty bucket takes longer to fill.
func (p *primed) see(now int64) {
	p.seen = max(now, p.inner.Until()) + p.idle()
}

// carried makes the key one that is not new and owes so many tokens.
func (p *primed) carried(now, owed int64) {
	p.inner = p.fresh()
	if owed > 0 {
		p.inner.Do(algo.Ask{Op: algo.Charge, Now: now, N: owed})
	}
	p.see(now)
}

func (p *primed) Until() int64 { return p.seen }

func (p *primed) Clone() State {
	c := *p
	c.inner = p.inner.Clone().(filling)
	return &c
}
