package enforce_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// A request has the attributes of a call without allocations.
type request struct {
	call
	method string
	header []string
}

func by(user, method string) *request { return &request{call{user}, method, []string{user}} }

func (r *request) Method() string { return r.method }

func (r *request) Header(name string) []string {
	if name == "User" {
		return r.header
	}
	return nil
}

// bubble runs a test in virtual time with a memory store.
func bubble(t *testing.T, f func(t *testing.T, store *memstore.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		f(t, s)
	})
}

// after waits for d.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// about returns a policy for the user of a call.
func about(name string, limit ...string) policy.Config {
	c := policy.Config{Name: name, Key: []policy.KeyPart{{Source: policy.Header, Name: "User"}}}
	for _, l := range limit {
		c.Limits = append(c.Limits, weir.MustLimit(l))
	}
	return c
}

// set returns a set of policies.
func set(t testing.TB, cs ...policy.Config) *policy.Set {
	t.Helper()
	var ps []*policy.Policy
	for _, c := range cs {
		p, err := policy.New(c)
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	s, err := policy.NewSet(ps...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open returns an Enforcer.
func open(t testing.TB, store weir.Store, c enforce.Config, cs ...policy.Config) *enforce.Enforcer {
	t.Helper()
	e, err := enforce.New(store, set(t, cs...), c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// enter sends a request of ada.
func enter(t testing.TB, e *enforce.Enforcer, p *enforce.Admission) enforce.Outcome {
	t.Helper()
	return e.Enter(t.Context(), by("ada", ""), p)
}

// taken returns the tokens that are taken of a limit.
func taken(t testing.TB, store weir.Store, policy, limit string) int64 {
	t.Helper()
	l := fakestore.PolicyLimit(t, limit)
	d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: policy + "|3:ada", Limit: l, N: 1})
	if err != nil {
		t.Fatal(err)
	}
	return l.Capacity() - d.Remaining
}

// observed makes c record its events. The returned function returns those since its last
// call.
func observed(c *enforce.Config) (events func() []string) {
	var mu sync.Mutex
	var noted []string
	c.Observe = func(_ context.Context, a policy.Attributes, event enforce.Event) {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprint(a.(*request).user, " ", event.Policy.Name(), " ", event.Outcome)
		if event.Shadow {
			text += " shadow"
		}
		if event.Decision.Degraded != "" {
			text += fmt.Sprint(" ", event.Decision.Degraded)
		}
		if event.Err != nil {
			text += " error"
		}
		noted = append(noted, text)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		got := noted
		noted = nil
		return got
	}
}

// same checks a list of texts.
func same(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s = %q, want %q", what, got, want)
	}
}
