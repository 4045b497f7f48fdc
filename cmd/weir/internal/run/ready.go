package run

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
)

const (
	probeTimeout  = time.Second
	probeInterval = time.Second // at most one probe in this time, however many requests /readyz gets
)

// readiness is the state behind /readyz.
type readiness struct {
	store     weir.Store
	storeName string             // without a password
	current   func() *generation // in force
	problem   func() error       // with the configuration of the store; nil: none is checked
	degraded  bool               // a problem is a warning

	needsLimits bool        // of the gRPC interface, for /healthcheck
	available   func() bool // whether the store is, for /healthcheck; nil: not checked

	open     atomic.Bool              // all interfaces listen
	draining atomic.Bool              // the program is stopping
	refused  [3]atomic.Pointer[error] // by origin: the error of the last reload; nil after a success

	mu        sync.Mutex
	lastProbe httpapi.Check
	probedAt  time.Time
}

var probeLimit = weir.MustLimit("1/s")

// checks implements the Ready function of an httpapi.Config.
func (r *readiness) checks(ctx context.Context) []httpapi.Check {
	policies := httpapi.Check{Name: "policies", OK: true, Detail: r.current().String()}
	for _, refusal := range r.refusals() {
		policies.Detail += "; " + refusal
		policies.OK, policies.Warn = false, true
	}
	checks := []httpapi.Check{policies, r.probe(ctx)}
	if r.problem != nil {
		if err := r.problem(); err != nil {
			checks = append(checks, httpapi.Check{Name: "store_config", Warn: r.degraded, Detail: r.storeName + ": " + err.Error()})
		}
	}
	switch {
	case r.draining.Load():
		checks = append(checks, httpapi.Check{Name: "accepting", Detail: "the program is stopping"})
	case !r.open.Load():
		checks = append(checks, httpapi.Check{Name: "accepting", Detail: "the program is starting"})
	}
	return checks
}

// refusals returns why the last reload of each origin failed, without those that succeeded.
func (r *readiness) refusals() (all []string) {
	for i := range r.refused {
		if err := r.refused[i].Load(); err != nil {
			first, more, _ := strings.Cut((*err).Error(), "\n")
			if more != "" {
				first += " (and more)"
			}
			all = append(all, "last reload failed: "+first)
		}
	}
	return all
}

// An origin is a source of policies. A successful reload from one origin does not clear
// the error of another.
type origin int

const (
	fromFile origin = iota
	fromStore
	fromControlPlane
)

// reloaded records the result of a reload.
func (r *readiness) reloaded(from origin, err error) {
	if err == nil {
		r.refused[from].Store(nil)
		return
	}
	r.refused[from].Store(&err)
}

// probe sends a Peek to the store, which changes no state. All callers within
// probeInterval share one result.
func (r *readiness) probe(ctx context.Context) httpapi.Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.probedAt) >= probeInterval {
		// A client that disconnects must not look like a store that fails.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		r.lastProbe = httpapi.Check{Name: "store", OK: true, Detail: r.storeName}
		if _, err := r.store.Do(ctx, weir.Request{Verb: weir.Peek, Key: "weir:ready", Limit: probeLimit}); err != nil {
			r.lastProbe.OK, r.lastProbe.Detail = false, r.storeName+": "+err.Error()
		}
		r.probedAt = now
	}
	c := r.lastProbe
	c.Warn = !c.OK && r.current().worksWithoutStore()
	return c
}
