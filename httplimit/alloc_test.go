package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// discard is a ResponseWriter that keeps nothing.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// TestAllocations checks that a request allocates only its key, the text of all fields, and
// the slice of their values.
func TestAllocations(t *testing.T) {
	h := wrapNothing(t, fakestore.Memory(t), set(t, policy.Config{Name: "p", Match: policy.Match{Paths: []string{"/api/*"}}, Limits: limits("1000000/s")}))
	r := httptest.NewRequest("GET", "/api/users/7", nil)
	w := discard{http.Header{}}
	if got := testing.AllocsPerRun(1000, func() { h.ServeHTTP(w, r) }); got > 3 && !racing {
		t.Errorf("an admitted request allocates %v times, want at most 3", got)
	}
}

func wrapNothing(t testing.TB, store weir.Store, s *policy.Set) http.Handler {
	t.Helper()
	m, err := httplimit.New(store, s, httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func BenchmarkMiddleware(b *testing.B) {
	for _, bc := range []struct{ name, limit string }{{"admitted", "1000000/s burst 1000000000"}, {"denied", "1/24h"}} {
		h := wrapNothing(b, fakestore.Memory(b), set(b, policy.Config{Name: "p", Match: policy.Match{Paths: []string{"/api/*"}}, Limits: limits(bc.limit)}))
		b.Run(bc.name, func(b *testing.B) {
			r := httptest.NewRequest("GET", "/api/users/7", nil)
			w := discard{http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(w, r)
			}
		})
		b.Run(bc.name+"/parallel", func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				r := httptest.NewRequest("GET", "/api/users/7", nil)
				w := discard{http.Header{}}
				for pb.Next() {
					h.ServeHTTP(w, r)
				}
			})
		})
	}
}
