package simulate

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/failover"
)

// together stands for all nodes.
const together = -1

// localBound returns what nodes admit together without the store in a span, by
// docs/guarantees.md.
func localBound(l weir.Limit, nodes int64, d time.Duration) int64 {
	capacity := l.Capacity()
	most := atMost(l, d)
	switch l.Config().(type) {
	case weir.TokenBucket, weir.LeakyBucket:
		if capacity < nodes {
			return most - capacity + nodes
		}
		return most - capacity%nodes
	}
	return most
}

// checkLocal checks oracle 3, for each node and for all together.
func (l *workload) checkLocal() {
	type name struct {
		node       int
		key, limit string
	}
	all := map[name][]spend{}
	limits := map[name]weir.Limit{}
	for _, q := range l.done {
		for i, d := range q.ds {
			if d.Degraded != "local" || !d.OK || d.Granted == 0 || d.Limit.IsConcurrency() || q.kind == "policy" && !q.outcome.Passes() || q.kind != "policy" && !q.ok {
				continue
			}
			key := q.policy + " of " + q.user
			if len(q.rs) > 0 {
				key = q.rs[i].Key
			}
			n := name{q.node, key, d.Limit.String()}
			for _, n.node = range []int{q.node, together} {
				all[n] = append(all[n], spend{q.ended.Truncate(time.Microsecond), d.Granted})
				limits[n] = d.Limit
			}
		}
	}
	names := slices.SortedFunc(maps.Keys(all), func(a, b name) int {
		return cmp.Or(cmp.Compare(a.node, b.node), cmp.Compare(a.key, b.key), cmp.Compare(a.limit, b.limit))
	})
	for _, n := range names {
		if n.node == together {
			bound := func(d time.Duration) int64 { return localBound(limits[n], int64(len(l.nodes)), d) }
			if from, to, got, most, bad := exceeds(bound, all[n], nil); bad {
				l.record.violate("local: %d nodes admit %d of %s %s from %v to %v, want at most %d", len(l.nodes), got, n.key, n.limit, from, to, most)
			}
			continue
		}
		share, err := failover.Share(limits[n], len(l.nodes))
		if err != nil {
			l.record.violate("local: %v", err)
			continue
		}
		if from, to, got, most, bad := exceeds(boundOf(share), all[n], nil); bad {
			l.record.violate("local: node %d admits %d of %s %s from %v to %v, its share %s at most %d", n.node, got, n.key, n.limit, from, to, share, most)
		}
	}
}

// The longest time of a decision: one deadline in the queue of the process and one for the
// round trip. A cache of denials waits for up to two calls of other requests before.
const longest = 2*deadline + 2*(2*deadline+5*time.Millisecond) + 2*time.Millisecond

// checkDenied checks oracle 9 for a denial that a client got: the store admits the request at
// RetryAfter or later. Another process may have returned tokens in the last second.
func (l *workload) checkDenied(q *request) {
	r, d, ask := l.record, q.ds[0], q.rs[0]
	since := q.begun - denycache.DefaultMaxAge - 200*time.Millisecond
	if r.setBack || r.losing != nil || r.gave[""][-1] >= since || ask.Limit.IsConcurrency() || ask.Verb > weir.TakeUpTo || d.RetryAfter == weir.Never {
		return
	}
	for node, at := range r.gave[ask.Key] {
		own := node == q.node && l.faults.calm(node, since, q.ended)
		if at >= since && !own || at >= q.begun-10*time.Millisecond {
			return
		}
	}
	if ask.Verb == weir.TakeUpTo {
		ask.N = 1
	}
	ask.Verb = weir.Peek
	p := r.peek(ask)
	now := r.clock().UnixMicro()
	due, reported := now, d.At.UnixMicro()+d.RetryAfter.Microseconds()
	if !p.OK {
		due += p.RetryAfter.Microseconds()
	}
	l.counts["denials compared with the store"]++
	if reported > due {
		r.violate("denied: request %d of node %d for %d of %s: got a RetryAfter of %d µs, want at most %d", q.id, q.node, ask.N, ask.Key, reported-now, due-now)
	}
}

// peek asks the memory store, which has the state of the servers.
func (r *recorder) peek(ask weir.Request) weir.Decision {
	r.refNow = r.clock().UnixMicro()
	d, err := r.main.ref.Do(r.ctx, ask)
	if err != nil {
		r.violate("the memory store fails: %v", err)
	}
	return d
}

// give notes that a node returned tokens of a key; -1: a fault did, or a request whose caller
// had an error. The key "" is any key.
func (r *recorder) give(key string, node int) {
	if r.gave[key] == nil {
		r.gave[key] = map[int]time.Duration{-1: -time.Hour}
	}
	r.gave[key][node] = r.world.now()
}
