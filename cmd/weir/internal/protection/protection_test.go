package protection_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/protection"
	"github.com/floodweir/weir/weirfile"
)

const file = `
system:
  inflight: 4
  exempt: /healthz
  priorities:
    - { name: critical, match: /pay/*, shed_at: 100 }
    - { name: batch, match: { headers: { X-Class: batch } }, shed_at: 50 }
gateway:
  routes:
    - { path: /, upstream: "http://a", breaker: { failures: 1 } }
    - { path: /same, upstream: "http://a/same", breaker: { failures: 1 } }
    - { path: /other, upstream: "http://b" }
`

func build(t *testing.T, text string, previous *protection.Set, refused *[]string) *protection.Set {
	t.Helper()
	f, err := weirfile.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	s, err := protection.New(protection.Config{
		Routes: f.Gateway.Routes, Rules: f.System, Previous: previous, Missing: func(string, error) {},
		Observe: func(upstream string) func(string, bool) {
			return func(name string, _ bool) { *refused = append(*refused, upstream+" "+name) }
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func serve(s *protection.Set, route int, r *http.Request, inside func(w http.ResponseWriter)) (status int, body string) {
	w := httptest.NewRecorder()
	s.Route(route)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { inside(w) })).ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// TestReload checks that routes to one upstream share a breaker, and that a reload keeps it unless
// its settings change.
func TestReload(t *testing.T) {
	var refused []string
	s := build(t, file, nil, &refused)
	request := httptest.NewRequest("GET", "/", nil)
	ok := func(http.ResponseWriter) {}
	serve(s, 0, request, func(w http.ResponseWriter) { w.WriteHeader(500) })
	for _, s := range []*protection.Set{s, build(t, file, s, &refused)} {
		if status, body := serve(s, 1, request, ok); status != 503 || !strings.Contains(body, `"protection":"breaker"`) {
			t.Errorf("same upstream: %d %s, want 503 of the breaker", status, body)
		}
		if status, _ := serve(s, 2, request, ok); status != 200 {
			t.Errorf("other upstream: %d, want 200", status)
		}
	}
	if changed := build(t, strings.ReplaceAll(file, "failures: 1", "failures: 2"), s, &refused); changed.System() != s.System() {
		t.Error("the system rules are new, want those in force")
	} else if status, _ := serve(changed, 1, request, ok); status != 200 {
		t.Errorf("other settings: %d, want 200", status)
	}
	if got := strings.Join(refused, ", "); got != "http://a breaker, http://a breaker" {
		t.Errorf("refused: %s", got)
	}
	if build(t, "gateway: { routes: [{ upstream: \"http://a\" }] }", nil, &refused).Route(0) != nil {
		t.Error("a route without protections has a middleware")
	}
}

// TestPriorities checks how many requests of each class may be in flight.
func TestPriorities(t *testing.T) {
	var refused []string
	s := build(t, file, nil, &refused)
	most := func(path, class string) (n int) {
		var nested func(w http.ResponseWriter)
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Class", class)
		nested = func(http.ResponseWriter) {
			if n++; n < 10 {
				serve(s, 2, r, nested)
			}
		}
		serve(s, 2, r, nested)
		return n
	}
	for _, c := range []struct {
		path, class string
		want        int
	}{{"/", "batch", 2}, {"/", "", 3}, {"/pay/1", "batch", 4}, {"/healthz", "batch", 10}} {
		if got := most(c.path, c.class); got != c.want {
			t.Errorf("%s %s: %d in flight, want %d", c.path, c.class, got, c.want)
		}
	}
}
