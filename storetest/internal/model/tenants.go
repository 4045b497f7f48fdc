package model

import (
	"math/big"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// tenants is a parent and its tenants. It holds the level of every tenant, of its credit and of
// the pool at one instant, and visits all tenants for each request.
type tenants struct {
	config weir.TenantBucket
	child  int // -1: none of them

	unit, rate, burst, capacity int64 // of the parent and of the pool
	rates, bursts, weights      []int64

	used          bool // false: all is full
	at            int64
	pool, rest    int64
	level, credit []int64
}

func newTenants(c weir.TenantBucket) *tenants {
	t := &tenants{config: c, child: -1}
	sum, part := int64(0), int64(0)
	for i, n := range c.Tenants {
		if n.Name == c.Tenant {
			t.child = i
		}
		sum, part = sum+n.Weight, gcd(part, n.Weight)
	}
	count, period := c.Count, c.Period.Microseconds()
	g := gcd(count, period)
	count, period, sum = count/g, period/g, sum/part
	t.unit = period * sum
	if g = 1; !c.Weighted {
		g = gcd(sum, count)
	}
	t.unit, t.rate = t.unit/g, count*sum/g
	t.burst = c.Burst * t.unit
	t.capacity = t.burst
	for _, n := range c.Tenants {
		t.rates = append(t.rates, count*(n.Weight/part)/g)
		t.bursts = append(t.bursts, n.Burst*t.unit)
		t.weights = append(t.weights, n.Weight/part)
		if t.capacity -= n.Burst * t.unit; c.Weighted {
			t.capacity -= n.Burst * t.unit
		}
	}
	t.fill()
	return t
}

func gcd(a, b int64) int64 {
	return new(big.Int).GCD(nil, nil, big.NewInt(a), big.NewInt(b)).Int64()
}

// fill makes all levels full.
func (t *tenants) fill() {
	t.used, t.at, t.pool, t.rest = false, 0, t.capacity, 0
	t.level, t.credit = append([]int64{}, t.bursts...), make([]int64, len(t.bursts))
	if t.config.Weighted {
		copy(t.credit, t.bursts)
	}
}

// lacks returns what the levels of the tenants and what the credits lack.
func (t *tenants) lacks() (own, credit int64) {
	for i, b := range t.bursts {
		if own += b - t.level[i]; t.config.Weighted {
			credit += b - t.credit[i]
		}
	}
	return own, credit
}

func (t *tenants) room() int64 {
	_, credit := t.lacks()
	return t.capacity - t.pool + credit - t.rest
}

func (t *tenants) missing() int64 {
	own, _ := t.lacks()
	return own + t.room()
}

// refill brings all levels forward to now.
func (t *tenants) refill(now int64) {
	if !t.used {
		t.at = now
	}
	d, surplus := max(0, now-t.at), new(big.Int)
	t.at += d
	for i, r := range t.rates {
		level := mul(r, d)
		level.Add(level, big.NewInt(t.level[i]))
		t.level[i] = min(t.bursts[i], saturate(level))
		surplus.Add(surplus, level.Sub(level, big.NewInt(t.level[i])))
	}
	t.divide(min(saturate(surplus), t.room()))
}

// divide gives surplus to the credits by weight or, if all are full, to the pool.
func (t *tenants) divide(surplus int64) {
	t.rest += surplus
	if _, credit := t.lacks(); t.rest >= credit {
		if t.pool = min(t.capacity, t.pool+t.rest-credit); t.config.Weighted {
			copy(t.credit, t.bursts)
		}
		t.rest = 0
		return
	}
	for {
		weights, steps := int64(0), int64(1<<62)
		for i, w := range t.weights {
			if lack := t.bursts[i] - t.credit[i]; lack > 0 {
				weights, steps = weights+w, min(steps, (lack+w-1)/w)
			}
		}
		if steps = min(steps, t.rest/weights); steps == 0 {
			return
		}
		for i, w := range t.weights {
			if lack := t.bursts[i] - t.credit[i]; lack > 0 {
				t.credit[i] += min(lack, steps*w)
				t.rest -= min(lack, steps*w)
			}
		}
	}
}

func (t *tenants) Do(a algo.Ask) algo.Result {
	t.refill(a.Now)
	const most = 1 << 50 // units of a parent
	r, n := algo.Result{OK: true}, a.N
	var own, credit int64
	if t.child >= 0 {
		own, credit = t.level[t.child], t.credit[t.child]
	}
	fits := [3]int64{max(0, own) / t.unit}
	if own >= 0 {
		fits[algo.Credit], fits[algo.Pool] = credit/t.unit, t.pool/t.unit
	}
	largest := max(fits[0], fits[1], fits[2])
	switch a.Op {
	case algo.Take, algo.Peek:
		r.OK = n == 0 || n <= largest
	case algo.TakeUpTo:
		if n = min(n, largest); n == 0 && a.N > 0 {
			r.OK, n = false, 1
		}
	case algo.Charge:
		n = min(n, max(0, 2*most-t.missing())/t.unit)
	case algo.Return:
		n = min(n, (t.missing()+t.unit-1)/t.unit)
	}
	if r.OK && a.Op != algo.Return && n > fits[algo.Own] {
		switch {
		case n <= fits[algo.Credit]:
			r.Place = algo.Credit
		case n <= fits[algo.Pool]:
			r.Place = algo.Pool
		}
	}
	if units := n * t.unit; r.OK && a.Op != algo.Peek {
		if place, _ := t.place(r.Place); a.Op != algo.Return {
			*place -= units
		} else if place, rest := t.place(a.Place); place == nil {
			t.divide(min(units, t.room()))
		} else {
			back := min(units, rest)
			*place += back
			t.divide(min(units-back, t.room()))
		}
	}
	if t.child >= 0 {
		own, credit = t.level[t.child], t.credit[t.child]
	}
	if r.Granted = n; !r.OK || a.Op == algo.Peek || a.Op == algo.Return {
		r.Granted = 0
	} else if a.Op == algo.Charge {
		r.Granted = a.N
	}
	if r.Balance = floorDiv(big.NewInt(own), big.NewInt(t.unit)); own >= 0 {
		r.Balance += credit/t.unit + t.pool/t.unit
	}
	t.used = true
	r.Reset = t.Until() - a.Now
	if !r.OK {
		switch b := t.bursts[t.child]; {
		case n <= b/t.unit:
			r.Retry = t.at - a.Now + ceilDiv(big.NewInt(n*t.unit-own), big.NewInt(t.rates[t.child]))
		case n <= t.capacity/t.unit:
			r.Retry = r.Reset
		default:
			r.Retry = algo.Never
		}
	}
	if t.missing() == 0 {
		r.Reset = 0
		t.fill()
	}
	return r
}

// place returns the units of a place, and what it lacks; nil if there is no such place.
func (t *tenants) place(p algo.Place) (units *int64, lack int64) {
	switch {
	case p == algo.Pool:
		return &t.pool, t.capacity - t.pool
	case t.child < 0, p == algo.Surplus:
	case p == algo.Own:
		return &t.level[t.child], t.bursts[t.child] - t.level[t.child]
	case t.config.Weighted:
		return &t.credit[t.child], t.bursts[t.child] - t.credit[t.child]
	}
	return nil, 0
}

func (t *tenants) Until() int64 {
	if !t.used {
		return 0
	}
	last := ceilDiv(big.NewInt(t.missing()), big.NewInt(t.rate))
	for i, r := range t.rates {
		last = max(last, ceilDiv(big.NewInt(t.bursts[i]-t.level[i]), big.NewInt(r)))
	}
	return t.at + last
}

func (t *tenants) Clone() State {
	c := *t
	c.level, c.credit = append([]int64{}, t.level...), append([]int64{}, t.credit...)
	return &c
}

// sameParent reports whether both have one parent and the same tenants.
func (t *tenants) sameParent(o *tenants) bool {
	a, b := t.config, o.config
	a.Tenant, b.Tenant = a.Tenants[0].Name, b.Tenants[0].Name
	x, err := weir.NewLimit(a)
	y, also := weir.NewLimit(b)
	return err == nil && also == nil && x.Equal(y)
}

// into makes to, which was never used, the state t at now.
func (t *tenants) into(to *tenants, now int64) {
	if t.sameParent(to) {
		to.used, to.at, to.pool, to.rest = t.used, t.at, t.pool, t.rest
		to.level, to.credit = t.level, t.credit
		return
	}
	t.refill(now)
	const most = 1 << 50
	convert := func(units, least int64) int64 {
		if t.unit == to.unit {
			return units
		}
		tokens := floorDiv(big.NewInt(units), big.NewInt(t.unit))
		part := mul(units-tokens*t.unit, to.unit)
		return min(max(tokens, -(least/to.unit)), most/to.unit)*to.unit + floorDiv(part, big.NewInt(t.unit))
	}
	partly := map[string]int64{}
	for i, n := range t.config.Tenants {
		if t.level[i] < t.bursts[i] {
			partly[n.Name] = convert(t.level[i], most/algo.MaxTenants)
		}
	}
	rest := convert(t.burst-t.missing(), 2*most)
	to.used, to.at, to.pool = true, t.at, 0
	clear(to.credit)
	for i, n := range to.config.Tenants {
		to.level[i] = 0
		if level, ok := partly[n.Name]; ok {
			to.level[i] = min(level, to.bursts[i])
		}
		rest -= to.level[i]
	}
	give := func(some bool) {
		for i, n := range to.config.Tenants {
			if _, ok := partly[n.Name]; ok == some {
				more := max(0, min(rest, to.bursts[i]-to.level[i]))
				to.level[i], rest = to.level[i]+more, rest-more
			}
		}
	}
	give(false)
	surplus := max(0, min(rest, to.room()))
	to.divide(surplus)
	rest -= surplus
	give(true)
	if to.missing() == 0 {
		to.fill()
	}
}
