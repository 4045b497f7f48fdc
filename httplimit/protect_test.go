package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
)

// A resource is a Protection that records what it is asked and the results.
type resource struct {
	refuse error
	log    []string
}

func (p *resource) Name() string  { return "breaker" }
func (p *resource) State() string { return "closed" }

func (p *resource) Enter(ctx context.Context, class string) (func(error), error) {
	if p.refuse != nil {
		return nil, p.refuse
	}
	start := time.Now()
	return func(err error) {
		result := "ok"
		switch {
		case errors.Is(err, protect.ErrCanceled):
			result = "not made"
		case errors.Is(err, context.Canceled):
			result = "canceled"
		case err != nil:
			result = "failed"
		}
		p.log = append(p.log, fmt.Sprintf("%s%s after %v", class, result, protect.Took(ctx, start)))
	}, nil
}

// TestProtectResults checks which result of a request a protection gets, and when.
func TestProtectResults(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	for _, c := range []struct {
		name    string
		path    string
		ctx     context.Context
		body    io.Reader
		handler http.HandlerFunc
		want    []string
	}{
		{name: "stream", handler: func(w http.ResponseWriter, _ *http.Request) {
			<-time.After(time.Second)
			w.Write(nil)
			<-time.After(time.Hour)
		}, want: []string{"ok after 1s"}},
		{name: "early hints", handler: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusEarlyHints)
			<-time.After(time.Second)
			w.WriteHeader(http.StatusBadRequest)
		}, want: []string{"ok after 1s"}},
		{name: "flush", handler: func(w http.ResponseWriter, _ *http.Request) {
			http.NewResponseController(w).Flush()
			<-time.After(time.Second)
		}, want: []string{"ok after 0s"}},
		{name: "slow client", body: slowReader{}, handler: func(w http.ResponseWriter, r *http.Request) {
			io.ReadAll(r.Body)
			<-time.After(time.Second)
			w.WriteHeader(200)
		}, want: []string{"ok after 1s"}},
		{name: "no response", handler: func(http.ResponseWriter, *http.Request) { <-time.After(time.Second) }, want: []string{"ok after 1s"}},
		{name: "failure", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, want: []string{"failed after 0s"}},
		{name: "panic", handler: func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, want: []string{"failed after 0s"}},
		{name: "client disconnected", ctx: canceled, handler: func(w http.ResponseWriter, _ *http.Request) { cancel(); w.WriteHeader(502) }, want: []string{"canceled after 0s"}},
		{name: "class", path: "/pay", handler: func(http.ResponseWriter, *http.Request) {}, want: []string{"critical: ok after 0s"}},
		{name: "exempt", path: "/healthz", handler: func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := new(resource)
				h := httplimit.Protect(httplimit.ProtectConfig{
					Chain: protect.New(protect.Config{Protections: []protect.Protection{p}}),
					Class: func(r *http.Request) string {
						if r.URL.Path == "/pay" {
							return "critical: "
						}
						return ""
					},
					Exempt: func(r *http.Request) bool { return r.URL.Path == "/healthz" },
				})(c.handler)
				r := httptest.NewRequest("GET", "/"+strings.TrimPrefix(c.path, "/"), c.body)
				if c.ctx != nil {
					r = r.WithContext(c.ctx)
				}
				func() {
					defer func() { recover() }()
					h.ServeHTTP(httptest.NewRecorder(), r)
				}()
				if !slices.Equal(p.log, c.want) {
					t.Errorf("results %q, want %q", p.log, c.want)
				}
			})
		})
	}
}

// A slowReader ends after an hour.
type slowReader struct{}

func (slowReader) Read([]byte) (int, error) {
	<-time.After(time.Hour)
	return 0, io.EOF
}

// TestClassify checks that the first policy that matches names the class.
func TestClassify(t *testing.T) {
	var all []*policy.Policy
	for _, c := range []policy.Config{
		{Name: "critical", Match: policy.Match{Paths: []string{"/pay/*"}}},
		{Name: "batch", Match: policy.Match{Headers: map[string][]string{"X-Class": {"batch"}}}},
	} {
		c.Key, c.Limits = []policy.KeyPart{{Source: policy.Constant, Name: "all"}}, []weir.Limit{weir.MustLimit("1/s")}
		p, err := policy.New(c)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	set, err := policy.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	class := httplimit.Classify(set, httplimit.ClientAddress{})
	for path, want := range map[string]string{"/": "batch", "/pay/1": "critical"} {
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("X-Class", "batch")
		if got := class(r); got != want {
			t.Errorf("%s: class %q, want %q", path, got, want)
		}
	}
	if got := class(httptest.NewRequest("GET", "/", nil)); got != "" {
		t.Errorf("class %q, want the default", got)
	}
}

// TestProtectRejects checks the response to a rejected request, and that it costs no tokens.
func TestProtectRejects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &resource{refuse: &protect.Refused{Reason: errors.New("open"), RetryAfter: 10 * time.Second}}
		h := protected(t, p, "2/m")
		for range 5 {
			w := serve(h)
			retry := w.Header().Get("Retry-After")
			if w.Code != 503 || !strings.Contains(w.Body.String(), `problem-types#temporary-reduced-capacity"`) ||
				!strings.HasSuffix(w.Body.String(), `"status":503,"protection":"breaker"}`+"\n") || retry != "10" && retry != "11" {
				t.Fatalf("rejected: %d, Retry-After %s, %s", w.Code, retry, w.Body)
			}
		}
		p.refuse = nil
		for i, want := range []int{200, 200, 429} {
			if w := serve(h); w.Code != want {
				t.Errorf("request %d: %d, want %d", i, w.Code, want)
			}
		}
		if want := []string{"ok after 0s", "ok after 0s", "not made after 0s"}; !slices.Equal(p.log, want) {
			t.Errorf("results %q, want %q", p.log, want)
		}
	})
}

func protected(t *testing.T, p protect.Protection, limit string) http.Handler {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	chain := protect.New(protect.Config{Protections: []protect.Protection{p}})
	return httplimit.Protect(httplimit.ProtectConfig{Chain: chain})(httplimit.Limit(store, limit, httplimit.ByIP)(next))
}

func serve(h http.Handler) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	return w
}
