package algo

import "fmt"

// A TenantBucket is one child of a parent bucket. Each child has a private bucket, which
// refills at its share of the parent's rate. What a full child does not use flows into a pool,
// from which every child may borrow.
//
// The parent has a rate R and a burst B. Child i has a weight wᵢ of W in total and a burst bᵢ,
// with Σbᵢ ≤ B. The state has the level of each child and of the pool at one instant.
//
//	rᵢ       = R·wᵢ/W
//	P        = B − Σbᵢ                                 the capacity of the pool
//	levelᵢ   ← levelᵢ + rᵢ·Δ, at most bᵢ; what exceeds bᵢ flows into the pool, at most P
//	admit n  ⇔  levelᵢ ≥ n, or pool ≥ n and child i has no debt
//	retry    = ⌈(n − levelᵢ)/rᵢ⌉ for n ≤ bᵢ
//
// A request takes all its tokens from one place: first from the level of its child, then from
// the pool. So a child has the level of a private bucket (rᵢ, bᵢ). A request that this bucket
// would admit is admitted.
//
// Invariant: all levels together are at most B and grow by at most R, so in any span of d µs
// at most B + R·d tokens are admitted. Returns and debts count as in the parent's bucket.
//
// A Charge takes from one place too, and otherwise becomes debt of its child. A Return fills
// the child first and then the pool. The Retry of n ≤ bᵢ is exact if the child does not borrow:
// at it the request is admitted, whatever others take, and earlier only from the pool. For n
// between bᵢ and P it is when all levels are full.
//
// One token is period·W units and rᵢ is count·wᵢ units per µs, both divided by their greatest
// common divisor, so nothing is rounded. If the children or the parent change, levels keep
// their tokens (see [Migrate]).
//
// Source: tc-htb(8), for weights, a guaranteed rate and borrowing from a parent.
//
// Deviation: HTB queues and orders what waits. A limiter decides at once, so a minimum has to
// be reserved: the bursts Σbᵢ are never lent. The pool is first come, first served.
type TenantBucket struct {
	tenants
	child int
}

// tenants is a parent with its children.
type tenants struct {
	id       int64 // fingerprint of all that follows
	unit     int64 // units of one token
	rate     int64 // of the parent, in units per µs
	burst    int64 // of the parent, in units
	pool     int64 // P, in units
	children []tenant
}

type tenant struct {
	id    int64
	rate  int64 // in units per µs
	burst int64 // in units
}

// A Tenant describes a child. Its ID identifies it when the children change.
type Tenant struct{ ID, Weight, Burst int64 }

const (
	// MaxTenants is the largest number of children.
	MaxTenants = 256

	// maxUnits bounds a parent's burst and rate in units; with debt, levels may lack twice as
	// much. So every sum of levels is below 2^53.
	maxUnits = 1 << 50
)

// The state of a TenantBucket: the instant, the fingerprint and the unit of the parent, the
// level of the pool, and the ID and the level of each child.
const (
	tenantsNow = iota
	tenantsID
	tenantsUnit
	tenantsPool
	tenantsWords
	tenantWords = 2
)

// NewTenantBucket makes the rule of one child, an index of children, of a parent with count
// tokens per period µs and a burst. An error wraps ErrRange or ErrInexact and names the
// parameter, its value and what would be accepted.
func NewTenantBucket(count, period, burst int64, children []Tenant, child int) (*TenantBucket, error) {
	if _, err := NewTokenBucket(count, period, burst); err != nil {
		return nil, err
	}
	if n := len(children); n < 1 || n > MaxTenants || child < 0 || child >= n {
		return nil, fmt.Errorf("children %d: %w: want 1 to %d", n, ErrRange, MaxTenants)
	}
	var weights, bursts int64
	for i, c := range children {
		if c.Weight < 1 || c.Weight > 1_000_000 {
			return nil, fmt.Errorf("children[%d].weight %d: %w: want 1 to 1000000", i, c.Weight, ErrRange)
		}
		if c.Burst < 1 || c.Burst > burst-bursts {
			return nil, fmt.Errorf("children[%d].burst %d: %w: want at least 1, and at most %d in all children, the burst of the parent",
				i, c.Burst, ErrRange, burst)
		}
		weights, bursts = weights+c.Weight, bursts+c.Burst
	}
	g := gcd(count, period)
	count, period = count/g, period/g
	least := weights
	for _, c := range children {
		least = gcd(least, c.Weight)
	}
	weights /= least
	g = gcd(weights, count)
	if weights/g > maxUnits/period/burst || weights > maxUnits/(count/g) {
		return nil, fmt.Errorf("weights %d: %w: want at most 2^50 units: the product of burst %d, period %d µs and sum of weights %d, in lowest terms, is above it; use rounder weights, a smaller burst or a shorter period",
			weights*least, ErrInexact, burst, period, weights/g)
	}
	b := &TenantBucket{child: child}
	b.unit, b.rate = period*(weights/g), count/g*weights
	b.burst, b.pool = burst*b.unit, (burst-bursts)*b.unit
	seen := map[int64]bool{}
	for i, c := range children {
		if c.ID < 1 || c.ID > MaxInstant || seen[c.ID] {
			return nil, fmt.Errorf("children[%d].id %d: %w: want a number of its own, from 1 to 2^53-1", i, c.ID, ErrRange)
		}
		seen[c.ID] = true
		b.children = append(b.children, tenant{c.ID, count / g * (c.Weight / least), c.Burst * b.unit})
	}
	b.id = b.fingerprint()
	return b, nil
}

// fingerprint returns 52 bits of the FNV-1a hash of the parent and its children, at least 1.
func (g *tenants) fingerprint() int64 {
	h := uint64(14695981039346656037)
	mix := func(v int64) {
		for range 8 {
			h = (h ^ uint64(v)&255) * 1099511628211
			v >>= 8
		}
	}
	for _, v := range []int64{g.unit, g.rate, g.burst} {
		mix(v)
	}
	for _, c := range g.children {
		mix(c.id)
		mix(c.rate)
		mix(c.burst)
	}
	return int64(h>>12) | 1
}

// Name implements [Rule].
func (b *TenantBucket) Name() string { return "tenant_bucket" }

// Params are the fingerprint, the unit, the rate, the burst and the pool of the parent and the
// number of the child, from 1. Then come the ID, the rate and the burst of each child.
func (b *TenantBucket) Params(int64) []int64 {
	p := []int64{b.id, b.unit, b.rate, b.burst, b.pool, int64(b.child) + 1}
	for _, c := range b.children {
		p = append(p, c.id, c.rate, c.burst)
	}
	return p
}

// Words implements [Rule].
func (g *tenants) Words() int { return tenantsWords + tenantWords*len(g.children) }

// Variable implements [Rule].
func (g *tenants) Variable() bool { return false }

// Capacity implements [Rule]: of the child or of the pool.
func (b *TenantBucket) Capacity() int64 { return max(b.children[b.child].burst, b.pool) / b.unit }

// Horizon implements [Rule].
func (g *tenants) Horizon() int64 {
	all := ceilDiv(g.burst, g.rate)
	for _, c := range g.children {
		all = max(all, ceilDiv(c.burst, c.rate))
	}
	return all
}

// Guaranteed returns the guaranteed rate of the child, as tokens in a number of µs.
func (b *TenantBucket) Guaranteed() (tokens, period int64) {
	r := b.children[b.child].rate
	d := gcd(r, b.unit)
	return r / d, b.unit / d
}

// refill returns the level of a child d µs later, and the pool that had p units. All products
// are below the burst of the parent and one rate.
func (g *tenants) refill(c *tenant, level, p, d int64) (int64, int64) {
	full := int64(0) // after how many µs
	if missing := c.burst - level; missing > 0 {
		if full = ceilDiv(missing, c.rate); d < full {
			return level + c.rate*d, p
		}
		level += c.rate * full
	}
	if d-full >= ceilDiv(g.pool-p, c.rate) {
		return c.burst, g.pool
	}
	return c.burst, min(g.pool, p+c.rate*(d-full)+max(0, level-c.burst))
}

// used reports whether s is the state of a bucket that was used.
func (g *tenants) used(s []int64) bool { return len(s) > tenantsWords && s[tenantsNow] > 0 }

// Do implements [Rule].
func (b *TenantBucket) Do(s []int64, a Ask) ([]int64, Result) {
	u, used := s, b.used(s)
	if used && (s[tenantsID] != b.id || len(s) < b.Words()) {
		u = b.adopt(s)
	}
	// The levels now, without a write: a denial changes nothing.
	t, d, p := a.Now, int64(0), b.pool
	if used {
		t = max(a.Now, u[tenantsNow])
		d, p = t-u[tenantsNow], u[tenantsPool]
	}
	own, missing, latest := int64(0), b.burst, int64(0) // latest is when the others are full
	for i := range b.children {
		c := &b.children[i]
		level := c.burst
		if used {
			level, p = b.refill(c, u[tenantsWords+tenantWords*i+1], p, d)
		}
		missing -= level
		if i == b.child {
			own = level
		} else if level < c.burst {
			latest = max(latest, ceilDiv(c.burst-level, c.rate))
		}
	}
	missing -= p
	c := &b.children[b.child]
	before, r := own, Result{OK: true}
	fits := max(0, own/b.unit)
	lent := int64(0)
	if own >= 0 {
		lent = p / b.unit
	}
	n := a.N
	switch a.Op {
	case Take, Peek:
		r.OK = n == 0 || n <= max(fits, lent)
	case TakeUpTo:
		if n = min(n, max(fits, lent)); n == 0 && a.N > 0 {
			r.OK, n = false, 1
		}
	case Charge:
		n = min(n, max(0, 2*maxUnits-missing)/b.unit)
	case Return:
		n = min(n, ceilDiv(missing, b.unit))
	}
	pool := p
	switch {
	case a.Op == Peek || !r.OK:
	case a.Op == Return:
		back := n * b.unit
		own = min(c.burst, own+back)
		pool = min(b.pool, pool+back-(own-before))
	case n > fits && n <= lent:
		pool -= n * b.unit
	default:
		own -= n * b.unit
	}
	if r.OK && a.Op <= TakeUpTo {
		r.Granted = n
	}
	if a.Op == Charge {
		r.Granted = a.N
	}
	missing += before - own + p - pool
	if own < c.burst {
		latest = max(latest, ceilDiv(c.burst-own, c.rate))
	}
	latest = max(latest, ceilDiv(missing, b.rate))
	r.Balance = floorDiv(own, b.unit)
	if own >= 0 {
		r.Balance += pool / b.unit
	}
	r.Reset = 0
	if missing > 0 {
		r.Reset = t - a.Now + latest
	}
	if !r.OK {
		switch {
		case n <= c.burst/b.unit:
			r.Retry = t - a.Now + ceilDiv(n*b.unit-own, c.rate)
		case n <= b.pool/b.unit:
			r.Retry = r.Reset
		default:
			r.Retry = Never
		}
	}
	if !r.OK || a.Op == Peek || a.N == 0 {
		return s, r
	}
	return b.write(s, u, used, t, d, own, pool), r
}

// write stores the levels at t, of which own is that of the child of b. u is the state d µs
// before; s is u or a state of other children.
func (b *TenantBucket) write(s, u []int64, used bool, t, d, own, pool int64) []int64 {
	s = grown(s, b.Words())[:b.Words()]
	full := pool == b.pool
	for i := range b.children {
		c, at := &b.children[i], tenantsWords+tenantWords*i
		level := c.burst
		switch {
		case i == b.child:
			level = own
		case used:
			level, _ = b.refill(c, u[at+1], b.pool, d)
		}
		s[at], s[at+1] = c.id, level
		full = full && level == c.burst
	}
	if full {
		return zero(s)
	}
	s[tenantsNow], s[tenantsID], s[tenantsUnit], s[tenantsPool] = t, b.id, b.unit, pool
	return s
}

// adopt returns the state s of a parent with other children, another rate or burst, as a state
// of b. Every child keeps its level, up to its burst. The tokens that remain go to the pool as
// far as it has room, and then to the children in order. So no tokens appear.
func (g *tenants) adopt(s []int64) []int64 {
	u := make([]int64, g.Words())
	u[tenantsNow], u[tenantsID], u[tenantsUnit] = s[tenantsNow], g.id, g.unit
	rest := g.converted(s[tenantsPool], s[tenantsUnit])
	levels := map[int64]int64{}
	for i := tenantsWords; i+1 < len(s); i += tenantWords {
		if s[i] > 0 {
			levels[s[i]] = g.converted(s[i+1], s[tenantsUnit])
			rest = min(2*maxUnits, rest+levels[s[i]])
		}
	}
	for i, c := range g.children {
		at := tenantsWords + tenantWords*i
		u[at], u[at+1] = c.id, min(levels[c.id], c.burst)
		rest -= u[at+1]
	}
	u[tenantsPool] = min(g.pool, max(0, rest))
	rest -= u[tenantsPool]
	for i, c := range g.children {
		at := tenantsWords + tenantWords*i + 1
		more := max(0, min(c.burst-u[at], rest))
		u[at], rest = u[at]+more, rest-more
	}
	return u
}

// converted returns a level in units of g, rounded down and bounded.
func (g *tenants) converted(level, unit int64) int64 {
	if unit != g.unit {
		tokens := floorDiv(level, unit)
		part, _ := mulMod(level-tokens*unit, g.unit, unit)
		most := maxUnits / MaxTenants / g.unit // so that all debts together are at most maxUnits
		level = min(max(tokens, -most), maxUnits/g.unit)*g.unit + part
	}
	return level
}

// Until implements [Rule].
func (b *TenantBucket) Until(s []int64) int64 {
	if !b.used(s) {
		return 0
	}
	_, r := b.Do(s, Ask{Op: Peek, Now: s[tenantsNow]})
	if r.Reset == 0 {
		return 0
	}
	return s[tenantsNow] + r.Reset
}

// Shift implements [Rule].
func (g *tenants) Shift(s []int64, d int64) {
	if g.used(s) {
		s[tenantsNow] = max(1, s[tenantsNow]-d)
	}
}
