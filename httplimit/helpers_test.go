package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// canceling returns a store that fails requests whose context has ended.
func canceling(store weir.Store) weir.Store {
	return fakestore.Around(store, func(ctx context.Context, _ *weir.Request) error { return ctx.Err() }, nil)
}

// set returns a set of policies, whose default key is the client's address.
func set(t testing.TB, cs ...policy.Config) *policy.Set {
	t.Helper()
	var ps []*policy.Policy
	for _, c := range cs {
		if c.Key == nil {
			c.Key = []policy.KeyPart{{Source: policy.ClientIP}}
		}
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

func limits(texts ...string) []weir.Limit {
	var ls []weir.Limit
	for _, text := range texts {
		ls = append(ls, weir.MustLimit(text))
	}
	return ls
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })

// wrap returns hello behind the policies of s.
func wrap(t testing.TB, store weir.Store, s *policy.Set, c httplimit.Config) http.Handler {
	t.Helper()
	m, err := httplimit.New(store, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return m.Wrap(hello)
}

// get sends a GET of target from the peer at addr to h.
func get(h http.Handler, target, addr string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.RemoteAddr = addr
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// recording returns a store that admits every request, and the keys that it received.
func recording() (weir.Store, map[string]bool) {
	keys := map[string]bool{}
	return fakestore.Store{One: func(_ context.Context, r weir.Request) (weir.Decision, error) {
		keys[r.Key] = true
		return weir.Decision{OK: true, Limit: r.Limit}, nil
	}}, keys
}

// serving returns h behind the policies of s.
func serving(t testing.TB, store weir.Store, s *policy.Set, c httplimit.Config, h http.HandlerFunc) http.Handler {
	t.Helper()
	m, err := httplimit.New(store, s, c)
	if err != nil {
		t.Fatal(err)
	}
	return m.Wrap(h)
}

// observed makes c record its events as policy, outcome and degraded mode. The returned function
// returns and clears the record.
func observed(c *httplimit.Config) (events func() []string) {
	var mu sync.Mutex
	var noted []string
	c.Observe = func(_ *http.Request, e enforce.Event) {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprint(e.Policy.Name(), " ", e.Outcome)
		if e.Shadow {
			text += " shadow"
		}
		if e.Decision.Degraded != "" {
			text += fmt.Sprint(" ", e.Decision.Degraded)
		}
		if e.Err != nil {
			text += " error"
		}
		noted = append(noted, text)
	}
	return func() []string {
		mu.Lock()
		defer mu.Unlock()
		events := noted
		noted = nil
		return events
	}
}

// charged returns the tokens that the peer of get has taken of a limit of policy.
func charged(t testing.TB, store weir.Store, policy, limit string) int64 {
	t.Helper()
	l := fakestore.PolicyLimit(t, limit)
	d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: policy + "|11:203.0.113.7", Limit: l, N: 1})
	if err != nil {
		t.Fatal(err)
	}
	return l.Capacity() - d.Remaining
}
