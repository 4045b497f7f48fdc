package run

import (
	"fmt"
	"net/http"

	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// A generation is what one reading of the configuration made: all that a reload
// replaces. Requests that were admitted under one end under it; those that wait
// go by the next.
type generation struct {
	config   *config.Config
	policies *policy.Set // they follow those of the generation before
	source   string      // where the policies come from, in words
	limits   *ratelimit.Config
	gateway  *gateway.Gateway // nil without routes
	api      *httpapi.API

	doors map[string]*httplimit.Middleware // by name
}

// build makes a generation of c and of the other files that it names.
func (p *Program) build(c *config.Config, v *version) (*generation, error) {
	limits, err := p.rateLimits(c)
	if err != nil {
		return nil, err
	}
	return p.assemble(c, limits, v)
}

// assemble makes a generation of c and limits, and opens nothing. The policies are those
// of v, if it is not nil, and else those of the file.
func (p *Program) assemble(c *config.Config, limits *ratelimit.Config, v *version) (*generation, error) {
	g := &generation{config: c, policies: c.Policies, source: "the demonstration", limits: limits, doors: map[string]*httplimit.Middleware{}}
	if !c.Demo() {
		g.source = c.File
	}
	if v != nil {
		g.policies, g.source = v.policies, fmt.Sprintf("version %d in the store", v.number)
	}
	if old := p.current.Load(); old != nil {
		g.policies = g.policies.WithPrevious(old.policies)
	}
	var err error
	if g.api, err = p.newAPI(g); err != nil {
		return nil, err
	}
	if routes := p.routes(c); len(routes) > 0 {
		if g.gateway, err = p.newGateway(g, routes); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// adopt puts g into force for every request that begins from now on.
func (p *Program) adopt(g *generation) {
	old := p.current.Swap(g)
	if old != nil {
		for name, m := range old.doors {
			m.Replace(g.doors[name]) // or what waits under the old limits would find them as if never used
		}
	}
	if p.rls != nil && (old == nil || !g.limits.Equal(old.limits)) {
		p.rls.Use(g.limits)
		p.nameHits(g.limits)
	}
	p.metrics.Reloaded(g.source, g.policies, nil)
	if old != nil && old.gateway != nil {
		old.gateway.Close() // what is in use ends with its request
	}
}

// serveAPI and serveGateway hand a request to the generation in force.
func (p *Program) serveAPI(w http.ResponseWriter, r *http.Request) {
	p.current.Load().api.ServeHTTP(w, r)
}

func (p *Program) serveGateway(w http.ResponseWriter, r *http.Request) {
	p.current.Load().gateway.ServeHTTP(w, r)
}
