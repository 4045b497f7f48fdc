package simulate

import (
	"slices"
	"time"

	"github.com/floodweir/weir"
)

// faults injects faults while on is set. A seed selects their kinds and rates.
type faults struct {
	on        bool
	kinds     []string
	pause     time.Duration // mean time between two faults
	duplicate float64       // of a reply
	jitter    float64       // of a message that takes about the deadline
	lossy     float64       // of a message whose link goes black
	counts    map[string]int
	hits      map[int][]span // by node, when faults hit its messages; -1: of all nodes
	swinging  bool           // the clock is being set back and forth
}

// deadline is the time for a decision: that of package failover.
const deadline = 50 * time.Millisecond

var kinds = []string{
	"stall", "stall", "long stall", "reset", "black hole", "refuse", "error", "failover", "failover", "move", "move", "move",
	"flush", "evict", "clock forward", "clock back", "clock swing", "lag",
	"partition", "split", "split",
}

func newFaults(w *world) *faults {
	f := &faults{on: true, counts: map[string]int{}, hits: map[int][]span{}}
	f.pause = w.between(30*time.Millisecond, 600*time.Millisecond)
	for _, k := range kinds {
		if w.chance(0.4) && !slices.Contains(f.kinds, k) {
			f.kinds = append(f.kinds, k)
		}
	}
	for _, p := range []*float64{&f.duplicate, &f.jitter, &f.lossy} {
		if w.chance(0.5) {
			*p = w.rng.Float64() * 0.03
		}
	}
	return f
}

func (f *faults) count(kind string) { f.counts[kind]++ }

// A span is a span of virtual time.
type span struct{ from, to time.Duration }

// hit records that a fault hits messages of a node, or of all nodes, for a time.
func (f *faults) hit(w *world, node int, d time.Duration) {
	f.hits[node] = append(f.hits[node], span{w.now(), w.now() + d})
}

// calm reports whether no fault hit a node's messages from one time to another.
func (f *faults) calm(node int, from, to time.Duration) bool {
	in := func(s span) bool { return s.to >= from && s.from <= to }
	return !slices.ContainsFunc(f.hits[node], in) && !slices.ContainsFunc(f.hits[-1], in)
}

// slow returns an additional delay for a message.
func (f *faults) slow(w *world) time.Duration {
	if !f.on || !w.chance(f.jitter) {
		return 0
	}
	f.count("jitter around the deadline")
	f.hit(w, -1, 2*deadline)
	return deadline - 2*time.Millisecond + w.between(0, 3*time.Millisecond)
}

// trip decides whether the link of a message goes black: replies are lost until the client
// closes the connection.
func (f *faults) trip(n *network, l *link) {
	if f.on && !l.black && n.world.chance(f.lossy) {
		f.count("lost reply")
		f.blackout(n, l, n.world.between(time.Millisecond, 300*time.Millisecond))
	}
}

func (f *faults) blackout(n *network, l *link, d time.Duration) {
	l.black = true
	f.hit(n.world, l.node, d)
	generation := l.generation
	n.world.after(d, func() {
		if l.generation == generation {
			n.reset(l)
		}
	})
}

// loop injects one fault after the other.
func (f *faults) loop(n *network, c *cluster, keys []string, limitsOf func(key string) []weir.Limit) {
	w := n.world
	if !f.on {
		return
	}
	if len(f.kinds) > 0 {
		f.inject(n, c, pick(w, f.kinds), keys, limitsOf)
	}
	w.after(w.between(f.pause/4, 2*f.pause), func() { f.loop(n, c, keys, limitsOf) })
}

func (f *faults) inject(n *network, c *cluster, kind string, keys []string, limitsOf func(key string) []weir.Limit) {
	w := n.world
	s := pick(w, c.shards)
	unstable := slices.ContainsFunc(c.shards, func(s *shard) bool { return s.down || s.apart || s.former != nil })
	busy := unstable || s.refuses || s.failing != "" || len(c.moving) > 0
	switch kind {
	case "stall":
		f.stall(w, s, w.between(time.Millisecond, 120*time.Millisecond))
	case "long stall":
		f.stall(w, s, w.between(200*time.Millisecond, 3*time.Second))
	case "reset":
		if l := f.link(n, s); l != nil {
			n.reset(l)
		}
	case "black hole":
		if l := f.link(n, s); l != nil && !l.black {
			f.blackout(n, l, w.between(20*time.Millisecond, 2*time.Second))
		}
	case "refuse":
		if busy {
			return
		}
		s.refuses = true
		f.resetAll(n, s)
		d := w.between(10*time.Millisecond, 2*time.Second)
		f.hit(w, -1, d)
		w.after(d, func() { s.refuses = false })
	case "error":
		if busy {
			return
		}
		s.failing = pick(w, []string{
			"LOADING Redis is loading the dataset in memory", "READONLY You can't write against a read only replica.",
			"OOM command not allowed when used memory > 'maxmemory'.", "BUSY Redis is busy running a script.",
			"CLUSTERDOWN The cluster is down", "MISCONF Redis is configured to save RDB snapshots",
		})
		d := w.between(time.Millisecond, 500*time.Millisecond)
		f.hit(w, -1, d)
		w.after(d, func() { s.failing = "" })
	case "failover":
		if busy {
			return
		}
		s.down = true
		d := w.between(20*time.Millisecond, 1500*time.Millisecond)
		f.hit(w, -1, d)
		w.after(d, func() { f.failover(n, s) })
	case "move":
		if busy || len(c.shards) == 1 {
			return
		}
		f.move(n, c, slotOf("{"+pick(w, keys)+"}"))
	case "flush":
		s.server.FlushScripts()
	case "evict":
		if len(c.moving) > 0 || unstable {
			return
		}
		f.hit(w, -1, 0)
		f.evict(n, c, pick(w, keys), limitsOf)
	case "clock forward", "clock back":
		d := pick(w, []time.Duration{time.Millisecond, 100 * time.Millisecond, time.Second, 5 * time.Second, time.Minute, time.Hour})
		d = w.between(d/2, d)
		if kind == "clock back" {
			d = -d
		}
		f.step(n, c, d)
	case "clock swing":
		if f.swinging {
			return
		}
		d := pick(w, []time.Duration{5 * time.Second, time.Minute, time.Hour})
		if w.chance(0.5) {
			d = -d
		}
		f.swinging = true
		f.swing(n, c, d, 2+w.rng.IntN(6))
	case "partition":
		node := w.rng.IntN(len(n.routes))
		if n.cut[node] {
			return
		}
		f.cutOff(n, node, w.between(20*time.Millisecond, 2*time.Second))
	case "split":
		if busy {
			return
		}
		f.apart(n, s)
	case "lag":
		s.lag = w.between(100*time.Microsecond, 800*time.Millisecond)
	}
	f.count(kind)
	w.logf("fault %s shard %d", kind, s.index)
}

// step sets the clock of the servers.
func (f *faults) step(n *network, c *cluster, d time.Duration) {
	c.offset += d
	f.hit(n.world, -1, 0)
	n.record.step(d)
	n.world.logf("clock %v", d)
}

// swing sets the clock forward and back, again and again.
func (f *faults) swing(n *network, c *cluster, d time.Duration, times int) {
	f.step(n, c, d)
	if f.swinging = times > 1 && f.on; f.swinging {
		n.world.after(n.world.between(5*time.Millisecond, 300*time.Millisecond), func() { f.swing(n, c, -d, times-1) })
	}
}

func (f *faults) stall(w *world, s *shard, d time.Duration) {
	s.stalled = max(s.stalled, w.now()+d)
	f.hit(w, -1, d)
}

// link returns a connection to a shard, or nil.
func (f *faults) link(n *network, s *shard) *link {
	return n.links[[2]int{n.world.rng.IntN(len(n.routes)), s.index}]
}

func (f *faults) resetAll(n *network, s *shard) {
	for node := range n.routes {
		n.reset(n.link(node, s.index))
	}
}

// failover makes the replica of a shard its primary.
func (f *faults) failover(n *network, s *shard) {
	f.resetAll(n, s)
	s.stalled, s.due = 0, 0
	s.server.Replicate(int64(n.world.now()))
	s.server.Failover()
	s.server.Keep(func(key string) bool { return len(n.shards) == 1 || s.cluster.ownerOf(slotOf(key)) == s.index })
	s.down = false
	f.hit(n.world, -1, 0)
	lost := n.record.lose(s, func(slot int) bool { return s.cluster.ownerOf(slot) == s.index })
	f.counts["runs lost in a failover"] += lost
	n.world.logf("failover of shard %d loses %d runs", s.index, lost)
}

// evict deletes the state of a key with its reservations.
func (f *faults) evict(n *network, c *cluster, key string, limitsOf func(key string) []weir.Limit) {
	s := c.shards[0]
	if len(c.shards) > 1 {
		s = c.shards[c.ownerOf(slotOf("{"+key+"}"))]
	}
	for _, name := range s.server.Keys() {
		if redisKey(name) == key {
			s.server.Evict(name)
		}
	}
	s.stamp()
	limits := limitsOf(key)
	n.record.allow(key, limits[len(limits)-1], limits[len(limits)-1].Capacity())
	for _, l := range limits {
		n.record.evict(s, key, l)
	}
}

// end ends all faults.
func (f *faults) end(n *network, c *cluster) {
	f.on = false
	for _, s := range c.shards {
		if s.down {
			f.failover(n, s)
		}
		f.heal(n, s)
		s.stalled, s.refuses, s.failing = 0, false, ""
		s.drain(n)
		for node := range n.routes {
			if l := n.link(node, s.index); l.black {
				n.reset(l)
			}
		}
	}
	for node := range n.cut {
		f.reconnect(n, node)
	}
	n.world.logf("faults end")
}
