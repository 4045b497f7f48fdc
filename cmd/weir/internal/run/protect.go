package run

import (
	"encoding/json"
	"fmt"
	"net/url"

	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/protect"
)

// protect adds the protections of the file to routes, which have the order of the file. Routes to
// one upstream with equal settings share theirs, and a reload keeps those that do not change.
func (r *reloader) protect(g *generation, routes []gateway.Route) error {
	g.protections = map[string][]protect.Protection{}
	var old map[string][]protect.Protection
	if last := r.current.Load(); last != nil {
		old = last.protections
	}
	for i, from := range g.config.Gateway.Routes {
		if from.Protections == (guard.Settings{}) || i >= len(routes) {
			continue
		}
		upstream := (&url.URL{Scheme: from.Upstream.Scheme, Host: from.Upstream.Host}).String()
		settings, err := json.Marshal(from.Protections)
		if err != nil {
			return err
		}
		id := upstream + " " + string(settings)
		all, ok := g.protections[id]
		if !ok {
			if all, ok = old[id]; !ok {
				if all, err = failsafe.ForRequests(upstream, from.Protections); err != nil {
					return fmt.Errorf("gateway.routes[%d]: %w", i, err)
				}
			}
			g.protections[id] = all
		}
		routes[i].Protect = httplimit.Protect(httplimit.ProtectConfig{
			Chain:       protect.New(protect.Config{Protections: all, Observe: r.observers.metrics.Protection(upstream)}),
			RetryJitter: g.config.Gateway.RetryJitter,
		})
	}
	return nil
}
