package algo

// The state of Tenants is the levels of all children and of the pool at one instant. A child
// that is not full is stored as the instant at which it will be, and what it will then have
// above its burst, less than its rate. A credit is stored likewise, by the value of G at which
// it is full. A full child or credit is zeros. Trees over the children find the first and the
// last instant, and the first value of G.
const (
	tenantsNow   = iota // the instant
	tenantsPool         // the level of the pool
	tenantsIdle         // the rates of the full children together
	tenantsLacks        // what the children lack together
	tenantsRest         // the rest of the division of surplus by weight
	tenantsGiven        // G, from 0 whenever all credits are full
	tenantsAwait        // the weights of the credits that are not full
	tenantsOwed         // what the credits lack together
	tenantsWords
)

// The lists that follow, each with a word for each child, of which those from dueOf on are
// only for division by weight.
const (
	fillOf    = iota // instant at which a child is full
	overOf           // what it then has above its burst
	firstOf          // the tree of the first of fillOf
	lastOf           // the tree of the last
	dueOf            // value of G at which a credit is full
	dueOverOf        // what it then has above its capacity
	nextOf           // the tree of the first of dueOf
	tenantLists
)

// farGiven is the largest G before it starts from 0 again.
const farGiven = 1 << 51

// Words implements [Rule].
func (g *Tenants) Words() int {
	if g.weighted {
		return tenantsWords + tenantLists*len(g.children)
	}
	return tenantsWords + dueOf*len(g.children)
}

func (g *Tenants) list(s []int64, of int) []int64 {
	at := tenantsWords + of*len(g.children)
	return s[at : at+len(g.children)]
}

// used reports whether s is the state of a bucket that was used.
func (g *Tenants) used(s []int64) bool { return len(s) >= g.Words() && s[tenantsNow] > 0 }

// at returns the state at now or, if it is later, at its own instant, and that instant.
func (g *Tenants) at(s []int64, now int64) ([]int64, int64) {
	if !g.used(s) {
		s = grown(s, g.Words())[:g.Words()]
		s[tenantsNow], s[tenantsPool], s[tenantsIdle] = now, g.pool, g.rate
		return s, now
	}
	if now > s[tenantsNow] {
		g.advance(s, now)
	}
	return s, s[tenantsNow]
}

// advance brings s forward to an instant t.
func (g *Tenants) advance(s []int64, t int64) {
	fill, first := g.list(s, fillOf), g.list(s, firstOf)
	surplus, room := int64(0), g.room(s)
	pass := func(to int64) {
		d := to - s[tenantsNow]
		if idle := s[tenantsIdle]; idle > 0 {
			if d >= ceilDiv(room-surplus, idle) {
				surplus = room
			} else {
				surplus += idle * d
			}
		}
		if s[tenantsLacks] > 0 {
			s[tenantsLacks] -= (g.rate - s[tenantsIdle]) * d
		}
		s[tenantsNow] = to
	}
	for {
		f := root(fill, first)
		if f == 0 || f > t {
			break
		}
		pass(f)
		i := leaf(fill, first, f)
		over := g.list(s, overOf)
		surplus = min(room, surplus+over[i])
		s[tenantsLacks] += over[i]
		s[tenantsIdle] += g.children[i].rate
		over[i] = 0
		g.setFill(s, i, 0)
	}
	pass(t)
	g.flow(s, surplus)
}

// flow divides surplus by weight among the credits that are not full, and else gives it to the
// pool. It is at most the room.
func (g *Tenants) flow(s []int64, surplus int64) {
	rest := s[tenantsRest] + surplus
	if rest >= s[tenantsOwed] {
		s[tenantsPool] += rest - s[tenantsOwed]
		s[tenantsRest], s[tenantsGiven], s[tenantsOwed] = 0, 0, 0
		if s[tenantsAwait] > 0 {
			g.fillCredits(s)
		}
		return
	}
	due, next := g.list(s, dueOf), g.list(s, nextOf)
	for {
		steps := rest / s[tenantsAwait]
		d := root(due, next)
		if k := d - s[tenantsGiven]; k > steps {
			s[tenantsGiven] += steps
			rest -= steps * s[tenantsAwait]
			s[tenantsOwed] -= steps * s[tenantsAwait]
			break
		} else {
			rest -= k * s[tenantsAwait]
			s[tenantsOwed] -= k * s[tenantsAwait]
		}
		s[tenantsGiven] = d
		for root(due, next) == d {
			i := leaf(due, next, d)
			over := &g.list(s, dueOverOf)[i]
			rest += *over
			s[tenantsOwed] += *over
			s[tenantsAwait] -= g.children[i].weight
			*over = 0
			setLeaf(due, next, i, 0, first)
		}
	}
	s[tenantsRest] = rest
	if g := s[tenantsGiven]; g > farGiven {
		for i, d := range due {
			if d > 0 {
				setLeaf(due, next, i, d-g, first)
			}
		}
		s[tenantsGiven] = 0
	}
}

// fillCredits makes all credits full.
func (g *Tenants) fillCredits(s []int64) {
	due, next := g.list(s, dueOf), g.list(s, nextOf)
	for d := root(due, next); d > 0; d = root(due, next) {
		i := leaf(due, next, d)
		g.list(s, dueOverOf)[i] = 0
		setLeaf(due, next, i, 0, first)
	}
	s[tenantsAwait] = 0
}

// room returns the surplus that the credits and the pool have room for.
func (g *Tenants) room(s []int64) int64 {
	return g.pool - s[tenantsPool] + s[tenantsOwed] - s[tenantsRest]
}

// missing returns what all levels lack together.
func (g *Tenants) missing(s []int64) int64 { return s[tenantsLacks] + g.room(s) }

// left returns the time until all levels are full.
func (g *Tenants) left(s []int64) int64 {
	last := root(g.list(s, fillOf), g.list(s, lastOf))
	return max(0, last-s[tenantsNow], ceilDiv(g.missing(s), g.rate))
}

// lack returns what the level of a child lacks.
func (g *Tenants) lack(s []int64, i int) int64 {
	f := g.list(s, fillOf)[i]
	if f == 0 {
		return 0
	}
	return g.children[i].rate*(f-s[tenantsNow]) - g.list(s, overOf)[i]
}

// setLack makes the level of a child lack so many units.
func (g *Tenants) setLack(s []int64, i int, lack int64) {
	rate, was := g.children[i].rate, g.lack(s, i)
	switch {
	case was == 0 && lack > 0:
		s[tenantsIdle] -= rate
	case was > 0 && lack == 0:
		s[tenantsIdle] += rate
	}
	s[tenantsLacks] += lack - was
	full, over := int64(0), int64(0)
	if lack > 0 {
		d := ceilDiv(lack, rate)
		full, over = s[tenantsNow]+d, rate*d-lack
	}
	g.list(s, overOf)[i] = over
	g.setFill(s, i, full)
}

func (g *Tenants) setFill(s []int64, i int, f int64) {
	fill := g.list(s, fillOf)
	setLeaf(fill, g.list(s, firstOf), i, f, first)
	setLeaf(fill, g.list(s, lastOf), i, f, last)
}

// creditLack returns what the credit of a child lacks.
func (g *Tenants) creditLack(s []int64, i int) int64 {
	d := g.list(s, dueOf)[i]
	if d == 0 {
		return 0
	}
	return g.children[i].weight*(d-s[tenantsGiven]) - g.list(s, dueOverOf)[i]
}

// setCreditLack makes the credit of a child lack so many units. A flow has to follow if it is
// less than before.
func (g *Tenants) setCreditLack(s []int64, i int, lack int64) {
	weight, was := g.children[i].weight, g.creditLack(s, i)
	switch {
	case was == 0 && lack > 0:
		s[tenantsAwait] += weight
	case was > 0 && lack == 0:
		s[tenantsAwait] -= weight
	}
	s[tenantsOwed] += lack - was
	due, over := int64(0), int64(0)
	if lack > 0 {
		d := ceilDiv(lack, weight)
		due, over = s[tenantsGiven]+d, weight*d-lack
	}
	g.list(s, dueOverOf)[i] = over
	setLeaf(g.list(s, dueOf), g.list(s, nextOf), i, due, first)
}

// Shift implements [Rule].
func (g *Tenants) Shift(s []int64, d int64) {
	if !g.used(s) {
		return
	}
	d = min(d, s[tenantsNow]-1)
	s[tenantsNow] -= d
	for i, f := range g.list(s, fillOf) {
		if f > 0 {
			g.setFill(s, i, f-d)
		}
	}
}

// migrate returns a state of to for s, a state of g, at now. A child that is not full keeps its
// level, up to its burst. The tokens that remain fill the other children in order, and are then
// surplus; what that has no room for fills those that were not full. So no tokens appear.
func (g *Tenants) migrate(s []int64, to *Tenants, now int64) []int64 {
	s, _ = g.at(append([]int64(nil), s...), now)
	levels := map[int64]int64{}
	for i, c := range g.children {
		if lack := g.lack(s, i); lack > 0 {
			levels[c.id] = to.converted(c.burst-lack, g.unit, maxUnits/MaxTenants)
		}
	}
	rest := to.converted(g.burst-g.missing(s), g.unit, 2*maxUnits)
	u, _ := to.at(nil, s[tenantsNow])
	u[tenantsPool] = 0
	lacks := make([]int64, len(to.children))
	for i, c := range to.children {
		lacks[i] = c.burst
		if level, ok := levels[c.id]; ok {
			lacks[i] -= min(level, c.burst)
			rest -= min(level, c.burst)
		}
		if to.weighted {
			to.setCreditLack(u, i, c.burst)
		}
	}
	fill := func(listed bool) {
		for i, c := range to.children {
			if _, ok := levels[c.id]; ok == listed {
				more := max(0, min(lacks[i], rest))
				lacks[i], rest = lacks[i]-more, rest-more
			}
		}
	}
	fill(false)
	surplus := max(0, min(rest, to.room(u)))
	to.flow(u, surplus)
	rest -= surplus
	fill(true)
	for i, lack := range lacks {
		to.setLack(u, i, lack)
	}
	if to.missing(u) == 0 {
		return zero(u)
	}
	return u
}

// converted returns a level in units of g, rounded down and bounded, below zero by least.
func (g *Tenants) converted(level, unit, least int64) int64 {
	if unit == g.unit {
		return level
	}
	tokens := floorDiv(level, unit)
	part, _ := mulMod(level-tokens*unit, g.unit, unit)
	return min(max(tokens, -(least/g.unit)), maxUnits/g.unit)*g.unit + part
}

// A tree over a list of leaves finds the first or the last that is not 0. A node k has the
// better one of 2k and 2k+1; with n leaves, node n+i is leaf i, and 1 is the root.

// root returns the leaf that a tree finds; 0 if all are.
func root(leaves, nodes []int64) int64 {
	if len(leaves) == 1 {
		return leaves[0]
	}
	return nodes[1]
}

// leaf returns the index of a leaf with the value v of the root.
func leaf(leaves, nodes []int64, v int64) int {
	n := len(leaves)
	k := 1
	for k < n {
		if k *= 2; node(leaves, nodes, k) != v {
			k++
		}
	}
	return k - n
}

func node(leaves, nodes []int64, k int) int64 {
	if n := len(leaves); k >= n {
		return leaves[k-n]
	}
	return nodes[k]
}

// setLeaf sets a leaf and the nodes above it.
func setLeaf(leaves, nodes []int64, i int, v int64, better func(a, b int64) int64) {
	leaves[i] = v
	for k := (len(leaves) + i) / 2; k > 0; k /= 2 {
		nodes[k] = better(node(leaves, nodes, 2*k), node(leaves, nodes, 2*k+1))
	}
}

func first(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func last(a, b int64) int64 { return max(a, b) }
