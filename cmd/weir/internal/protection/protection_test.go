package protection_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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

// TestGallery checks what the protections of the gallery reject, in virtual time.
func TestGallery(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/gallery/37-slow-upstream.yaml")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var refused []string
		s := build(t, string(text), nil, &refused)
		batch := httptest.NewRequest("GET", "/", nil)
		batch.Header.Set("X-Class", "batch")
		// during sends a request for each status that the upstream returns after a time, and then others.
		during := func(takes time.Duration, statuses []int, others ...*http.Request) (got []string) {
			t.Helper()
			for _, status := range statuses {
				go serve(s, 0, httptest.NewRequest("GET", "/", nil), func(w http.ResponseWriter) {
					time.Sleep(takes)
					w.WriteHeader(status)
				})
			}
			synctest.Wait()
			for _, r := range others {
				_, body := serve(s, 0, r, func(http.ResponseWriter) {})
				_, name, _ := strings.Cut(body, `"protection":"`)
				got = append(got, strings.TrimSuffix(name, "\"}\n"))
			}
			time.Sleep(takes)
			synctest.Wait()
			return got
		}
		of := func(n, status int) []int { return slices.Repeat([]int{status}, n) }
		other := httptest.NewRequest("GET", "/", nil)
		for _, tc := range []struct {
			name     string
			takes    time.Duration
			statuses []int
			others   []*http.Request
			want     string
		}{
			{"a usual load", 100 * time.Millisecond, of(50, 200), []*http.Request{other, batch}, "[ ]"},
			{"more than a fifth in flight", 100 * time.Millisecond, of(60, 200), []*http.Request{other, batch}, "[ inflight]"},
			{"all slots in use", 100 * time.Millisecond, of(100, 200), []*http.Request{other}, "[bulkhead]"},
		} {
			if got := fmt.Sprint(during(tc.takes, tc.statuses, tc.others...)); got != tc.want {
				t.Errorf("%s: refused by %s, want %s", tc.name, got, tc.want)
			}
			time.Sleep(10 * time.Second)
		}
		after := func(want string) {
			t.Helper()
			if got := fmt.Sprint(during(0, nil, other)); got != want {
				t.Errorf("%v: refused by %s, want %s", time.Now(), got, want)
			}
		}
		during(0, of(9, 200))
		during(time.Second, of(11, 200)) // 55 % are slow
		after("[]")
		time.Sleep(10 * time.Second)
		during(time.Second, of(20, 200))
		after("[breaker]")
		time.Sleep(10 * time.Second)
		for range 3 {
			after("[]") // a trial
		}
		during(0, of(20, 500))
		after("[breaker]")
		time.Sleep(10 * time.Second)
		for range 3 {
			after("[]")
		}
	})
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

// TestStates checks the list of the protections, and the time for which a breaker is still open.
func TestStates(t *testing.T) {
	var refused []string
	s := build(t, file, nil, &refused)
	states := func() string {
		w := httptest.NewRecorder()
		protection.States(func() *protection.Set { return s }).ServeHTTP(w, httptest.NewRequest("GET", "/v1/upstreams", nil))
		return strings.TrimSpace(w.Body.String())
	}
	if got := states(); !strings.HasPrefix(got, `{"upstreams":[{"upstream":"http://a","route":"/","protections":[{"name":"breaker","state":"closed","open_ms":0}]}`) {
		t.Errorf("%s, want a closed breaker", got)
	}
	serve(s, 0, httptest.NewRequest("GET", "/", nil), func(w http.ResponseWriter) { w.WriteHeader(500) })
	if got := states(); !strings.Contains(got, `"state":"open","open_ms":`) || strings.Contains(got, `"open_ms":0`) {
		t.Errorf("%s, want an open breaker with its time", got)
	}
	if s = nil; states() != `{"upstreams":[]}` {
		t.Errorf("%s without routes, want none", states())
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
