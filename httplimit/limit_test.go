package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/httplimit/limittest"
	"github.com/floodweir/weir/policy"
)

type userKey struct{}

// authenticate puts the header X-User into the context.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), userKey{}, r.Header.Get("X-User"))))
	})
}

func user(r *http.Request) string { return r.Context().Value(userKey{}).(string) }

func TestSuite(t *testing.T) {
	limittest.Run(t, limittest.Adapter{
		ServeLimit: func(t testing.TB, store weir.Store, limit string) string {
			text := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) })
			s := httptest.NewServer(authenticate(httplimit.Limit(store, limit, user)(text)))
			t.Cleanup(s.Close)
			return s.URL
		},
		Serve: func(t testing.TB, app limittest.App) string {
			mux := http.NewServeMux()
			for _, r := range app.Endpoints {
				var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = r.Handle().Write(w) })
				if r.Limit != nil {
					h = r.Limit.Wrap(h)
				}
				mux.Handle(r.Method+" "+r.Path, h)
			}
			h := app.Limit.Wrap(mux)
			if app.Protect.Chain != nil {
				h = httplimit.Protect(app.Protect)(h)
			}
			if app.Recover {
				h = recovering(h)
			}
			s := httptest.NewServer(h)
			t.Cleanup(s.Close)
			return s.URL
		},
	})
}

func recovering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			if recover() != nil {
				w.WriteHeader(500)
			}
		}()
		next.ServeHTTP(w, r)
	})
}

// TestKeyFunc checks a key function beside another part, in a policy.
func TestKeyFunc(t *testing.T) {
	store, _ := limittest.Store(t)
	m := limittest.Middleware(t, store, httplimit.Config{}, policy.Config{
		Name: "p", Limits: limittest.Limits("1/m"), Match: policy.Match{Paths: []string{"/a", "/b"}},
		Key: []policy.KeyPart{httplimit.KeyFunc(user), {Source: policy.Path}},
	})
	h := authenticate(m.Wrap(http.NotFoundHandler()))
	for i, c := range []struct {
		user, path string
		status     int
	}{{"alice", "/a", 404}, {"alice", "/a", 429}, {"alice", "/b", 404}, {"bob", "/a", 404}, {" bob ", "/a", 429}} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.Header.Set("X-User", c.user)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.status {
			t.Errorf("step %d: status %d, want %d", i, w.Code, c.status)
		}
	}
}

// TestLimitFunc checks a limit for each key that changes at run time, and what an error does.
func TestLimitFunc(t *testing.T) {
	store, advance := limittest.Store(t)
	limits := map[string]string{"alice": "2/m", "bob": "1/m", "": "1/m"}
	h := authenticate(httplimit.LimitFunc(store, func(_ context.Context, key string) (weir.Limit, error) {
		if limits[key] == "" {
			return weir.Limit{}, errors.New("no such tenant")
		}
		return weir.ParseLimit(limits[key])
	}, user)(http.NotFoundHandler()))
	long := strings.Repeat("x", 200) // longer than keys of policies, which are then hashes
	limits[long] = "1/m"
	for i, c := range []struct {
		user, remaining string
		status          int
	}{
		{"alice", "1", 404}, {"alice", "0", 404}, {"alice", "0", 429}, {"bob", "0", 404}, {"bob", "0", 429},
		{"", "0", 404}, {"", "0", 429}, {long, "0", 404}, {long, "0", 429}, {"mallory", "", 503},
		{"raise", "", 0}, {"alice", "2", 404}, {"alice", "1", 404}, {"alice", "0", 404}, {"alice", "0", 429},
		{"slots", "", 0}, {"alice", "", 503},
	} {
		switch c.user {
		case "raise":
			limits["alice"] = "4/m"
			advance(30 * time.Second)
			continue
		case "slots":
			limits["alice"] = "1 concurrency"
			continue
		}
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-User", c.user)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		degraded := w.Header().Get(httplimit.DegradedField) != ""
		if got := w.Header().Get("X-Ratelimit-Remaining"); w.Code != c.status || got != c.remaining || degraded != (c.remaining == "") {
			t.Errorf("step %d: status %d, remaining %q, degraded %v, want %d and %q", i, w.Code, got, degraded, c.status, c.remaining)
		}
	}
}

// TestLimitFuncRefuses checks the policies that a LimitFunc cannot replace the limits of.
func TestLimitFuncRefuses(t *testing.T) {
	store, _ := limittest.Store(t)
	f := func(context.Context, string) (weir.Limit, error) { return weir.MustLimit("1/s"), nil }
	for _, c := range []policy.Config{
		{Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: limittest.Limits("1/s")},
		{Key: []policy.KeyPart{httplimit.KeyFunc(user), {Source: policy.ClientIP}}, Limits: limittest.Limits("1/s")},
		{Key: []policy.KeyPart{httplimit.KeyFunc(user)}, Limits: limittest.Limits("1/s", "2/m")},
	} {
		c.Name = "p"
		p, err := policy.New(c)
		if err != nil {
			t.Fatal(err)
		}
		set, err := policy.NewSet(p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := httplimit.New(store, set, httplimit.Config{Options: enforce.Options{LimitFunc: f}}); !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "enforce: LimitFunc: policy p: ") {
			t.Errorf("New with key %v: error = %v, want an invalid LimitFunc", c.Key, err)
		}
	}
}

// TestByIP checks addresses as keys.
func TestByIP(t *testing.T) {
	behind := httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	for _, c := range []struct{ peer, forwarded, byIP, key string }{
		{"192.0.2.1:80", "203.0.113.7", "192.0.2.1", "192.0.2.1"},
		{"10.0.0.1:80", "203.0.113.7", "10.0.0.1", "203.0.113.7"},
		{"[2001:db8:1:2:3::4]:80", "", "2001:db8:1:2::/64", "2001:db8:1:2::/64"},
		{"[::ffff:192.0.2.1]:80", "", "192.0.2.1", "192.0.2.1"},
		{"@", "", "", ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := httplimit.ByIP(r); got != c.byIP {
			t.Errorf("ByIP(%s) = %q, want %q", c.peer, got, c.byIP)
		}
		if got := behind.Key(r); got != c.key {
			t.Errorf("Key(%s) = %q, want %q", c.peer, got, c.key)
		}
	}
}
