// Package fakeprotect has a protection for the tests of interfaces.
package fakeprotect

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir/protect"
)

// A Resource is a protect.Protection that records the results of requests.
type Resource struct {
	Kind   string // its name
	Whole  bool   // it holds a request until the end
	Refuse error  // it refuses every request

	entered atomic.Bool
	results chan string
}

// New returns a Resource with a name.
func New(name string) *Resource { return &Resource{Kind: name, results: make(chan string, 10)} }

// Name implements protect.Protection.
func (r *Resource) Name() string { return r.Kind }

// State implements protect.Protection.
func (r *Resource) State() string { return "" }

// WholeRequest implements protect.Whole.
func (r *Resource) WholeRequest() bool { return r.Whole }

// Enter implements protect.Protection.
func (r *Resource) Enter(_ context.Context, class string) (func(error), error) {
	r.entered.Store(true)
	if r.Refuse != nil {
		return nil, r.Refuse
	}
	return func(err error) {
		switch {
		case errors.Is(err, protect.ErrCanceled):
			r.results <- class + "not made"
		case errors.Is(err, context.Canceled):
			r.results <- class + "canceled"
		case err != nil:
			r.results <- class + "failed"
		default:
			r.results <- class + "ok"
		}
	}, nil
}

// Want waits for the next results, each after the class of its request: "ok", "failed", "canceled",
// or "not made".
func (r *Resource) Want(t *testing.T, want ...string) {
	t.Helper()
	for i, text := range want {
		if got := <-r.results; got != text {
			t.Errorf("result %d of %s: %q, want %q", i, r.Kind, got, text)
		}
	}
}

// Entered reports whether there was a request.
func (r *Resource) Entered() bool { return r.entered.Load() }

// Ended waits for a result, whatever it is.
func (r *Resource) Ended() { <-r.results }

// None checks that there is no result yet.
func (r *Resource) None(t *testing.T) {
	t.Helper()
	if len(r.results) > 0 {
		t.Errorf("result of %s: %q, want none", r.Kind, <-r.results)
	}
}
