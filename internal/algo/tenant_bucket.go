package algo

import "fmt"

// A TenantBucket is one child of a parent bucket. Each child has a private bucket, which
// refills at its share of the parent's rate. What a full child does not use is surplus, from
// which every child may borrow.
//
// The parent has a rate R and a burst B. Child i has a weight wᵢ of W in total, a burst bᵢ and
// a credit of at most Cᵢ. First come, first served, Cᵢ = 0; by weight, Cᵢ = bᵢ. Σ(bᵢ+Cᵢ) ≤ B.
//
//	rᵢ       = R·wᵢ/W
//	P        = B − Σ(bᵢ+Cᵢ)                            the capacity of the pool
//	levelᵢ   ← levelᵢ + rᵢ·Δ, at most bᵢ; what exceeds bᵢ is surplus
//	creditᵢ  ← creditᵢ + wᵢ·ΔG, at most Cᵢ, with G the surplus per weight of credits below Cᵢ
//	pool     ← pool + surplus while all credits are full, at most P
//	admit n  ⇔  levelᵢ ≥ n, or creditᵢ ≥ n or pool ≥ n and child i has no debt
//	retry    = ⌈(n − levelᵢ)/rᵢ⌉ for n ≤ bᵢ
//
// A request takes all its tokens from one place: from the level of its child, else from its
// credit, else from the pool. So a child has the level of a private bucket (rᵢ, bᵢ). A request
// that this bucket would admit is admitted.
//
// Invariant: all levels together are at most B and grow by at most R, so in any span of d µs
// at most B + R·d tokens are admitted. Returns and debts count as in the parent's bucket.
//
// A Charge takes from one place too, and otherwise becomes debt of its child. A Return fills
// the place of the charge first; what exceeds it is surplus. The Retry of n ≤ bᵢ is exact if
// the child does not borrow: at it the request is admitted, whatever others take, and earlier
// only with borrowed tokens. For n between bᵢ and P it is when all levels are full.
//
// A child that is not full is stored as the instant at which it will be (see tenants.go). A
// request changes that of one child, and adds the rates of those that became full since. So it
// takes O(log children), amortized. Any request, also one that is denied, brings the state
// forward to its instant; this has no effect on decisions.
//
// One token is period·W units and rᵢ is count·wᵢ units per µs. First come, first served, both
// are divided by their greatest common divisor. G counts whole units; the rest of a division
// is kept, so nothing is rounded. If the children or the parent change, levels keep their
// tokens (see [Migrate]).
//
// Source: tc-htb(8), for weights, a guaranteed rate and borrowing from a parent; deficit round
// robin (Shreedhar and Varghese, 1995) for credits by weight.
//
// Deviation: HTB queues and orders what waits. A limiter decides at once, so a minimum has to
// be reserved: the bursts Σbᵢ are never lent.
type TenantBucket struct {
	*Tenants
	child int // index; -1: of no child of this parent
}

// Tenants is a parent with its children. It is immutable, and shared by their rules.
type Tenants struct {
	id       int64 // fingerprint of all that follows
	unit     int64 // units of one token
	rate     int64 // of the parent, in units per µs
	burst    int64 // of the parent, in units
	pool     int64 // P, in units
	weighted bool
	horizon  int64
	children []tenant
}

type tenant struct {
	id     int64
	rate   int64 // in units per µs
	burst  int64 // in units; also the capacity of the credit
	weight int64
}

// A Tenant describes a child. Its ID identifies it when the children change.
type Tenant struct{ ID, Weight, Burst int64 }

const (
	// MaxTenants is the largest number of children.
	MaxTenants = 1000

	// maxUnits bounds a parent's burst and rate in units; with debt, levels may lack twice as
	// much. So every sum of levels is below 2^53.
	maxUnits = 1 << 50
)

// NewTenants makes a parent with count tokens per period µs and a burst. If weighted is set,
// surplus is divided by weight. An error wraps ErrRange or ErrInexact and names the parameter,
// its value and what would be accepted.
func NewTenants(count, period, burst int64, children []Tenant, weighted bool) (*Tenants, error) {
	if _, err := NewTokenBucket(count, period, burst); err != nil {
		return nil, err
	}
	if n := len(children); n < 1 || n > MaxTenants {
		return nil, fmt.Errorf("children %d: %w: want 1 to %d", n, ErrRange, MaxTenants)
	}
	most, of := burst, "the burst"
	if weighted {
		most, of = burst/2, "half of the burst"
	}
	var weights, bursts int64
	for i, c := range children {
		if c.Weight < 1 || c.Weight > 1_000_000 {
			return nil, fmt.Errorf("children[%d].weight %d: %w: want 1 to 1000000", i, c.Weight, ErrRange)
		}
		if c.Burst < 1 || c.Burst > most-bursts {
			return nil, fmt.Errorf("children[%d].burst %d: %w: want at least 1, and at most %d in all children, %s of the parent",
				i, c.Burst, ErrRange, most, of)
		}
		weights, bursts = weights+c.Weight, bursts+c.Burst
	}
	d := gcd(count, period)
	count, period = count/d, period/d
	least := weights
	for _, c := range children {
		least = gcd(least, c.Weight)
	}
	weights /= least
	d = 1
	if !weighted {
		d = gcd(weights, count)
	}
	if weights/d > maxUnits/period/burst || weights > maxUnits/(count/d) {
		return nil, fmt.Errorf("weights %d: %w: want at most 2^50 units: the product of burst %d, period %d µs and sum of weights %d, in lowest terms, is above it; use rounder weights, a smaller burst or a shorter period",
			weights*least, ErrInexact, burst, period, weights/d)
	}
	g := &Tenants{weighted: weighted, unit: period * (weights / d), rate: count / d * weights}
	if weighted {
		bursts *= 2
	}
	g.burst, g.pool = burst*g.unit, (burst-bursts)*g.unit
	g.horizon = ceilDiv(g.burst, g.rate)
	seen := map[int64]bool{}
	for i, c := range children {
		if c.ID < 1 || c.ID > MaxInstant || seen[c.ID] {
			return nil, fmt.Errorf("children[%d].id %d: %w: want a number of its own, from 1 to 2^53-1", i, c.ID, ErrRange)
		}
		seen[c.ID] = true
		child := tenant{c.ID, count / d * (c.Weight / least), c.Burst * g.unit, c.Weight / least}
		g.children = append(g.children, child)
		g.horizon = max(g.horizon, ceilDiv(child.burst, child.rate))
	}
	g.id = g.fingerprint()
	return g, nil
}

// fingerprint returns 52 bits of the FNV-1a hash of the parent and its children, at least 1.
func (g *Tenants) fingerprint() int64 {
	h := uint64(14695981039346656037)
	mix := func(v int64) {
		for range 8 {
			h = (h ^ uint64(v)&255) * 1099511628211
			v >>= 8
		}
	}
	for _, v := range []int64{g.unit, g.rate, g.burst, g.pool} {
		mix(v)
	}
	for _, c := range g.children {
		mix(c.id)
		mix(c.rate)
		mix(c.burst)
	}
	return int64(h>>12) | 1
}

// Child returns the rule of the child with an index.
func (g *Tenants) Child(i int) *TenantBucket { return &TenantBucket{g, i} }

// Name implements [Rule].
func (b *TenantBucket) Name() string { return "tenant_bucket" }

// Params are the fingerprint, the unit, the rate, the burst and the pool of the parent, and
// the ID, the rate, the burst and the weight of the child. The weight is 0 if surplus is first
// come, first served.
func (b *TenantBucket) Params(int64) []int64 {
	return b.append([]int64{b.id, b.unit, b.rate, b.burst, b.pool}, b.children[b.child])
}

// AllParams are the Params, and then the ID, the rate, the burst and the weight of each child.
// A twin needs them for the state of a parent that has changed.
func (b *TenantBucket) AllParams() []int64 {
	p := b.Params(0)
	for _, c := range b.children {
		p = b.append(p, c)
	}
	return p
}

func (g *Tenants) append(p []int64, c tenant) []int64 {
	if !g.weighted {
		c.weight = 0
	}
	return append(p, c.id, c.rate, c.burst, c.weight)
}

// Variable implements [Rule].
func (g *Tenants) Variable() bool { return false }

// Capacity implements [Rule]: of the child or of the pool.
func (b *TenantBucket) Capacity() int64 { return max(b.children[b.child].burst, b.pool) / b.unit }

// Horizon implements [Rule].
func (g *Tenants) Horizon() int64 { return g.horizon }

// Guaranteed returns the guaranteed rate of the child, as tokens in a number of µs.
func (b *TenantBucket) Guaranteed() (tokens, period int64) {
	r := b.children[b.child].rate
	d := gcd(r, b.unit)
	return r / d, b.unit / d
}

// Do implements [Rule].
func (b *TenantBucket) Do(s []int64, a Ask) ([]int64, Result) {
	s, t := b.at(s, a.Now)
	r := Result{OK: true}
	own, credit := b.levels(s)
	fits, n := b.fits(s, own, credit), a.N
	switch a.Op {
	case Take, Peek:
		r.OK = n == 0 || n <= max(fits[Own], fits[Credit], fits[Pool])
	case TakeUpTo:
		if n = min(n, max(fits[Own], fits[Credit], fits[Pool])); n == 0 && a.N > 0 {
			r.OK, n = false, 1
		}
	case Charge:
		n = min(n, max(0, 2*maxUnits-b.missing(s))/b.unit)
	case Return:
		n = min(n, ceilDiv(b.missing(s), b.unit))
	}
	if r.OK && a.Op != Return && n > fits[Own] {
		for _, p := range []Place{Pool, Credit} {
			if n <= fits[p] {
				r.Place = p
			}
		}
	}
	switch {
	case a.Op == Peek || !r.OK:
	case a.Op == Return:
		b.giveBack(s, a.Place, n*b.unit)
	default:
		b.spend(s, r.Place, n*b.unit)
	}
	if r.OK && a.Op <= TakeUpTo && a.Op != Peek {
		r.Granted = n
	}
	if a.Op == Charge {
		r.Granted = a.N
	}
	own, credit = b.levels(s)
	r.Balance = floorDiv(own, b.unit)
	if own >= 0 {
		r.Balance += credit/b.unit + s[tenantsPool]/b.unit
	}
	r.Reset = t - a.Now + b.left(s)
	if b.missing(s) == 0 {
		r.Reset = 0
		clear(s[:tenantsWords]) // all else is zero
	}
	if !r.OK {
		c := &b.children[b.child]
		switch {
		case n <= c.burst/b.unit:
			r.Retry = t - a.Now + ceilDiv(n*b.unit-own, c.rate)
		case n <= b.pool/b.unit:
			r.Retry = r.Reset
		default:
			r.Retry = Never
		}
	}
	return s, r
}

// levels returns the level and the credit of the child, or zeros if it is none.
func (b *TenantBucket) levels(s []int64) (own, credit int64) {
	if b.child < 0 {
		return 0, 0
	}
	c := &b.children[b.child]
	own = c.burst - b.lack(s, b.child)
	if b.weighted {
		credit = c.burst - b.creditLack(s, b.child)
	}
	return own, credit
}

// fits returns how many tokens a request gets in each place.
func (b *TenantBucket) fits(s []int64, own, credit int64) (n [3]int64) {
	if own >= 0 {
		n = [3]int64{own / b.unit, credit / b.unit, s[tenantsPool] / b.unit}
	}
	return n
}

// spend takes units from a place.
func (b *TenantBucket) spend(s []int64, p Place, units int64) {
	switch {
	case units == 0:
	case p == Pool:
		s[tenantsPool] -= units
	case p == Credit:
		b.setCreditLack(s, b.child, b.creditLack(s, b.child)+units)
	default:
		b.setLack(s, b.child, b.lack(s, b.child)+units)
	}
}

// giveBack returns units to a place. What exceeds it is surplus.
func (b *TenantBucket) giveBack(s []int64, p Place, units int64) {
	back := int64(0)
	switch {
	case p == Pool:
		back = min(units, b.pool-s[tenantsPool])
		s[tenantsPool] += back
	case b.child < 0:
	case p == Credit && b.weighted:
		lack := b.creditLack(s, b.child)
		back = min(units, lack)
		b.setCreditLack(s, b.child, lack-back)
	case p == Own:
		lack := b.lack(s, b.child)
		back = min(units, lack)
		b.setLack(s, b.child, lack-back)
	}
	b.flow(s, min(units-back, b.room(s)))
}

// Until implements [Rule].
func (b *TenantBucket) Until(s []int64) int64 {
	if !b.used(s) {
		return 0
	}
	return s[tenantsNow] + b.left(s)
}

// Settling returns the rule for the tokens of a reservation, which was made under the rule
// charged, in a state under the rule state. Only a [TenantBucket] differs: the tokens belong
// to the child of charged. If the children have changed since, they are surplus.
func Settling(state, charged Rule) Rule {
	b, ok := state.(*TenantBucket)
	if !ok {
		return state
	}
	if c, ok := charged.(*TenantBucket); ok {
		if c.id == b.id {
			return c
		}
		return b.Child(-1)
	}
	return state
}
