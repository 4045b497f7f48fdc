package run

import (
	"fmt"
	"slices"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/cmd/weir/internal/protection"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// A generation holds everything that a reload replaces. A request that was admitted ends
// under its generation; a request that waits moves to the next one.
type generation struct {
	config   *config.Config
	policies *policy.Set // carry over the state of the previous generation
	source   string      // of the policies, for people
	limits   *ratelimit.Config
	gateway  *gateway.Gateway // nil without routes
	api      *httpapi.API

	middlewares map[string]*httplimit.Middleware // by interface
	protections *protection.Set                  // of the gateway; nil without routes
}

// String returns the number and the source of the policies.
func (g *generation) String() string {
	return fmt.Sprintf("%d from %s", len(g.policies.Policies()), g.source)
}

// worksWithoutStore reports whether no policy denies requests while the store is
// unavailable. /readyz then stays 200: all nodes share the store, so taking this one out
// of service would not help.
func (g *generation) worksWithoutStore() bool {
	all := g.policies.Policies()
	for _, one := range all {
		if c := one.Config(); c.Mode == policy.Enforce && c.OnStoreError == policy.Closed {
			return false
		}
	}
	return len(all) > 0
}

// priceVersions returns the versions of the prices of the budgets in US dollars.
func (g *generation) priceVersions() (versions []string) {
	for _, one := range g.policies.Policies() {
		if v := one.Config().Settle.Meter.PriceVersion(); v != "" && !slices.Contains(versions, v) {
			versions = append(versions, v)
		}
	}
	return versions
}

// listing returns the policies in the form of /v1/policies.
func (g *generation) listing() any {
	type entry struct {
		Name   string   `json:"name"`
		Mode   string   `json:"mode"`
		Key    []string `json:"key"`
		Limits []string `json:"limits"`
	}
	all := []entry{}
	for _, one := range g.policies.Policies() {
		c := one.Config()
		e := entry{Name: c.Name, Mode: string(c.Mode)}
		for _, k := range c.Key {
			e.Key = append(e.Key, k.String())
		}
		for _, limit := range c.Limits {
			e.Limits = append(e.Limits, limit.String())
		}
		all = append(all, e)
	}
	return map[string]any{"from": g.source, "policies": all}
}

// routes returns the routes of the gateway: those of c or, in the demo, one to upstream.
func routes(c *config.Config, upstream *listener) []gateway.Route {
	if upstream != nil {
		return []gateway.Route{{Upstream: upstream.url()}}
	}
	var all []gateway.Route
	for _, r := range c.Gateway.Routes {
		all = append(all, gateway.Route{Host: r.Host, Path: r.Path, Upstream: r.Upstream.String(), Timeout: r.Timeout})
	}
	return all
}

// rateLimits returns the limits of the gRPC interface; nil if there are none. It requires mu.
func (r *reloader) rateLimits(c *config.Config) (*ratelimit.Config, error) {
	limits, err := r.readLimits(c)
	if domains := c.GRPC.QuotaService.Domains; err == nil && len(domains) > 0 {
		err = rlqs.Check(limits, domains)
	}
	return limits, err
}

// readLimits reads the configuration of the gRPC interface, or returns the one that a control plane
// sent; nil if there is none. It requires mu.
func (r *reloader) readLimits(c *config.Config) (*ratelimit.Config, error) {
	switch {
	case c.RateLimit != nil && c.RateLimit.XDS != nil:
		return r.received, nil
	case c.GRPC.Config != "" && c.GRPC.MergeDomains:
		return ratelimit.LoadMerged(c.GRPC.Config)
	case c.GRPC.Config != "":
		return ratelimit.Load(c.GRPC.Config)
	case c.Demo():
		return ratelimit.Parse("demo-ratelimit.yaml", config.DemoRateLimits())
	}
	return nil, nil
}
