package nodes

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/redisstore"
)

const (
	// Every is the interval between two records of a node.
	Every = time.Second

	// TTL is the time that a record stays readable. A node without one is stale.
	TTL = 5 * time.Second

	// ListTTL is the time that a stale node stays listed. A node that stops is removed at once.
	ListTTL = 10 * time.Minute

	// DetailsEvery is the interval between two payloads of a topic.
	DetailsEvery = 5 * time.Second

	// WantTTL is the time that a topic stays wanted after the last Want.
	WantTTL = 15 * time.Second

	// MaxNodes bounds the list; one more node is not listed at the others.
	MaxNodes = 256

	// MaxWanted bounds the topics that are wanted at the same time.
	MaxWanted = 16

	// MaxSnapshot is the largest payload of a record, in bytes; a larger one is not published.
	MaxSnapshot = 4 << 10

	// MaxDetails is the largest payload of a topic, in bytes; a larger one is not published.
	MaxDetails = 64 << 10

	maxText  = 128 // bytes of a name, version or problem
	maxTopic = 200
)

// publishAt is the instant within a second at which a node publishes. By then the counters
// of the second before are complete.
const publishAt = 250 * time.Millisecond

// ioTimeout bounds each exchange with Redis.
const ioTimeout = time.Second

// An Identity describes a node. It does not change while the process runs.
type Identity struct {
	ID      string `json:"id"`      // random
	Name    string `json:"name"`    // the host name
	PID     int    `json:"pid"`     // the process ID
	Program string `json:"program"` // the version of the program
}

// A State has the values that a node reports about itself.
type State struct {
	Version int64   `json:"version,omitempty"` // of the policies in force; 0: those of a file
	Store   string  `json:"store"`             // up, slow, down or memory
	StoreMS float64 `json:"ms"`                // duration of the last publication, as a latency of the store
	Mode    string  `json:"mode"`              // normal, local, open or closed
	Problem string  `json:"problem,omitempty"` // "": none
	Shares  int     `json:"shares,omitempty"`  // of limits, that the node holds
}

// A Node is one entry of a list of nodes. State and Snapshot of a stale node are zero.
type Node struct {
	Identity
	State
	Self     bool
	Stale    bool          // no record for TTL
	Seen     time.Duration // since the last record, by the clock of Redis
	Snapshot []byte
}

// A List is the result of Read.
type List struct {
	Nodes []Node // this node first, the others by name
	Err   error  // not nil: the list has only this node
}

// A Config is the configuration of an Exchange. State and Snapshot are required.
type Config struct {
	// Conn returns the connection to Redis, or nil while there is none. With a nil Conn the
	// list has only this node.
	Conn func() redisstore.Conn

	Name    string // the host name; that of the operating system if empty
	Program string // the version of the program

	// State returns the state of this node. The Exchange sets StoreMS.
	State func() State

	// Snapshot returns the payload of a record, or nil.
	Snapshot func() []byte

	// Details returns the payload of a topic, or nil. Nothing is published if Details is nil.
	Details func(topic string) []byte

	// Seed is the seed of this node. UseSeed, if not nil, receives another one that the nodes
	// of the store have agreed on: that of the node which came first.
	Seed    uint64
	UseSeed func(uint64)

	// Secret and UseSecret are the same for the secret in the IDs of keys: see package keyid.
	Secret    string
	UseSecret func(string)

	// Log receives the first error of an outage, and its end.
	Log *slog.Logger
}

// An Exchange publishes the state of this node and reads that of the others.
type Exchange struct {
	c        Config
	identity Identity
	member   string // the identity in JSON

	mu       sync.Mutex
	err      error                // of the last publication
	duration time.Duration        // of the last publication that succeeded
	sent     map[string]time.Time // last payload by wanted topic
	common   common
}

// New returns an Exchange. An error wraps weir.ErrInvalid.
func New(c Config) (*Exchange, error) {
	if c.State == nil || c.Snapshot == nil {
		return nil, fmt.Errorf("nodes: State, Snapshot: %w: got nil, want both", weir.ErrInvalid)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	x := &Exchange{c: c, identity: Identity{ID: rand.Text()[:16], Name: shorten(c.Name), PID: os.Getpid(), Program: shorten(c.Program)}, sent: map[string]time.Time{}, common: common{c.Seed, c.Secret}}
	member, err := json.Marshal(x.identity)
	x.member = string(member)
	return x, err
}

// common has what the nodes of a store agree on: the values of the node which came first.
type common struct {
	seed   uint64
	secret string
}

// ID returns the ID of this node.
func (x *Exchange) ID() string { return x.identity.ID }

// Run publishes until ctx ends, and then removes this node from the list. Without a Conn it
// returns at once.
func (x *Exchange) Run(ctx context.Context) {
	if x.c.Conn == nil {
		return
	}
	for {
		now := time.Now()
		next := time.NewTimer(now.Truncate(time.Second).Add(Every + publishAt).Sub(now))
		select {
		case <-ctx.Done():
			next.Stop()
			x.leave(ctx)
			return
		case <-next.C:
			x.publish(ctx)
		}
	}
}

// publish writes the record and the wanted payloads.
func (x *Exchange) publish(ctx context.Context) {
	err := errNotConnected
	if conn := x.c.Conn(); conn != nil {
		begin := time.Now()
		var topics []string
		var agreed common
		if topics, agreed, err = x.writeRecord(ctx, conn); err == nil {
			x.published(time.Since(begin), agreed)
			err = x.writeDetails(ctx, conn, topics)
		}
	}
	if ctx.Err() != nil {
		return
	}
	x.mu.Lock()
	first, ended := err != nil && x.err == nil, err == nil && x.err != nil
	x.err = err
	x.mu.Unlock()
	switch {
	case first:
		x.c.Log.Warn("state of this node not published: other nodes show it as stale", "error", err)
	case ended:
		x.c.Log.Info("state of this node published again")
	}
}

// published records a publication that succeeded.
func (x *Exchange) published(took time.Duration, agreed common) {
	x.mu.Lock()
	old := x.common
	x.duration, x.common = took, agreed
	x.mu.Unlock()
	if agreed.seed != old.seed && x.c.UseSeed != nil {
		x.c.UseSeed(agreed.seed)
	}
	if agreed.secret != old.secret && x.c.UseSecret != nil {
		x.c.UseSecret(agreed.secret)
	}
}

// self returns the entry of this node.
func (x *Exchange) self() Node {
	s := x.c.State()
	x.mu.Lock()
	s.StoreMS = float64(x.duration.Round(10*time.Microsecond)) / float64(time.Millisecond)
	if errors.Is(x.err, errFull) && s.Problem == "" {
		s.Problem = x.err.Error()
	}
	x.mu.Unlock()
	s.Problem = shorten(s.Problem)
	return Node{Identity: x.identity, State: s, Self: true, Snapshot: x.c.Snapshot()}
}

// Read returns the nodes of the store. If Redis does not return them, the list has only
// this node, and the error.
func (x *Exchange) Read(ctx context.Context) List {
	list := List{Nodes: []Node{x.self()}}
	if x.c.Conn == nil {
		return list
	}
	others, err := x.readOthers(ctx)
	if err != nil {
		list.Err = err
		return list
	}
	slices.SortFunc(others, func(a, b Node) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	list.Nodes = append(list.Nodes, others...)
	return list
}

// shorten returns the beginning of text.
func shorten(text string) string {
	if len(text) <= maxText {
		return text
	}
	return strings.ToValidUTF8(text[:maxText-len("…")], "") + "…"
}
