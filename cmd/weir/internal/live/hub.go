package live

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

const (
	// MaxClients bounds the streams of Events.
	MaxClients = 32

	// MaxTopics bounds the policies of one stream.
	MaxTopics = 8

	// MaxNotices bounds the notices that wait for a slow client; older ones are dropped.
	MaxNotices = 16
)

// topics selects the events of a client.
type topics struct {
	overview bool     // all policies
	policies []string // with their keys
}

// parseTopics reads the parameter topics.
func parseTopics(text string) (t topics, err *problem.FieldError) {
	if text == "" {
		return topics{overview: true}, nil
	}
	for topic := range strings.SplitSeq(text, ",") {
		name, isPolicy := strings.CutPrefix(topic, "policy:")
		switch {
		case topic == "overview":
			t.overview = true
		case !isPolicy || name == "" || len(name) > maxName:
			return t, problem.Invalid("topics", text, "overview and policy:NAME, separated by commas")
		case !slices.Contains(t.policies, name):
			t.policies = append(t.policies, name)
		}
	}
	if len(t.policies) > MaxTopics {
		return t, problem.Invalid("topics", text, "at most "+strconv.Itoa(MaxTopics)+" policies")
	}
	return t, nil
}

// An event is one event of a stream.
type event struct {
	name string
	slot string // a later event of the same slot replaces it
	data []byte
}

// A hub has the clients of the stream. Its zero value is not usable.
type hub struct {
	mu      sync.Mutex
	clients map[*client]struct{}
	closed  bool
	done    chan struct{} // closed by close
}

// A client is one stream. Events wait until its goroutine takes them.
type client struct {
	topics  topics
	operate bool          // sees plain keys
	ready   chan struct{} // has an element if events wait

	mu     sync.Mutex
	events []event // at most one for each slot
	second int64   // of the last tick
}

func newHub() *hub {
	return &hub{clients: map[*client]struct{}{}, done: make(chan struct{})}
}

// add returns a new client, or nil if there are MaxClients or the hub is closed.
func (h *hub) add(t topics, operate bool) *client {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.clients) >= MaxClients {
		return nil
	}
	c := &client{topics: t, operate: operate, ready: make(chan struct{}, 1)}
	h.clients[c] = struct{}{}
	return c
}

func (h *hub) remove(c *client) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.clients, c)
}

func (h *hub) size() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.clients)
}

// all returns the clients.
func (h *hub) all() []*client {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]*client, 0, len(h.clients))
	for c := range h.clients {
		all = append(all, c)
	}
	return all
}

// close ends all streams.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
}

// put adds an event. It replaces one of the same slot that still waits, so a slow client gets
// the latest one. It never blocks.
func (c *client) put(e event) {
	c.mu.Lock()
	if i := slices.IndexFunc(c.events, func(old event) bool { return old.slot == e.slot }); i >= 0 {
		c.events = slices.Delete(c.events, i, i+1)
	}
	c.events = append(c.events, e)
	c.limitNotices()
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// putTick adds the tick of a second, unless c has it already.
func (c *client) putTick(second int64, data []byte) {
	c.mu.Lock()
	known := c.second == second
	c.second = second
	c.mu.Unlock()
	if !known {
		c.put(event{"tick", "tick", data})
	}
}

// noticeSlot begins the slots of notices.
const noticeSlot = "notice:"

// limitNotices drops the oldest of more than MaxNotices notices. It requires c.mu.
func (c *client) limitNotices() {
	n := 0
	for i := len(c.events) - 1; i >= 0; i-- {
		if strings.HasPrefix(c.events[i].slot, noticeSlot) {
			if n++; n > MaxNotices {
				c.events = slices.Delete(c.events, i, i+1)
			}
		}
	}
}

// take returns the waiting events and removes them.
func (c *client) take() []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.events
	c.events = nil
	return all
}
