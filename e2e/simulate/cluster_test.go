package simulate

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir/e2e/simulate/redismodel"
	"github.com/floodweir/weir/redisstore"
)

func slotOf(key string) int { return redismodel.Slot(key) }

// A shard is a primary with its replica.
type shard struct {
	index    int
	cluster  *cluster
	server   *redismodel.Server
	stalled  time.Duration // no command runs before
	waiting  []*message    // until then, in order
	draining bool
	down     bool          // commands get no reply
	refuses  bool          // connections are refused
	failing  string        // every command gets this error
	lag      time.Duration // of the replica
	due      time.Duration // when the last write arrives there
	apart    bool          // nothing arrives there

	// While there are two primaries:
	former *redismodel.Server // the one that loses, or nil
	behind map[int]bool       // the nodes that use it
}

// never is a time after the end of every run.
const never = time.Hour << 10

// of returns the primary that a node uses.
func (s *shard) of(node int) *redismodel.Server {
	if s.former != nil && s.behind[node] {
		return s.former
	}
	return s.server
}

// A cluster has the servers: one, or shards that share the slots.
type cluster struct {
	world  *world
	shards []*shard
	owner  map[int]int // of slots that moved; the others are slot mod shards
	moving map[int]int // slot to its target
	offset time.Duration
}

func newCluster(w *world, vm *redismodel.VM, shards int) *cluster {
	c := &cluster{world: w, owner: map[int]int{}, moving: map[int]int{}}
	for i := range shards {
		s := &shard{index: i, cluster: c, lag: time.Millisecond}
		s.server = redismodel.NewServer(vm, c.clock)
		c.shards = append(c.shards, s)
	}
	return c
}

// clock returns the time of the servers in µs.
func (c *cluster) clock() int64 { return time.Now().Add(c.offset).UnixMicro() }

func (c *cluster) ownerOf(slot int) int {
	if s, ok := c.owner[slot]; ok {
		return s
	}
	return slot % len(c.shards)
}

// run runs a command, or returns the error with which a server refuses it.
func (s *shard) run(n *network, m *message) ([]string, error) {
	cmd := m.command()
	if s.failing != "" {
		n.faults.count("error reply")
		return nil, redisstore.ServerError(s.failing)
	}
	if err := s.refuse(s.of(m.trip.node), cmd.Keys, m.asking); err != "" {
		return nil, redisstore.ServerError(err)
	}
	args := slices.Concat(cmd.Head, cmd.Keys, cmd.Args)
	if n.bug == "forget usage" {
		args = withoutFormer(args)
	}
	if n.bug == "drop refund" {
		if reply, ok := dropRefund(cmd); ok {
			return reply, nil
		}
	}
	items, err := s.execute(n, m, args)
	switch {
	case n.bug == "noscript" && err == nil && cmd.Head[0] == "EVALSHA" && n.faults.on && n.world.chance(0.02):
		return nil, redisstore.ServerError("NOSCRIPT No matching script. Please use EVAL.")
	case n.bug == "resend refund" && err == nil && refunds(cmd) && n.faults.on && n.world.chance(0.3):
		return s.execute(n, m, args)
	}
	return items, err
}

func (s *shard) execute(n *network, m *message, args []string) ([]string, error) {
	cmd := m.command()
	server := s.of(m.trip.node)
	items, err := server.Do(args)
	if server == s.server {
		s.stamp()
	}
	var e redismodel.Error
	switch {
	case errors.As(err, &e):
		if len(e) > 8 && e[:8] == "NOSCRIPT" {
			n.faults.count("NOSCRIPT")
		}
		return nil, redisstore.ServerError(e)
	case cmd.Head[0] == "EVALSHA" || cmd.Head[0] == "EVAL":
		n.record.ran(s, server, m.trip.node, cmd, items)
	}
	return items, nil
}

// stamp sends the last writes to the replica.
func (s *shard) stamp() {
	now := s.cluster.world.now()
	s.due = max(s.due, now+s.lag)
	if s.apart {
		s.due = never
	}
	s.server.Stamp(int64(s.due))
	s.server.Replicate(int64(now))
}

// drain runs the commands that waited for the end of a stall.
func (s *shard) drain(n *network) {
	if wait := s.stalled - n.world.now(); wait > 0 {
		n.world.after(wait, func() { s.drain(n) })
		return
	}
	waiting := s.waiting
	s.waiting, s.draining = nil, true
	for _, m := range waiting {
		n.arrive(m)
	}
	s.draining = false
}

// refuse returns the redirection for keys that s does not serve, or "".
func (s *shard) refuse(server *redismodel.Server, keys []string, asking bool) string {
	c := s.cluster
	if len(c.shards) == 1 || len(keys) == 0 {
		return ""
	}
	slot := slotOf(keys[0])
	owner := c.ownerOf(slot)
	to, moving := c.moving[slot]
	have := 0
	for _, k := range keys {
		if server.Has(k) {
			have++
		}
	}
	switch {
	case s.index == owner && (!moving || have == len(keys)):
		return ""
	case s.index == owner && have > 0:
		return "TRYAGAIN Multiple keys request during rehashing of slot"
	case s.index == owner:
		return fmt.Sprintf("ASK %d %d", slot, to)
	case moving && s.index == to && asking:
		if len(keys) > 1 && have < len(keys) {
			return "TRYAGAIN Multiple keys request during rehashing of slot"
		}
		return ""
	}
	return fmt.Sprintf("MOVED %d %d", slot, owner)
}

// keysOf returns the keys of a slot at a shard.
func (s *shard) keysOf(slot int) []string {
	return slices.DeleteFunc(s.server.Keys(), func(k string) bool { return slotOf(k) != slot })
}

// withoutFormer returns the arguments of a call without the former limits of its requests: see
// redisstore/lua/reservations.lua.
func withoutFormer(args []string) []string {
	args = slices.Clone(args)
	for i, a := range args {
		var rest []int64
		if len(a) > 0 && a[0] == '[' && json.Unmarshal([]byte(a), &rest) == nil && len(rest) > 7 {
			b, _ := json.Marshal(rest[:7])
			args[i] = string(b)
		}
	}
	return args
}
