package simulate

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/redisstore"
)

// A conn is the redisstore.Conn of a node.
type conn struct {
	net  *network
	node int
}

// Cluster implements redisstore.Conn.
func (c *conn) Cluster() bool { return len(c.net.shards) > 1 }

// Do implements redisstore.Conn. The driver fills the replies.
func (c *conn) Do(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	w := c.net.world
	t := &trip{node: c.node, cmds: cmds, replies: make([]redisstore.Reply, len(cmds)), left: len(cmds), done: make(chan struct{})}
	for i := range t.replies {
		t.replies[i].Err = errNoReply
	}
	w.mu.Lock()
	stopped := w.stopped
	if !stopped {
		w.trips = append(w.trips, t)
	}
	w.mu.Unlock()
	if stopped {
		copy(replies, t.replies)
		return
	}
	w.signal()
	select {
	case <-t.done:
	case <-ctx.Done():
	}
	w.mu.Lock()
	t.abandoned = true
	copy(replies, t.replies)
	w.mu.Unlock()
	for i := range replies {
		if errors.Is(replies[i].Err, errNoReply) {
			replies[i].Err = ctx.Err()
		}
	}
	w.pass(0, "trip "+strconv.Itoa(t.node), nil)
}

var (
	errNoReply = errors.New("no reply yet")
	errReset   = errors.New("connection reset by peer")
	errRefused = errors.New("connection refused")
)

// A trip is one call of Do.
type trip struct {
	node int
	cmds []redisstore.Command
	done chan struct{}
	left int // commands without a reply

	// Guarded by world.mu.
	replies   []redisstore.Reply
	abandoned bool
}

// text orders the trips that begin at one time.
func (t *trip) text() string {
	var b strings.Builder
	for _, c := range t.cmds {
		b.WriteString(c.Head[0] + strings.Join(c.Keys, " ") + strings.Join(c.Args, " "))
	}
	return b.String()
}

// A network has the connections between nodes and servers.
type network struct {
	world  *world
	shards []*shard
	links  map[[2]int]*link
	routes []map[int]int // for each node the shards of slots that it learned
	cut    []bool        // by node: no message arrives, nor any reply
	bug    string
	faults *faults
	record *recorder

	instant bool // messages take no time
}

// A link is the connection of a node to a server. Requests and replies keep their order.
type link struct {
	node, shard int
	generation  int           // counts resets
	arrives     time.Duration // the last request
	replies     time.Duration // the last reply
	black       bool          // replies do not arrive
	pending     []*message    // without a reply
}

// A message is one command on a link.
type message struct {
	trip       *trip
	index      int // in the trip
	shard      int
	generation int
	asking     bool
	hops       int
	lost       bool // never arrives
}

func (m *message) command() redisstore.Command { return m.trip.cmds[m.index] }

func (n *network) link(node, shard int) *link {
	l := n.links[[2]int{node, shard}]
	if l == nil {
		l = &link{node: node, shard: shard}
		n.links[[2]int{node, shard}] = l
	}
	return l
}

// send puts the commands of a trip on links.
func (n *network) send(t *trip) {
	for i := range t.cmds {
		n.transmit(&message{trip: t, index: i, shard: n.route(t.node, t.cmds[i])}, n.world.between(50*time.Microsecond, time.Millisecond))
	}
}

// route returns the shard that a client asks for a command.
func (n *network) route(node int, cmd redisstore.Command) int {
	if len(n.shards) == 1 || len(cmd.Keys) == 0 {
		return 0
	}
	slot := slotOf(cmd.Keys[0])
	if s, ok := n.routes[node][slot]; ok {
		return s
	}
	return slot % len(n.shards)
}

func (n *network) transmit(m *message, delay time.Duration) {
	w, l := n.world, n.link(m.trip.node, m.shard)
	s := n.shards[m.shard]
	if s.refuses {
		n.faults.count("refused connection")
		w.after(delay, func() { n.fill(m, redisstore.Reply{Err: errRefused}) })
		return
	}
	m.generation = l.generation
	l.pending = append(l.pending, m)
	if n.cut[m.trip.node] {
		m.lost = true
		return
	}
	if n.instant {
		n.arrive(m)
		return
	}
	l.arrives = max(w.now()+delay+n.faults.slow(w), l.arrives+time.Microsecond)
	w.after(l.arrives-w.now(), func() { n.arrive(m) })
	n.faults.trip(n, l)
}

// arrive runs a command at its server, unless the server stalls or is down.
func (n *network) arrive(m *message) {
	w, s, l := n.world, n.shards[m.shard], n.link(m.trip.node, m.shard)
	if m.lost || s.down || n.cut[m.trip.node] {
		return // no reply; a reset of the connection reports it
	}
	if s.stalled > w.now() || len(s.waiting) > 0 && !s.draining {
		s.waiting = append(s.waiting, m)
		if len(s.waiting) == 1 {
			w.after(s.stalled-w.now(), func() { s.drain(n) })
		}
		return
	}
	items, err := s.run(n, m)
	if m.generation != l.generation {
		return // the connection was reset: the reply has no way back
	}
	reply := redisstore.Reply{Items: items, Err: err}
	if n.instant {
		n.deliver(m, l, reply)
		return
	}
	l.replies = max(w.now()+w.between(50*time.Microsecond, 500*time.Microsecond)+n.faults.slow(w), l.replies+time.Microsecond)
	w.after(l.replies-w.now(), func() { n.deliver(m, l, reply) })
	if n.faults.on && w.chance(n.faults.duplicate) {
		n.faults.count("duplicated reply")
		w.after(l.replies-w.now()+w.between(time.Microsecond, 50*time.Millisecond), func() { n.deliver(m, l, reply) })
	}
}

// deliver gives a reply to the command that it belongs to. A client matches replies by their
// order, and drops those of commands without a caller.
func (n *network) deliver(m *message, l *link, reply redisstore.Reply) {
	if m.generation != l.generation || l.black || n.cut[m.trip.node] {
		return
	}
	i := slices.Index(l.pending, m)
	if n.bug == "late reply" {
		// A client that forgets abandoned commands matches the reply with the next one.
		n.world.mu.Lock()
		l.pending = slices.DeleteFunc(l.pending, func(p *message) bool { return p.trip.abandoned })
		n.world.mu.Unlock()
		i = min(0, len(l.pending)-1)
	}
	if i < 0 {
		return // a duplicate
	}
	m = l.pending[i]
	l.pending = slices.Delete(l.pending, i, i+1)
	var e redisstore.ServerError
	if errors.As(reply.Err, &e) && m.hops < 3 {
		if to, asking, ok := redirection(string(e)); ok {
			n.faults.count(strings.Fields(string(e))[0])
			m.hops++
			m.asking, m.shard = asking, to
			if !asking {
				n.routes[m.trip.node][slotOf(m.command().Keys[0])] = to
			}
			n.transmit(m, n.world.between(50*time.Microsecond, time.Millisecond))
			return
		}
	}
	n.fill(m, reply)
}

// redirection parses MOVED slot shard and ASK slot shard.
func redirection(text string) (shard int, asking, ok bool) {
	parts := strings.Fields(text)
	if len(parts) != 3 || parts[0] != "MOVED" && parts[0] != "ASK" {
		return 0, false, false
	}
	shard, err := strconv.Atoi(parts[2])
	return shard, parts[0] == "ASK", err == nil
}

// fill completes a command of a trip.
func (n *network) fill(m *message, reply redisstore.Reply) {
	w, t := n.world, m.trip
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.abandoned || t.replies[m.index].Err != errNoReply {
		return
	}
	t.replies[m.index] = reply
	if t.left--; t.left == 0 {
		close(t.done)
	}
}

// reset closes a connection. Commands on their way may still run, but their replies are lost.
func (n *network) reset(l *link) {
	w := n.world
	l.generation++
	l.black = false
	pending := l.pending
	l.pending = nil
	for _, m := range pending {
		m.lost = m.lost || w.chance(0.5)
		n.faults.hit(w, l.node, 0)
		if n.bug == "resend" && !m.trip.abandoned && m.hops < 3 {
			// A client that repeats commands whose fate it does not know.
			again := &message{trip: m.trip, index: m.index, shard: m.shard, hops: m.hops + 1}
			n.transmit(again, w.between(50*time.Microsecond, time.Millisecond))
			continue
		}
		n.fill(m, redisstore.Reply{Err: errReset})
	}
}
