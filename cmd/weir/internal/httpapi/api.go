package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// Config describes an API. Store is required.
type Config struct {
	// Store decides.
	Store weir.Store

	// Policies are those that a question may name; none if nil.
	Policies *policy.Set

	// Previous is the API that this one replaces; none if nil. A key carries what it owes
	// under limits that changed over to those of Policies (see policy.Set.Following).
	Previous *API

	// Fields are the response fields to send; httplimit.DefaultFields if zero.
	Fields httplimit.Fields

	// Auth answers /v1/auth, whatever the method; nobody does if nil. What it is asked
	// holds the headers of a proxy's client, so that it may look like the request of a
	// page of another origin, and is let through all the same.
	Auth http.Handler

	// Extra are further handlers by patterns of http.ServeMux, such as "POST /json". They
	// may not take a path of the API.
	Extra map[string]http.Handler

	// Ready is asked by /readyz; always ready if nil.
	Ready func(context.Context) []Check

	// Log is where it is said that the store could not decide a question, at most once a
	// second; nowhere if nil.
	Log *slog.Logger
}

// An API is an http.Handler, safe for concurrent use.
type API struct {
	store      weir.Store
	policies   map[string]*keyedPolicy
	ready      func(context.Context) []Check
	fields     httplimit.Fields
	log        *slog.Logger
	lastLogged atomic.Int64 // when the log was last told of a question, in s
	handler    http.Handler
}

// New makes an API.
func New(c Config) (*API, error) {
	if c.Store == nil {
		return nil, errors.New("httpapi: store: want a store, got nil")
	}
	a := &API{store: c.Store, policies: map[string]*keyedPolicy{}, ready: c.Ready, fields: c.Fields, log: c.Log}
	if a.ready == nil {
		a.ready = noChecks
	}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if c.Policies != nil {
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
	a.handler, err = a.mux(c)
	return a, err
}

// ServeHTTP implements [http.Handler].
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.handler.ServeHTTP(w, r) }
