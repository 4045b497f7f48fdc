package live

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/keyid"
	"github.com/floodweir/weir/cmd/weir/internal/nodes"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/policy"
)

const (
	// MaxFollowed is the number of nodes up to which a node merges the counters of all others
	// all the time, and not only while a client shows them.
	MaxFollowed = 16

	// topEvery is the interval between two events with the keys of a policy.
	topEvery = 5 * time.Second

	// noticesEvery is the interval between two reads of the audit log.
	noticesEvery = 2 * time.Second

	// viewedFor is the time that nodes are followed after the last request.
	viewedFor = 15 * time.Second

	// collectAt is the instant within a second at which the counters of all nodes are merged.
	// Nodes publish theirs before it.
	collectAt = 650 * time.Millisecond

	// unfollowedEvery is the interval at which more than MaxFollowed nodes are counted.
	unfollowedEvery = 10

	collectTimeout = 900 * time.Millisecond
)

// A Version is a published version of the policies.
type Version struct {
	Number int64  `json:"version"`
	By     string `json:"by,omitempty"`
	Note   string `json:"note,omitempty"`
	At     string `json:"at,omitempty"` // RFC 3339

	// Nginx is the reason why there is no plan for nginx; "" if there is one.
	Nginx string `json:"nginx_problem,omitempty"`
}

// A Program is a Go program that limits functions.
type Program struct {
	ID        string `json:"id"`
	Service   string `json:"service"`
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	Version   int64  `json:"version"` // of the policies in force
	Functions int    `json:"functions"`
	SeenMS    int64  `json:"seen_ms"`
	Stale     bool   `json:"stale"`
	Problem   string `json:"problem"`
	Adjusts   bool   `json:"adjusts"` // it applies the adjustments of single keys

	Policies []instances.PolicyRate `json:"-"` // whose decisions it counts
}

// A Notice is an event that is sent once to every client, such as an entry of the audit log.
type Notice struct {
	ID   int64                  // increases
	Data func(operate bool) any // the event for a client of the role read or operate
}

// A Config configures New. Exchange, Recorder, Policies and Names are required.
type Config struct {
	Exchange *nodes.Exchange
	Recorder *traffic.Recorder
	Policies func() *policy.Set // in force
	Names    *keyid.Names       // of keys

	// Newest returns the published version that nodes should use; its Number is 0 if there is
	// none. Nil: policies are not published.
	Newest func(context.Context) (Version, error)

	// Programs returns the Go programs of the store; nil if there is no store for them.
	Programs func(context.Context) ([]Program, error)

	// Notices returns the entries of the audit log after an ID, oldest first, at most
	// MaxNotices; after -1 it returns the last one. Nil: there is no audit log.
	Notices func(ctx context.Context, after int64) ([]Notice, error)

	// Problem returns a problem of all nodes, or "".
	Problem func() string

	Log *slog.Logger
}

// A Live collects the state of the nodes and serves it.
type Live struct {
	c      Config
	hub    *hub
	merged *traffic.History // of all nodes

	viewed atomic.Int64 // the last request, in ns since the epoch

	samples samples

	mu    sync.Mutex
	state *state
	last  notices
}

// A state is the result of one collection. It does not change.
type state struct {
	at       time.Time
	complete bool // version and programs were read
	history  *traffic.History
	second   int64 // the last one with the counters of all nodes, in s since the epoch
	nodes    []node
	others   []string // IDs of the live nodes but this one
	programs []Program
	version  Version
	problem  string // why the numbers are not those of all nodes
}

// New returns a Live. An error wraps weir.ErrInvalid.
func New(c Config) (*Live, error) {
	if c.Exchange == nil || c.Recorder == nil || c.Policies == nil || c.Names == nil {
		return nil, fmt.Errorf("live: Exchange, Recorder, Policies, Names: %w: got nil, want all", weir.ErrInvalid)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Live{c: c, hub: newHub(), merged: traffic.NewHistory(), last: notices{audit: -1}}, nil
}

// Run collects once a second and sends events until ctx ends. Then it ends all streams.
func (l *Live) Run(ctx context.Context) {
	defer l.hub.close()
	for {
		now := time.Now()
		next := time.NewTimer(now.Truncate(time.Second).Add(time.Second + collectAt).Sub(now))
		select {
		case <-ctx.Done():
			next.Stop()
			return
		case now = <-next.C:
		}
		if l.due(now) {
			l.collect(ctx)
		}
		if l.hub.size() > 0 {
			l.viewed.Store(now.UnixNano())
			l.send(ctx)
		}
	}
}

// due reports whether the nodes are read in this second.
func (l *Live) due(now time.Time) bool {
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	return s == nil || len(s.nodes) <= MaxFollowed || l.isViewed(now) || now.Unix()%unfollowedEvery == 0
}

func (l *Live) isViewed(now time.Time) bool {
	return l.hub.size() > 0 || now.Sub(time.Unix(0, l.viewed.Load())) < viewedFor
}

// current returns the last state. A request for it keeps the nodes followed. If they were
// not, it collects.
func (l *Live) current(ctx context.Context) *state {
	l.viewed.Store(time.Now().UnixNano())
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	if s == nil || !s.complete || time.Since(s.at) > 2*time.Second {
		return l.collect(context.WithoutCancel(ctx))
	}
	return s
}

// collect reads the nodes and merges their counters.
func (l *Live) collect(ctx context.Context) *state {
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	begin := time.Now()
	list := l.c.Exchange.Read(ctx)
	s := &state{at: time.Now(), complete: l.isViewed(begin)}
	l.readStore(ctx, s, list.Err)
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.state; old != nil && old.at.After(begin) && (old.complete || !s.complete) {
		return old // of another goroutine
	}
	follow := len(list.Nodes) <= MaxFollowed || l.isViewed(begin)
	for i := range list.Nodes {
		n := toNode(&list.Nodes[i], s.version.Number)
		if !n.Stale && follow {
			if err := l.merged.Merge(n.ID, list.Nodes[i].Snapshot, begin); err != nil {
				n.Problem = join(n.Problem, "counters not merged: "+err.Error())
			}
			if !n.Self {
				s.others = append(s.others, n.ID)
			}
		}
		s.nodes = append(s.nodes, n)
	}
	sortNodes(s.nodes)
	s.history, s.second = l.merged, begin.Unix()-2
	if len(s.nodes) == 1 {
		s.history, s.second = l.c.Recorder.History(), begin.Unix()-1
	}
	if list.Err != nil {
		s.problem = "store unavailable: the numbers are those of this node only"
	} else if l.c.Problem != nil {
		s.problem = l.c.Problem()
	}
	l.state = s
	return s
}

// readStore reads version and programs. If the store is unavailable, it keeps the last ones, the
// programs as stale.
func (l *Live) readStore(ctx context.Context, s *state, unavailable error) {
	l.mu.Lock()
	old := l.state
	l.mu.Unlock()
	s.programs = []Program{}
	if old != nil {
		s.version = old.version
		s.programs = append(s.programs, old.programs...)
	}
	if !s.complete {
		return
	}
	if l.c.Newest != nil && unavailable == nil {
		if v, err := l.c.Newest(ctx); err == nil {
			s.version = v
		}
	}
	if l.c.Programs != nil && unavailable == nil {
		if all, err := l.c.Programs(ctx); err == nil {
			s.programs = append([]Program{}, all...)
			sortPrograms(s.programs)
			return
		}
	}
	for i := range s.programs {
		s.programs[i].Stale = true
	}
}
