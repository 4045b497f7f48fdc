package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/explain"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/storeconn"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/regions"
)

// restDeadline bounds the time of a decision by the rest: the global store may be far away.
const restDeadline = time.Second

// A regional holds the parts and the stores by which a process of a region decides.
type regional struct {
	name       string
	part, rest int        // percent
	inner      weir.Store // decides by the part
	store      *regions.Store
	policies   atomic.Pointer[policy.Set]

	global  *storeconn.Conn // nil without a rest, as the next two
	shares  *share.Store    // of the rest
	breaker *failover.Store // below shares
	lag     atomic.Int64    // of the last call of the global store, in ns
}

// divideByRegions makes the store of this process decide by the part of its region, and by the rest.
func (s *stores) divideByRegions(ctx context.Context, c *config.Config, m *metrics.Metrics, log *slog.Logger) (err error) {
	if c.Regions == nil {
		return nil
	}
	r := &regional{inner: s.main, name: c.Region.Name, part: c.Region.Part, rest: c.Regions.Rest()}
	var rest weir.Store
	if r.rest > 0 {
		if rest, err = r.open(ctx, s, c, log); err != nil {
			return err
		}
	}
	rc := regions.Config{Part: r.part, Rest: r.rest, Divided: r.divided}
	if r.store, err = regions.New(s.main, rest, rc); err != nil {
		return err
	}
	// While the store of the region is unavailable, it decides by a part of its part.
	var none weir.Store
	if rc.Rest = 0; r.part == 0 {
		rc.Rest, none = r.rest, failover.Closed()
	}
	if s.local, err = regions.New(s.local, none, rc); err != nil {
		return err
	}
	s.main, s.regional = r.store, r
	m.Regions(r.stats)
	log.Info("limits divided among regions", "region", r.name, "part", r.part, "rest", r.rest)
	return nil
}

// undivided returns the store without regions, for what is not a request of a client.
func (s *stores) undivided() weir.Store {
	if s.regional != nil {
		return s.regional.inner
	}
	return s.main
}

// open opens the store of the rest: shares in the global store. The program also starts without that.
func (r *regional) open(ctx context.Context, s *stores, c *config.Config, log *slog.Logger) (weir.Store, error) {
	log = log.With("store_of", "the rest of all regions")
	deadline := max(c.Deadline, restDeadline)
	global, err := storeconn.Open(ctx, storeconn.Config{
		URL: c.Regions.Global, Name: config.Redacted(c.Regions.Global), Rest: true, StartDegraded: true, Timeout: max(redisstore.DefaultTimeout, deadline), Log: log,
	})
	if err != nil {
		return nil, err
	}
	r.global = global
	s.stops = append(s.stops, global.Close)
	r.shares, err = share.New(global, global.Ledger(), share.Config{Lease: c.Regions.Lease, Timeout: deadline})
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func() { returnShares(r.shares, log) })
	r.breaker, err = failover.New(r.shares.Calls(), failover.Config{
		Deadline: deadline, Observe: logRest(log), ObserveCall: r.called,
	})
	if err != nil {
		return nil, err
	}
	s.stops = append(s.stops, func() { r.breaker.Close() })
	denials, err := denycache.New(r.breaker, denycache.Config{})
	if err != nil {
		return nil, err
	}
	return r.shares.Over(r.breaker, denials), nil
}

// logRest returns a function that logs each change of the state of the global store.
func logRest(log *slog.Logger) func(failover.Change) {
	last := failover.Up
	return func(c failover.Change) {
		switch {
		case c.State == last:
		case c.State == failover.Up:
			log.Info("global store available again")
		default:
			log.Error("global store "+string(c.State)+": this region decides by its own part", "error", c.Cause)
		}
		last = c.State
	}
}

// called records the time of a call of the global store.
func (r *regional) called(_ context.Context, _ weir.Verb, _ bool, start time.Time, err error) {
	if err == nil {
		r.lag.Store(int64(time.Since(start)))
	}
}

// divided reports whether regions divide the limits of a key.
func (r *regional) divided(key string) bool {
	p := r.policies.Load()
	return p == nil || !p.EachRegion(key)
}

// check returns why the limits of g cannot be divided, or nil. It accepts all without regions.
func (r *regional) check(g *generation) error {
	if r == nil {
		return nil
	}
	var errs []error
	check := func(where string, l weir.Limit) {
		if _, _, err := r.store.Limits("", l); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", where, err))
		}
	}
	for _, p := range g.policies.Policies() {
		c := p.Config()
		if c.EachRegion {
			continue
		}
		for _, l := range append(c.Limits[:len(c.Limits):len(c.Limits)], c.Candidate...) {
			check("policy "+c.Name, l)
		}
		for _, o := range c.Overrides {
			for _, l := range o.Limits {
				check("policy "+c.Name+": overrides", l)
			}
		}
	}
	if g.limits != nil {
		for _, d := range g.limits.Domains() {
			checkDescriptors("domain "+d.Name, d.Descriptors, check)
		}
	}
	return errors.Join(errs...)
}

func checkDescriptors(where string, all []*ratelimit.Descriptor, check func(string, weir.Limit)) {
	for _, d := range all {
		name := where + ": " + d.Key
		if l := d.Limit; l != nil && !l.Unlimited && !l.Blocks() {
			check(name, l.Limit)
		}
		checkDescriptors(name, d.Descriptors, check)
	}
}

// stats returns the metrics.
func (r *regional) stats() metrics.RegionStats {
	st := metrics.RegionStats{Part: r.part, Rest: r.rest, Decisions: r.store.Stats()}
	if r.shares != nil {
		st.Up, st.Lag, st.Shares = r.breaker.Stats().State == failover.Up, time.Duration(r.lag.Load()), r.shares.Stats()
	}
	return st
}

// explainRegion returns how the region decides a key under a limit; nil without regions, or if they do
// not divide the limit.
func (s *stores) explainRegion(ctx context.Context, key string, l weir.Limit) *explain.Region {
	r := s.regional
	if r == nil || !r.divided(key) {
		return nil
	}
	own, rest, err := r.store.Limits(key, l)
	x := &explain.Region{Name: r.name, Part: r.part, Bound: r.part}
	if err != nil {
		x.Problem = err.Error()
		return x
	}
	if !own.IsZero() {
		x.Limit = own.Brief()
	}
	if rest.IsZero() {
		return x
	}
	x.Rest, x.RestLimit = r.rest, rest.Brief()
	ctx, cancel := context.WithTimeout(ctx, restDeadline)
	defer cancel()
	begin := time.Now()
	if share.Supports(rest) != nil {
		_, err = r.breaker.Do(ctx, weir.Request{Verb: weir.Peek, Key: key, Limit: rest})
	} else {
		var v share.Division
		v, err = r.shares.Explain(ctx, key, rest)
		x.Shares = explain.SharesOf(&v)
	}
	if err != nil {
		x.Problem, x.Shares = err.Error(), nil
		return x
	}
	x.Lag = explain.Seconds(time.Since(begin))
	x.Bound += r.rest
	return x
}
