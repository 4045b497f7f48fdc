package model

import (
	"math/big"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// warmup is the bucket that starts cold. All its times are in units of 1/k µs, with k =
// count/gcd(count, period), so that a token takes a whole number of them. The additional
// cost of a stored permit is rounded up to a whole unit.
type warmup struct {
	burst, most        int64
	k, token, w, worst *big.Int // units in a µs; T; W; what the burst costs when cold

	credit *big.Int // what a change of limit rounded up
	used   bool     // false: cold, and nothing to pay
	next   *big.Int // the next free instant
	stored *big.Int // from 0 (warm) to W (cold)
}

func newWarmup(c weir.TokenBucket) State {
	period := c.Period.Microseconds()
	g := new(big.Int).GCD(nil, nil, big.NewInt(c.Count), big.NewInt(period)).Int64()
	b := &warmup{burst: c.Burst, most: mostAtOnce(c.Count, period), credit: new(big.Int)}
	b.k, b.token = big.NewInt(c.Count/g), big.NewInt(period/g)
	b.w = new(big.Int).Mul(b.k, big.NewInt(c.Warmup.Microseconds()))
	b.worst = b.cost(b.burst)
	b.worst.Add(b.worst, b.extra(b.w, min2(b.tokens(b.burst), b.w)))
	return b
}

func min2(a, b *big.Int) *big.Int {
	if a.Cmp(b) < 0 {
		return a
	}
	return b
}

func (b *warmup) tokens(n int64) *big.Int { return new(big.Int).Mul(b.token, big.NewInt(n)) }

// cost is n·T; of more than count at once, of as many as do.
func (b *warmup) cost(n int64) *big.Int { return b.tokens(min(n, b.most)) }

// extra is ((2s−W)₊² − (2(s−y)−W)₊²) / 2W, rounded up: what y of the stored
// permits s cost beyond their T.
func (b *warmup) extra(s, y *big.Int) *big.Int {
	square := func(x *big.Int) *big.Int {
		x = new(big.Int).Lsh(x, 1)
		if x.Sub(x, b.w); x.Sign() < 0 {
			x.SetInt64(0)
		}
		return x.Mul(x, x)
	}
	n := square(s)
	n.Sub(n, square(new(big.Int).Sub(s, y)))
	q, r := n.DivMod(n, new(big.Int).Lsh(b.w, 1), new(big.Int))
	if r.Sign() > 0 {
		q.Add(q, one)
	}
	return q
}

// at returns the debt at now, which is the time until the next free instant, and the
// stored time.
func (b *warmup) at(now int64) (debt, stored *big.Int) {
	if !b.used {
		return new(big.Int), new(big.Int).Set(b.w)
	}
	debt = new(big.Int).Mul(b.k, big.NewInt(now))
	debt.Sub(b.next, debt)
	stored = new(big.Int).Set(b.stored)
	if debt.Sign() < 0 { // idle since
		stored.Sub(stored, debt)
		stored.Set(min2(stored, b.w))
		debt.SetInt64(0)
	}
	return debt, stored
}

func (b *warmup) Do(a algo.Ask) algo.Result {
	debt, stored := b.at(a.Now)
	r := algo.Result{OK: true}
	n := a.N
	if a.Op == algo.TakeUpTo {
		n = min(n, b.burst)
	}
	switch a.Op {
	case algo.Take, algo.TakeUpTo, algo.Peek:
		switch {
		case n == 0:
		case n > b.burst:
			r.OK, r.Retry = false, algo.Never
		case debt.Sign() > 0:
			r.OK, r.Retry = false, ceilDiv(debt, b.k)
		case a.Op != algo.Peek:
			r.Granted = n
			b.spend(debt, stored, n)
		}
	case algo.Charge:
		r.Granted = n
		b.spend(debt, stored, n)
		if span := new(big.Int).Mul(b.k, big.NewInt(algo.MaxSpan)); debt.Cmp(span) > 0 {
			debt.Set(span)
		}
	case algo.Return:
		b.store(debt, stored, n)
	}
	r.Balance = b.balance(debt)
	cold := new(big.Int).Sub(b.w, stored)
	r.Reset = ceilDiv(cold.Add(cold, debt), b.k)
	if r.OK && a.Op != algo.Peek {
		now := new(big.Int).Mul(b.k, big.NewInt(a.Now))
		if r.Reset == 0 || b.used && now.Cmp(b.next) > 0 {
			b.credit = new(big.Int)
		}
		b.used, b.stored = r.Reset > 0, stored
		b.next = now.Add(now, debt)
	}
	return r
}

func (b *warmup) spend(debt, stored *big.Int, n int64) {
	y := new(big.Int).Set(min2(b.cost(n), stored))
	debt.Add(debt, b.cost(n))
	debt.Add(debt, b.extra(stored, y))
	stored.Sub(stored, y)
}

// store is spend undone, as if the permits had been the last that were taken. A
// bucket with nothing stored takes them back at T each.
func (b *warmup) store(debt, stored *big.Int, n int64) {
	y := new(big.Int).Set(min2(b.tokens(n), new(big.Int).Sub(b.w, stored)))
	dear := stored.Sign() > 0
	stored.Add(stored, y)
	if debt.Sub(debt, b.cost(n)); dear {
		debt.Sub(debt, b.extra(stored, y))
	}
	if debt.Sign() < 0 {
		debt.SetInt64(0)
	}
}

// balance is the burst while nothing is to be paid. Otherwise it is 0, and less
// by the whole tokens that are owed beyond what a Take can leave owing.
func (b *warmup) balance(debt *big.Int) int64 {
	if debt.Sign() == 0 {
		return b.burst
	}
	return max(-algo.MaxCount, min(0, floorDiv(new(big.Int).Sub(b.worst, debt), b.token)))
}

func (b *warmup) Until() int64 {
	if !b.used {
		return 0
	}
	cold := new(big.Int).Sub(b.w, b.stored)
	return ceilDiv(cold.Add(cold, b.next), b.k)
}

func (b *warmup) Clone() State {
	c := *b // numbers are replaced, never written to
	return &c
}
