package run

import (
	"context"
	"errors"
	"net/http"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/adjustment"
	"github.com/floodweir/weir/cmd/weir/internal/admin"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/operate"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/policy"
)

// openOperations opens the audit log and the adjustments, and reads those of the store. If the store
// does not return them in time, the program starts without them.
func (p *Program) openOperations(ctx context.Context) error {
	conn := p.stores.inRedis()
	log := p.log.With("interface", "admin")
	var err error
	if p.audit, err = audit.New(audit.Config{Conn: conn, Log: log, Names: p.observers.names}); err != nil {
		return err
	}
	c := adjustment.Config{Conn: conn, Audit: p.audit, Changed: p.reloader.adjust, Log: log}
	if conn == nil && p.stores.server != nil {
		c.Refused = problem.Invalid("store", config.Redacted(p.config.Store), "a Redis: it shares adjustments of keys among all processes, and PostgreSQL does not")
	}
	p.reloader.adjustments = adjustment.New(c)
	p.reloader.adjusting.Set(0, adjustment.ForPrograms(nil))
	if err := p.reloader.adjustments.Load(ctx); err != nil {
		log.Error("adjustments of keys unavailable: starting without them", "error", err)
	}
	return nil
}

// operations returns the routes for what an operator does with single keys.
func (p *Program) operations() []admin.Route {
	o := operate.New(operate.Config{
		Store: p.stores.main, Policies: func() *policy.Set { return p.ready.current().policies },
		Adjustments: p.reloader.adjustments, Audit: p.audit, Names: p.observers.names, Resolve: p.live.Key, History: p.live.History, NotAdjusting: p.live.NotAdjusting,
	})
	return []admin.Route{
		{Pattern: "POST /v1/key", Summary: "the state of a key, without consuming tokens", Role: access.Read, Handler: http.HandlerFunc(o.Show)},
		{Pattern: "POST /v1/key/{action}", Summary: "credit, reset, raise, freeze, block or lift a key", Role: access.Operate, Handler: http.HandlerFunc(o.Act)},
		{Pattern: "GET /v1/adjustments", Summary: "the keys that are raised, frozen or blocked", Role: access.Read, Handler: http.HandlerFunc(o.List)},
		{Pattern: "GET /v1/audit", Summary: "who changed what", Role: access.Read, Handler: http.HandlerFunc(o.Entries)},
	}
}

// adjust applies the adjustments to the requests that begin from now on. The gateway keeps its
// connections.
func (r *reloader) adjust() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adjusting.Set(0, adjustment.ForPrograms(r.adjustments.Current()))
	old := r.current.Load()
	if old == nil {
		return // the first generation will have them
	}
	g := *old
	g.policies = r.adjusted(old.policies)
	for _, m := range g.middlewares {
		if err := m.SetPolicies(g.policies); err != nil { // impossible: the policies are those of before
			r.log.Error("adjustments not in force", "error", err)
			return
		}
	}
	g.api.Adjust(g.policies)
	r.current.Store(&g)
}

// adjusted returns set with the adjustments. It logs those that do not fit it.
func (r *reloader) adjusted(set *policy.Set) *policy.Set {
	return r.withAdjustments(set, func(err error) {
		text := err.Error()
		r.log.Warn("adjustments not in force: see weir key list", "first", text[:min(len(text), 500)])
	})
}

// withAdjustments returns set with the adjustments. It calls invalid, if it is not nil, with the
// errors of those that do not fit it.
func (r *reloader) withAdjustments(set *policy.Set, invalid func(error)) *policy.Set {
	if r.adjustments == nil {
		return set
	}
	current := r.adjustments.Current()
	all, errs := make([]policy.Adjustment, 0, len(current)), []error(nil)
	for i := len(current) - 1; i >= 0; i-- { // the newest of a key is last
		a, err := current[i].ForSet()
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, a)
	}
	set, err := set.WithAdjustments(all)
	if err = errors.Join(append(errs, err)...); err != nil && invalid != nil {
		invalid(err)
	}
	return set
}
