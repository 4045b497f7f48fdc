package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

// The limits of a key that change, by key. Each allows no less than the one before it.
var chains = [][]weir.Limit{
	limitsOf("8/s burst 4", "8/s burst 12", "20/s burst 12", "50/s burst 30"),
	limitsOf("10/s leaky_bucket burst 5", "20/s leaky_bucket burst 5", "20/s leaky_bucket burst 20"),
	limitsOf("6/s fixed_window", "12/s fixed_window", "30/s fixed_window"),
	limitsOf("10/2s sliding_log", "15/2s sliding_log", "60/2s sliding_log"),
	limitsOf("12/2s sliding_window", "20/2s sliding_window", "50/2s sliding_window"),
}

// A quota is a key whose limit changes while nodes run, on one node after the other.
type quota struct {
	key      string
	named    bool // all nodes share the state; else requests name former limits
	chain    []weir.Limit
	versions []weir.Limit
	current  []int // by node: the version in force
	limiters []*weir.Limiter
	changing bool
	asked    []asked
}

// asked is a decision of a quota.
type asked struct {
	when    time.Duration
	version int
	level   int // of the limit in the chain
	side    int
}

func newQuota(w *world, i, nodes int, store weir.Store) *quota {
	q := &quota{key: fmt.Sprintf("quota%d", i), named: w.chance(0.5), chain: slices.Clone(pick(w, chains))}
	if q.named {
		for j := range q.chain {
			q.chain[j] = q.chain[j].Named("quota")
		}
	}
	q.versions, q.current = []weir.Limit{pick(w, q.chain)}, make([]int, nodes)
	for range nodes {
		l, err := weir.New(store, q.versions[0], weir.Config{})
		if err != nil {
			panic(err)
		}
		q.limiters = append(q.limiters, l)
	}
	return q
}

// request returns a Take by a node.
func (q *quota) request(node int, n int64) weir.Request {
	if q.named {
		return weir.Request{Key: q.key, Limit: q.versions[q.current[node]], N: n}
	}
	r, err := q.limiters[node].Request(context.Background(), q.key, n)
	if err != nil {
		panic(err)
	}
	return r
}

// reserved reports whether the key has reservations at a time, settled or not: they may be under
// any of its limits.
func (q *quota) reserved(cs []*charge, at time.Duration) bool {
	return slices.ContainsFunc(cs, func(c *charge) bool {
		return c.verb == weir.Reserve && c.key == q.key && c.when <= at && at <= c.when+c.ttl+time.Millisecond
	})
}

// level returns the place of a limit in the chain.
func (q *quota) level(l weir.Limit) int { return slices.IndexFunc(q.chain, l.Equal) }

// change puts another limit in force, on one node after the other.
func (l *workload) change(q *quota) {
	w, r := l.world, l.record
	next := pick(w, q.chain)
	if last := q.versions[len(q.versions)-1]; q.changing || next.Equal(last) {
		return
	}
	first := true
	version := len(q.versions)
	nodes := w.rng.Perm(len(l.nodes))
	q.versions, q.changing = append(q.versions, next), true
	at := time.Duration(0)
	for i, node := range nodes {
		set := func() {
			before := q.request(node, 1)
			q.current[node] = version
			if !q.named {
				if err := q.limiters[node].SetLimit(next, weir.CarryUsage); err != nil {
					r.violate("change: %v", err)
				}
			}
			if first {
				l.compare(q, before, q.request(node, 1))
			}
			first = false
			q.changing = i < len(nodes)-1
			w.logf("node %d: limit of %s is %s", node, q.key, next)
		}
		if at == 0 {
			set()
		} else {
			w.after(at, set)
		}
		if w.chance(0.7) {
			at += w.between(time.Microsecond, 200*time.Millisecond)
		}
	}
	l.faults.count("change of a limit")
}

// compare checks oracle 10 at a change: after a raise no request waits longer, and after a
// lower what was used is used, and at most one token more.
func (l *workload) compare(q *quota, before, after weir.Request) {
	r := l.record
	if r.setBack || r.losing != nil {
		return
	}
	before.Verb, after.Verb = weir.Peek, weir.Peek
	if own := after; !q.named {
		own.From = nil
		if d := r.peek(own); d.Remaining < after.Limit.Capacity() || d.Debt > 0 || q.reserved(r.charges, r.world.now()) {
			return // the key has another state under this limit
		}
	}
	raise := q.level(after.Limit) > q.level(before.Limit)
	low := min(before.Limit.Capacity(), after.Limit.Capacity())
	for _, n := range []int64{1, 2, low} {
		before.N, after.N = n, n
		b, a := r.peek(before), r.peek(after)
		usedBefore := before.Limit.Capacity() - b.Remaining + b.Debt
		usedAfter := after.Limit.Capacity() - a.Remaining + a.Debt
		l.counts["changes compared"]++
		switch {
		case raise && a.RetryAfter > b.RetryAfter:
			r.violate("change: %s from %s to %s: a wait of %v for %d became %v", q.key, before.Limit, after.Limit, b.RetryAfter, n, a.RetryAfter)
		case !raise && (usedAfter < usedBefore || a.RetryAfter < b.RetryAfter):
			r.violate("change: %s from %s to %s: %d used tokens became %d, a wait of %v for %d became %v", q.key, before.Limit, after.Limit, usedBefore, usedAfter, b.RetryAfter, n, a.RetryAfter)
		case usedAfter > usedBefore+1:
			r.violate("change: %s from %s to %s: %d used tokens became %d", q.key, before.Limit, after.Limit, usedBefore, usedAfter)
		}
	}
}

// changes changes limits, one after the other.
func (l *workload) changes() {
	w := l.world
	if !l.faults.on || len(l.quotas) == 0 {
		return
	}
	l.change(pick(w, l.quotas))
	w.after(w.between(20*time.Millisecond, 700*time.Millisecond), l.changes)
}

// decided records a decision of a quota, with the version of the request: the last one of the
// node that is the same request.
func (r *recorder) decided(node, side int, x *run, ask *weir.Request) {
	q := r.quotas[ask.Key]
	if q == nil {
		return
	}
	version := q.current[node]
	for ; version > 0; version-- {
		if !ask.Limit.Equal(q.versions[version]) {
			continue
		}
		if q.named || len(ask.From) > 0 && ask.From[0].Equal(q.versions[version-1]) {
			break
		}
	}
	if len(q.asked) == 0 || q.asked[len(q.asked)-1].version != version {
		r.give(ask.Key, -1)
	}
	q.asked = append(q.asked, asked{x.when, version, q.level(ask.Limit), side})
}

// checkQuota checks oracle 2 for a limit that changed, by its charges. In every span the highest
// of its limits bounds what is admitted. Requests of nodes that have not changed yet are
// bounded by the limit that they name.
func (r *recorder) checkQuota(q *quota, side int, cs []*charge) {
	highest := q.chain[len(q.chain)-1]
	more := slices.Concat(r.justified[q.key], r.jumps(q.key, highest, side))
	all := slices.DeleteFunc(slices.Clone(q.asked), func(a asked) bool { return !r.on(side, a.side, a.when) })
	if q.named {
		r.checkChain(q, all, side, cs, more)
		return
	}
	// What comes under a former limit after the first request under a newer one is late: it has
	// a state of its own. If that limit comes into force again, the key has this state, and
	// what it used under the limit between is forgotten: at most its capacity. The same applies
	// if it has reservations under that limit.
	latest, at := 0, 0
	var in []*charge
	late := map[int][]*charge{}
	stray := map[int]bool{}
	for _, c := range cs {
		for ; at < len(all) && all[at].when <= c.when; at++ {
			a := all[at]
			if a.version > latest {
				if latest = a.version; stray[a.level] || q.reserved(cs, a.when) {
					more = append(more, allowance{a.when, a.when, q.chain[a.level].Capacity()})
				}
			} else if a.version < latest {
				stray[a.level] = true
			}
		}
		if l := q.level(c.limit); l != q.level(q.versions[latest]) {
			late[l] = append(late[l], c)
		} else {
			in = append(in, c)
		}
	}
	r.checkChain(q, all, side, in, more)
	for level, cs := range late {
		all, back := r.spends(cs)
		if from, to, n, most, bad := exceeds(boundOf(q.chain[level]), all, append(slices.Clone(more), back...)); bad {
			r.violate("bound: late requests for %s of %s admit %d from %v to %v, want at most %d (side %d)", q.key, q.chain[level], n, from, to, most, side)
		}
	}
}

// checkChain checks charges whose limits changed without a loss.
func (r *recorder) checkChain(q *quota, log []asked, side int, cs []*charge, more []allowance) {
	all, back := r.spends(cs)
	more = append(slices.Clone(more), back...)
	for i := range all {
		n, level, at := int64(0), 0, 0
		for at < len(log) && log[at].when < all[i].when {
			at++
		}
		for j := i; j < len(all); j++ {
			n += all[j].n
			for ; at < len(log) && log[at].when <= all[j].when; at++ {
				level = max(level, log[at].level)
			}
			most := atMost(q.chain[level], all[j].when-all[i].when)
			if n <= most {
				continue
			}
			for _, a := range more {
				if a.to >= all[i].when && a.from <= all[j].when {
					most += a.n
				}
			}
			if n > most {
				r.violate("bound: %s, up to %s, admits %d from %v to %v, want at most %d (side %d)", q.key, q.chain[level], n, all[i].when, all[j].when, most, side)
				return
			}
		}
	}
}

// settled checks the end of a reservation: it is known until its TTL, whatever limit is in
// force. An unnamed limit that the node does not know yet may have it.
func (l *workload) settled(q *request, r weir.Request, reserved time.Duration, old bool, err error) {
	since := reserved - time.Millisecond
	if old && r.Limit.Name() == "" || !errors.Is(err, weir.ErrNoReservation) || !strings.HasPrefix(r.Key, "quota") || l.world.now() >= reserved+q.rs[0].TTL ||
		!l.faults.calm(q.node, since, l.world.now()) {
		return
	}
	l.record.violate("change: the reservation %s of %s is unknown after %v of %v", r.ID, r.Key, l.world.now()-reserved, q.rs[0].TTL)
}

// limitName identifies a limit by the last part of the name of its state, and the rule in it.
func limitName(l weir.Limit) string {
	o := redisstore.Outline(l, time.Now().UnixMicro())
	return o.Suffix + "\x00" + o.Stored
}
