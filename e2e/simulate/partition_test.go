package simulate

import "time"

// move moves a slot to another shard, key by key.
func (f *faults) move(n *network, c *cluster, slot int) {
	w := n.world
	from := c.shards[c.ownerOf(slot)]
	to := c.shards[(from.index+1+w.rng.IntN(len(c.shards)-1))%len(c.shards)]
	c.moving[slot] = to.index
	began := w.now()
	var next func()
	next = func() {
		if keys := from.keysOf(slot); len(keys) > 0 {
			from.server.Move(pick(w, keys), to.server)
			to.stamp()
			from.stamp()
			w.after(w.between(200*time.Microsecond, 5*time.Millisecond), next)
			return
		}
		c.owner[slot] = to.index
		delete(c.moving, slot)
		n.record.moved(slot, to)
		f.hits[-1] = append(f.hits[-1], span{began, w.now()})
		w.logf("slot %d is at shard %d", slot, to.index)
	}
	w.after(w.between(200*time.Microsecond, 20*time.Millisecond), next)
}

// cutOff cuts a node from all servers for a time.
func (f *faults) cutOff(n *network, node int, d time.Duration) {
	n.cut[node] = true
	f.hit(n.world, node, d)
	n.world.after(d, func() { f.reconnect(n, node) })
}

func (f *faults) reconnect(n *network, node int) {
	if !n.cut[node] {
		return
	}
	n.cut[node] = false
	f.hit(n.world, node, 0)
	for _, s := range n.shards {
		n.reset(n.link(node, s.index))
	}
	n.world.logf("node %d is connected again", node)
}

// apart cuts a primary from its replica. The replica is promoted, for the nodes on its side.
// The others continue with the former primary until the partition heals.
func (f *faults) apart(n *network, s *shard) {
	w := n.world
	s.apart, s.behind = true, map[int]bool{}
	for node := range n.routes {
		s.behind[node] = w.chance(0.5)
	}
	w.after(w.between(5*time.Millisecond, 500*time.Millisecond), func() {
		if !s.apart {
			return
		}
		s.server.Replicate(int64(w.now()))
		lost := n.record.split(s, func(slot int) bool { return s.cluster.ownerOf(slot) == s.index })
		s.former = s.server.Split()
		owns := func(key string) bool { return len(n.shards) == 1 || s.cluster.ownerOf(slotOf(key)) == s.index }
		s.server.Keep(owns)
		s.apart, s.due = false, 0
		for node := range n.routes {
			f.hit(w, node, 0)
			if !s.behind[node] {
				n.reset(n.link(node, s.index))
			}
		}
		f.counts["runs lost in a split"] += lost
		w.logf("shard %d has two primaries: the new one lacks %d runs, nodes %v use the former", s.index, lost, s.behind)
		w.after(w.between(10*time.Millisecond, 800*time.Millisecond), func() { f.heal(n, s) })
	})
}

// heal ends a partition. The former primary becomes a replica, and its writes are lost.
func (f *faults) heal(n *network, s *shard) {
	s.apart = false
	if s.former == nil || n.record.losing == nil {
		return
	}
	f.counts["runs lost in a split"] += n.record.heal()
	if n.bug == "two primaries" {
		return
	}
	s.former = nil
	for node := range n.routes {
		f.hit(n.world, node, 0)
		if s.behind[node] {
			n.reset(n.link(node, s.index))
		}
	}
	n.world.logf("shard %d has one primary", s.index)
}
