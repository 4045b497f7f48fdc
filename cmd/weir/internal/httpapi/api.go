package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// Config is the configuration of an API. Store is required.
type Config struct {
	// Store decides the requests.
	Store weir.Store

	// Policies are the policies that requests may name; none if nil.
	Policies *policy.Set

	// Previous is the API that this one replaces; none if nil. When the limits of a
	// policy change, keys carry over their state (see policy.Set.WithPrevious).
	Previous *API

	// Fields selects the response fields; httplimit.DefaultFields if zero.
	Fields httplimit.Fields

	// Auth handles /v1/auth with every method; the path does not exist if nil. Its
	// requests carry the header fields of a proxy's client, so they may look like those
	// of a page of another origin, and are not refused for it.
	Auth http.Handler

	// Extra holds further handlers by pattern of http.ServeMux, such as "POST /json".
	// They may not use a path of the API.
	Extra map[string]http.Handler

	// Ready returns the checks of /readyz; no checks if nil.
	Ready func(context.Context) []Check

	// Observe, if not nil, is called for each decision of take, take_up_to and reserve. A batch has
	// an event for each request that names a policy, and one without a Policy for all others.
	Observe func(enforce.Event)

	// Log receives errors of the store, at most one per second; nothing is logged if nil.
	Log *slog.Logger
}

// An API is an http.Handler, safe for concurrent use.
type API struct {
	store      weir.Store
	policies   map[string]*keyedPolicy
	limits     *limitCache
	adjusted   atomic.Pointer[policy.Set] // has the adjustments of all policies; nil: none
	ready      func(context.Context) []Check
	fields     httplimit.Fields
	observe    func(enforce.Event)
	log        *slog.Logger
	lastLogged atomic.Int64 // Unix time of the last store error in the log, in s
	mux        *http.ServeMux
	origins    http.CrossOriginProtection
	auth       bool // authPath is served
}

// New returns an API.
func New(c Config) (*API, error) {
	if c.Store == nil {
		return nil, errors.New("httpapi: store: want a store, got nil")
	}
	a := &API{store: c.Store, policies: map[string]*keyedPolicy{}, limits: newLimitCache(), ready: c.Ready, fields: c.Fields, observe: c.Observe, log: c.Log, auth: c.Auth != nil}
	if a.ready == nil {
		a.ready = noChecks
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if c.Policies != nil {
		a.adjusted.Store(c.Policies)
		for _, p := range c.Policies.Policies() {
			n, err := newKeyedPolicy(p)
			if err != nil {
				return nil, fmt.Errorf("httpapi: policy %s: %w", p.Name(), err)
			}
			if c.Previous != nil && c.Previous.policies[p.Name()] != nil {
				n.set = n.set.WithPrevious(c.Previous.policies[p.Name()].set)
			}
			a.policies[p.Name()] = n
		}
	}
	var err error
	a.mux, err = a.newMux(c)
	return a, err
}

// Adjust applies the adjustments of set to the requests that begin from now on.
func (a *API) Adjust(set *policy.Set) { a.adjusted.Store(set) }

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.fromPage(r) && !(a.auth && r.URL.Path == authPath) {
		problem.Write(w, problem.Problem{Status: http.StatusForbidden, Detail: "requests of web pages are refused"})
		return
	}
	a.mux.ServeHTTP(w, r)
}
