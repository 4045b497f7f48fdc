package live

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
)

const (
	// MaxStream is the longest time of a stream.
	MaxStream = time.Hour

	// keepAlive is the interval of comments, which keep proxies from closing a stream.
	keepAlive = 15 * time.Second

	// writeTimeout bounds the time of a write to a client that does not read.
	writeTimeout = 10 * time.Second

	// retryMS is the time after which a browser connects again.
	retryMS = 2000

	// maxTick bounds the policies of a tick, in bytes.
	maxTick = 2000
)

// Events serves GET /v1/events.
func (l *Live) Events(w http.ResponseWriter, r *http.Request) {
	t, invalid := parseTopics(r.URL.Query().Get("topics"))
	if invalid != nil {
		invalid.Write(w, http.StatusBadRequest)
		return
	}
	for _, name := range t.policies {
		if !l.knows(name) {
			unknownPolicy(w, "topics", name)
			return
		}
	}
	c := l.hub.add(t, access.ActorOf(r.Context()).Role.Includes(access.Operate))
	if c == nil {
		w.Header().Set("Retry-After", "5")
		problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: fmt.Sprintf("want at most %d streams", MaxClients)})
		return
	}
	defer l.hub.remove(c)
	if r.Method == http.MethodHead {
		return
	}
	rc := http.NewResponseController(w)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx
	l.welcome(r.Context(), c)
	stream{w, rc}.run(r.Context(), c, l.hub.done)
}

// A stream writes events to one client.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// run writes the events of c until the client disconnects, done is closed or MaxStream is
// over.
func (s stream) run(ctx context.Context, c *client, done <-chan struct{}) {
	if !s.write(fmt.Appendf(nil, "retry: %d\n\n", retryMS)) {
		return
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	end := time.NewTimer(MaxStream)
	defer end.Stop()
	var b bytes.Buffer
	for {
		b.Reset()
		select {
		case <-ctx.Done():
			return
		case <-done:
			return
		case <-end.C:
			return
		case <-alive.C:
			b.WriteString(":\n\n")
		case <-c.ready:
			for _, e := range c.take() {
				fmt.Fprintf(&b, "event: %s\ndata: %s\n\n", e.name, e.data)
			}
		}
		if !s.write(b.Bytes()) {
			return
		}
	}
}

func (s stream) write(b []byte) bool {
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(b); err != nil {
		return false
	}
	return s.rc.Flush() == nil
}

// putJSON encodes v and adds it to c.
func (c *client) putJSON(name, slot string, v any) {
	if data, err := json.Marshal(v); err == nil {
		c.put(event{name, slot, data})
	}
}

// welcome sends a new client what does not change every second.
func (l *Live) welcome(ctx context.Context, c *client) {
	s := l.current(ctx)
	c.putJSON("nodes", "nodes", s.nodesEvent())
	if s.version.Number != 0 {
		c.putJSON("version", "version", s.version)
	}
	if data, err := json.Marshal(s.tick(c.topics)); err == nil {
		c.putTick(s.second, data)
	}
	for _, name := range c.topics.policies {
		c.putJSON("top", "top:"+name, l.keys(ctx, name, defaultKeys, c.operate))
	}
}

// notices has what was sent to the clients last.
type notices struct {
	second  int64 // of the last tick
	nodes   string
	version Version
	audit   int64 // -1: not known yet
	read    time.Time
	top     time.Time
}

// send sends the events of this second. Only Run calls it.
func (l *Live) send(ctx context.Context) {
	s := l.current(ctx)
	clients := l.hub.all()
	if s.second > l.last.second || s.second < l.last.second-10 { // the clock went back
		l.last.second = s.second
		ticks := map[string][]byte{}
		for _, c := range clients {
			id := fmt.Sprint(c.topics)
			if ticks[id] == nil {
				ticks[id], _ = json.Marshal(s.tick(c.topics))
			}
			c.putTick(s.second, ticks[id])
		}
	}
	if signature := s.signature(); signature != l.last.nodes {
		l.last.nodes = signature
		for _, c := range clients {
			c.putJSON("nodes", "nodes", s.nodesEvent())
		}
	}
	if s.version != l.last.version {
		l.last.version = s.version
		for _, c := range clients {
			c.putJSON("version", "version", s.version)
		}
	}
	l.sendNotices(ctx, clients)
	if now := time.Now(); now.Sub(l.last.top) >= topEvery-time.Second/2 {
		l.last.top = now
		for _, c := range clients {
			for _, name := range c.topics.policies {
				c.putJSON("top", "top:"+name, l.keys(ctx, name, defaultKeys, c.operate))
			}
		}
	}
}

// sendNotices sends new entries of the audit log.
func (l *Live) sendNotices(ctx context.Context, clients []*client) {
	if l.c.Notices == nil || time.Since(l.last.read) < noticesEvery-time.Second/2 {
		return
	}
	l.last.read = time.Now()
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	all, err := l.c.Notices(ctx, l.last.audit)
	if err != nil {
		return
	}
	known := l.last.audit >= 0
	l.last.audit = max(l.last.audit, 0)
	for _, n := range all {
		l.last.audit = max(l.last.audit, n.ID)
		if !known {
			continue // from before the first client
		}
		for _, c := range clients {
			c.putJSON("audit", noticeSlot+strconv.FormatInt(n.ID, 10), n.Data(c.operate))
		}
	}
}

// A nodesEvent is the data of the event nodes.
type nodesEvent struct {
	Nodes    []node    `json:"nodes"`
	Programs []Program `json:"programs"`
	Problem  string    `json:"problem"`
}

func (s *state) nodesEvent() nodesEvent { return nodesEvent{s.nodes, s.programs, s.problem} }

// signature returns a text that changes when clients should see nodes and programs again: at
// every change, and every five seconds for times and latencies.
func (s *state) signature() string {
	e := nodesEvent{slices.Clone(s.nodes), slices.Clone(s.programs), s.problem}
	for i := range e.Nodes {
		e.Nodes[i].SeenMS, e.Nodes[i].Store.MS = 0, 0
	}
	for i := range e.Programs {
		e.Programs[i].SeenMS = 0
	}
	b, _ := json.Marshal(e)
	return strconv.FormatInt(s.at.Unix()/5, 10) + string(b)
}

// A tick is the data of the event tick: counts of one second by column of traffic.Counts.
type tick struct {
	T        int64                     `json:"t"`
	All      traffic.Counts            `json:"all"`
	Policies map[string]traffic.Counts `json:"policies"`
	Latency  [2]float64                `json:"latency"` // p50 and p99 in ms
}

// tick returns the counts of the last second. Those of an overview have the policies with most
// denials that fit into maxTick; policies without requests are left out.
func (s *state) tick(t topics) tick {
	out := tick{T: s.second, Policies: map[string]traffic.Counts{}}
	row := func(policy string) *traffic.Row {
		rows, _, step := s.rows(policy, s.second)
		if step != 1 || len(rows) == 0 {
			return nil
		}
		return rows[len(rows)-1]
	}
	if all := row(""); all != nil {
		out.All, out.Latency = all.Counts, [2]float64{toMS(all.P50), toMS(all.P99)}
	}
	for _, name := range t.policies {
		if r := row(name); r != nil {
			out.Policies[name] = r.Counts
		}
	}
	if !t.overview {
		return out
	}
	type entry struct {
		name   string
		counts traffic.Counts
	}
	var entries []entry
	for _, name := range s.history.Policies() {
		if r := row(name); r != nil && r.Counts != (traffic.Counts{}) {
			entries = append(entries, entry{name, r.Counts})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(b.counts[traffic.Denied], a.counts[traffic.Denied]), cmp.Compare(b.counts.Requests(), a.counts.Requests()), cmp.Compare(a.name, b.name))
	})
	size := 0
	for _, e := range entries {
		if size += len(e.name) + len(`"":[],`) + 4*len(e.counts); size > maxTick {
			break
		}
		out.Policies[e.name] = e.counts
	}
	return out
}
