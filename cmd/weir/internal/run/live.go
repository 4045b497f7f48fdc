package run

import (
	"cmp"
	"context"
	"net/http"
	"strings"
	"sync"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/live"
	"github.com/floodweir/weir/cmd/weir/internal/nodes"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/policy"
)

// newLive builds what publishes the state of this node and reads that of others. It needs the first
// generation.
func (p *Program) newLive() (err error) {
	x := nodes.Config{
		Program: p.version, State: p.nodeState, Snapshot: p.observers.traffic.Snapshot, Details: live.Details(p.observers.traffic),
		Seed: p.observers.seed, UseSeed: p.observers.traffic.SetSeed, Secret: p.observers.names.Secret(), UseSecret: p.observers.names.Use, Log: p.log,
	}
	x.Conn = p.stores.inRedis()
	if p.exchange, err = nodes.New(x); err != nil {
		return err
	}
	c := live.Config{
		Exchange: p.exchange, Recorder: p.observers.traffic, Policies: func() *policy.Set { return p.ready.current().policies },
		Names: p.observers.names, Notices: live.Audit(p.audit), Log: p.log.With("interface", "admin"),
	}
	if x.Conn != nil {
		c.Newest, c.Programs = live.Published(x.Conn), live.Instances(x.Conn)
	}
	p.live, err = live.New(c)
	return err
}

// runLive runs what newLive built.
func (p *Program) runLive() {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { p.observers.traffic.Run(ctx) })
	running.Go(func() { p.exchange.Run(ctx) })
	if p.config.Admin.Listen != config.Off {
		running.Go(func() { p.live.Run(ctx) })
	}
	p.onStop(func(context.Context) {
		cancel()
		running.Wait()
	})
}

// liveRoutes returns the routes of the admin interface with live data.
func (p *Program) liveRoutes() []admin.Route {
	return []admin.Route{
		{Pattern: "GET /v1/overview", Summary: "traffic, nodes and Go programs", Role: access.Read, Handler: http.HandlerFunc(p.live.Overview)},
		{Pattern: "GET /v1/series", Summary: "counters by second; ?policy=NAME&since=UNIX", Role: access.Read, Handler: http.HandlerFunc(p.live.Series)},
		{Pattern: "GET /v1/events", Summary: "the same as a stream; ?topics=overview,policy:NAME", Role: access.Read, Handler: http.HandlerFunc(p.live.Events)},
		{Pattern: "GET /v1/policies/{name}/keys", Summary: "the keys with most requests and denials", Role: access.Read, Handler: http.HandlerFunc(p.live.Keys)},
		{Pattern: "GET /v1/policies/{name}/threshold", Summary: "the effect of another limit; ?limit=12/m", Role: access.Read, Handler: http.HandlerFunc(p.live.Threshold)},
	}
}

// nodeState returns what this node reports about itself.
func (p *Program) nodeState() nodes.State {
	s := nodes.State{Store: "memory", Mode: "normal", Problem: strings.Join(p.ready.refusals(), "; ")}
	if v := p.reloader.published.Load(); v != nil {
		s.Version = v.number
	}
	if p.stores.server == nil {
		return s
	}
	s.Store, s.Shares = string(p.stores.breaker.Stats().State), p.stores.shares.Stats().Shares
	if !p.stores.server.Connected() {
		s.Store = string(failover.Down)
	}
	if s.Store != string(failover.Up) {
		s.Mode = string(p.ready.current().fallback())
	}
	if err := p.stores.problem(); err != nil {
		s.Problem = cmp.Or(s.Problem, "store: "+err.Error())
	}
	return s
}

// fallback returns the degraded mode that matters most to an operator: open if any policy in force
// has it, else closed if any has it, else local.
func (g *generation) fallback() policy.FailMode {
	mode := policy.Local
	for _, one := range g.policies.Policies() {
		switch c := one.Config(); {
		case c.Mode != policy.Enforce:
		case c.OnStoreError == policy.Open:
			return policy.Open
		case c.OnStoreError == policy.Closed:
			mode = policy.Closed
		}
	}
	return mode
}
