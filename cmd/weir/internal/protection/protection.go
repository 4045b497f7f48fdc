// Package protection makes the protections of the gateway from a policy file, and keeps them over
// reloads.
package protection

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/protect"
	"github.com/floodweir/weir/weirfile"
)

// A Config configures a Set. Routes and Rules are those of the file.
type Config struct {
	Routes      []weirfile.Route
	Rules       *weirfile.SystemRules // nil for none
	Client      httplimit.ClientAddress
	RetryJitter time.Duration

	// Previous is the Set in force, whose protections are kept if their settings do not change;
	// nil if there is none.
	Previous *Set

	// Observe returns the function that is called for each refusal at an upstream.
	Observe func(upstream string) func(protection string, shadow bool)

	// Missing is called when a metric of a rule becomes unavailable, or available with nil.
	Missing func(metric string, err error)
}

// A Set holds the protections of the routes of a file.
type Set struct {
	c         Config
	system    *protect.System                 // nil without rules
	upstreams map[string][]protect.Protection // by origin and settings
	measured  []measured
	routes    []func(http.Handler) http.Handler
}

// A measured is an entry of upstreams.
type measured struct{ id, name, route string }

// New returns a Set. Routes to one upstream with equal settings share protections. The system
// rules come first.
func New(c Config) (*Set, error) {
	s := &Set{c: c, upstreams: map[string][]protect.Protection{}}
	if err := s.makeSystem(); err != nil {
		return nil, err
	}
	for i, r := range c.Routes {
		upstream := (&url.URL{Scheme: r.Upstream.Scheme, Host: r.Upstream.Host}).String()
		all, err := s.upstream(upstream, r.Host+r.Path, r.Protections)
		if err != nil {
			return nil, fmt.Errorf("gateway.routes[%d]: %w", i, err)
		}
		s.routes = append(s.routes, s.wrap(upstream, all))
	}
	s.c.Previous = nil
	return s, nil
}

// Route returns the middleware of a route of the file by its index; nil if there is nothing to
// protect. A nil Set has none.
func (s *Set) Route(i int) func(http.Handler) http.Handler {
	if s == nil || i >= len(s.routes) {
		return nil
	}
	return s.routes[i]
}

// System returns the system rules, or nil.
func (s *Set) System() *protect.System {
	if s == nil {
		return nil
	}
	return s.system
}

// Upstreams calls f with the protections of each upstream and the first route that has them.
func (s *Set) Upstreams(f func(upstream, route string, all []protect.Protection)) {
	if s == nil {
		return
	}
	for _, u := range s.measured {
		f(u.name, u.route, s.upstreams[u.id])
	}
}

// wrap returns the middleware of a route.
func (s *Set) wrap(upstream string, all []protect.Protection) func(http.Handler) http.Handler {
	c := httplimit.ProtectConfig{RetryJitter: s.c.RetryJitter}
	if rules := s.c.Rules; rules != nil {
		all = slices.Concat(s.system.Protections(rules.Shadow), all)
		if len(rules.Classes.Policies()) > 0 {
			c.Class = httplimit.Classify(rules.Classes, s.c.Client)
			c.Exempt = func(r *http.Request) bool { return c.Class(r) == weirfile.ExemptClass }
		}
	}
	if len(all) == 0 {
		return nil
	}
	c.Chain = protect.New(protect.Config{Protections: all, Observe: s.c.Observe(upstream)})
	return httplimit.Protect(c)
}

// upstream returns the protections of an upstream with the settings of a route.
func (s *Set) upstream(origin, route string, settings guard.Settings) ([]protect.Protection, error) {
	if settings == (guard.Settings{}) {
		return nil, nil
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return nil, err
	}
	id := origin + " " + string(text)
	all, ok := s.upstreams[id]
	if !ok {
		s.measured = append(s.measured, measured{id, origin, route})
	}
	if !ok && s.c.Previous != nil {
		all, ok = s.c.Previous.upstreams[id]
	}
	if !ok {
		if all, err = failsafe.ForRequests(origin, settings); err != nil {
			return nil, err
		}
	}
	s.upstreams[id] = all
	return all, nil
}

// makeSystem makes the system rules, or keeps those in force.
func (s *Set) makeSystem() error {
	rules := s.c.Rules
	if rules == nil {
		return nil
	}
	if old := s.c.Previous; old != nil && old.c.Rules != nil && old.c.Rules.Equal(rules) {
		s.system = old.system
		return nil
	}
	c := protect.SystemConfig{CPU: rules.CPU, Memory: rules.Memory, Load: rules.Load, InFlight: rules.InFlight, Missing: s.c.Missing}
	for _, one := range rules.Priorities {
		c.Classes = append(c.Classes, protect.Class{Name: one.Name, ShedAt: one.ShedAt})
	}
	var err error
	if s.system, err = protect.NewSystem(c); err != nil {
		return fmt.Errorf("system: %w", err)
	}
	return nil
}
