package weirfile_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// BenchmarkReload measures requests through httplimit, one each millisecond, while nothing else runs,
// and while a file with 100,000 overrides is loaded and put into use again and again. A latency is the
// time from the instant at which a request is due.
func BenchmarkReload(b *testing.B) {
	for _, c := range []struct{ name, file string }{{"still", ""}, {"CSV", "CSV"}, {"YAML", "YAML"}, {"inline", "inline"}} {
		b.Run(c.name, func(b *testing.B) {
			s := newReloading(b)
			stop, reloads := make(chan struct{}), make(chan int)
			path := s.files[c.file]
			s.reload(b, s.files["CSV"])
			go func() {
				n := 0
				defer func() { reloads <- n }()
				for path != "" {
					select {
					case <-stop:
						return
					default:
						s.reload(b, path)
						n++
					}
				}
				<-stop
			}()
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			var took []time.Duration
			for b.Loop() {
				due := <-tick.C
				s.get(b)
				took = append(took, time.Since(due))
			}
			close(stop)
			b.ReportMetric(float64(<-reloads), "reloads")
			slices.Sort(took)
			for name, i := range map[string]int{"p50-µs": len(took) / 2, "p99-µs": len(took) * 99 / 100, "max-µs": len(took) - 1} {
				b.ReportMetric(float64(took[i].Microseconds()), name)
			}
		})
	}
}

// TestLoadYields checks that other goroutines run while overrides are loaded on one processor, often
// and not only when their slice of time comes.
func TestLoadYields(t *testing.T) {
	const element = "- { key: k%06d, limits: %d/s }\n"
	for name, path := range map[string]string{"CSV": withTable(t, "header:K", "key,limits\n"+many(20_000, "k%06d,%d/s\n")), "YAML": withList(t, "header:K", many(20_000, element))} {
		turns := 0
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			var done atomic.Bool
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for !done.Load() {
					turns++
					runtime.Gosched()
				}
			}()
			if _, err := weirfile.Load(path); err != nil {
				t.Error(err)
			}
			done.Store(true)
			<-ended
		}()
		if turns < 500 { // of 600: for reading, for checking and for names of limits
			t.Errorf("%s: others ran %d times, want one for each hundred overrides and step", name, turns)
		}
	}
}

// A reloading is a handler whose policies are replaced.
type reloading struct {
	store   *memstore.Store
	files   map[string]string
	set     *policy.Set
	now     atomic.Pointer[httplimit.Middleware]
	request *http.Request
}

func newReloading(b *testing.B) *reloading {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	s := &reloading{store: store, files: bigFiles(b), request: httptest.NewRequest(http.MethodGet, "/", nil)}
	s.request.Header.Set("K", "customer-077777")
	return s
}

// reload loads a file and puts it into use, as weir serve does.
func (s *reloading) reload(b *testing.B, path string) {
	f, err := weirfile.Load(path)
	if err != nil {
		b.Error(err)
		return
	}
	s.set = f.Policies.WithPrevious(s.set)
	m, err := httplimit.New(s.store, s.set, httplimit.Config{})
	if err != nil {
		b.Error(err)
		return
	}
	if old := s.now.Swap(m); old != nil {
		old.Replace(m)
	}
}

func (s *reloading) get(b *testing.B) {
	w := httptest.NewRecorder()
	s.now.Load().Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})).ServeHTTP(w, s.request)
	if w.Header().Get("X-RateLimit-Limit") == "" {
		b.Errorf("response %d %v, want limits", w.Code, w.Header())
	}
}
