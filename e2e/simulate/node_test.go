package simulate

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
)

// A node is one process: the real packages over a model of the network.
type node struct {
	index    int
	redis    *redisstore.Store
	guarded  *failover.Store  // with deadline and breaker
	cache    *denycache.Store // over guarded, or nil
	front    weir.Store       // cache or guarded
	fallback weir.Store       // front, with the share of this node
	calls    atomic.Int64     // of redis, in progress
	enforcer *enforce.Enforcer
	memory   *memstore.Store
}

// gated stops every call at a gate, so that calls continue one by one.
type gated struct {
	weir.Store
	world  *world
	label  string
	before bool // the gate is before the call
}

// counted checks that a node has no more calls in progress than it may: the bound of the
// failover store, and one probe.
type counted struct {
	weir.Store
	node *node
	most int64
	over func()
}

func (s counted) begin() (end func()) {
	if s.node.calls.Add(1) > s.most {
		s.over()
	}
	return func() { s.node.calls.Add(-1) }
}

func (s counted) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	defer s.begin()()
	return s.Store.Do(ctx, r)
}

func (s counted) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	defer s.begin()()
	return s.Store.DoAll(ctx, rs, ds)
}

type requestID struct{}

func idOf(ctx context.Context) int {
	id, _ := ctx.Value(requestID{}).(int)
	return id
}

func (s gated) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if s.before {
		s.world.pass(idOf(ctx), s.label, nil)
		return s.Store.Do(ctx, r)
	}
	d, err := s.Store.Do(ctx, r)
	s.world.pass(idOf(ctx), s.label, nil)
	return d, err
}

func (s gated) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if s.before {
		s.world.pass(idOf(ctx), s.label, nil)
		return s.Store.DoAll(ctx, rs, ds)
	}
	ok, err := s.Store.DoAll(ctx, rs, ds)
	s.world.pass(idOf(ctx), s.label, nil)
	return ok, err
}

func newNode(w *world, n *network, index, nodes, calls int, cached bool, set *policy.Set) *node {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	x := &node{index: index}
	var err error
	x.redis, err = redisstore.New(&conn{n, index}, redisstore.Config{})
	must(err)
	shared := counted{gated{x.redis, w, "store", false}, x, int64(calls) + 1, func() {
		n.record.violate("overload: node %d has more than %d calls in progress", index, calls)
	}}
	x.guarded, err = failover.New(shared, failover.Config{MaxCalls: calls, MaxQueue: 2 * calls})
	must(err)
	x.memory, err = memstore.New(memstore.Config{})
	must(err)
	local, err := failover.NewLocal(gated{x.memory, w, "local", true}, nodes)
	must(err)
	x.front = x.guarded
	if cached {
		x.cache, err = denycache.New(gated{x.guarded, w, "cache", true}, denycache.Config{MaxKeys: 1 << 10})
		must(err)
		x.front = x.cache
	}
	x.fallback = failover.WithFallback(x.front, local)
	x.enforcer, err = enforce.New(x.front, set, enforce.Config{Options: enforce.Options{Local: local}})
	must(err)
	return x
}

func (x *node) close() {
	x.guarded.Close()
	x.redis.Close()
	x.memory.Close()
}

// attributes identifies the policy and the user of a request to the enforcer.
type attributes struct{ policy, user string }

func (a attributes) Method() string           { return "GET" }
func (a attributes) Host() string             { return "" }
func (a attributes) Path() string             { return "/" + a.policy }
func (a attributes) Query(string) []string    { return nil }
func (a attributes) Cookie(string) []string   { return nil }
func (a attributes) ClientIP() (n netip.Addr) { return n }
func (a attributes) Header(name string) []string {
	if name == "User" {
		return []string{a.user}
	}
	return nil
}

// policies returns one policy for each mode, each with several limits.
func policies(w *world) *policy.Set {
	var ps []*policy.Policy
	for i, mode := range []weir.FailMode{policy.Local, policy.Closed, policy.Open} {
		p, err := policy.New(policy.Config{
			Name:         string(mode),
			Match:        policy.Match{Paths: []string{"/" + string(mode)}},
			Key:          []policy.KeyPart{{Source: policy.Header, Name: "User"}},
			Limits:       policyLimits[i],
			OnStoreError: mode,
		})
		if err != nil {
			panic(err)
		}
		ps = append(ps, p)
	}
	set, err := policy.NewSet(ps...)
	if err != nil {
		panic(err)
	}
	return set
}

// redisKey returns the part of a name in Redis between braces.
func redisKey(name string) string {
	from, to := strings.IndexByte(name, '{'), strings.LastIndexByte(name, '}')
	if from < 0 || to < from {
		return name
	}
	return name[from+1 : to]
}
