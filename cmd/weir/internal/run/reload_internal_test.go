package run

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestWhatWaitsGoesByTheNewLimits checks that requests that wait at the gateway while its
// policies change get no allowance of the old ones beside that of the new ones.
func TestWhatWaitsGoesByTheNewLimits(t *testing.T) {
	var reached atomic.Int64
	up := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer up.Close()
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	waits := func(limit string) policy.Config {
		c := perClient(limit)
		c.OnDenied.Wait = time.Minute
		return c
	}
	const burst = 4
	p := with(t, settings(t, up.URL, waits("5/s burst 4")), store, discard())
	after := settings(t, up.URL, waits("10/s burst 4"))
	p.reloader.reread = func() (*config.Config, error) { return after, nil }
	start := time.Now()
	var wg sync.WaitGroup
	ask := func(n int) {
		for range n {
			wg.Go(func() {
				if got := status(t, p.gateway.url()); got != http.StatusOK {
					t.Errorf("a request that may wait for a minute = %d, want 200", got)
				}
			})
		}
	}
	ask(2 * burst)
	for reached.Load() < burst { // the others wait
		if time.Since(start) > patient {
			t.Fatal("the burst does not go through")
		}
	}
	p.reloader.reload("test")
	ask(2 * burst)
	wg.Wait()
	took := time.Since(start)
	if most := burst + 10*took.Seconds() + 1; float64(reached.Load()) > most {
		t.Errorf("%d requests in %v, want at most %.1f", reached.Load(), took, most)
	}
	if l := p.reloader.current.Load().policies.Policies()[0].Config().Limits[0]; !l.Equal(weir.MustLimit("10/s burst 4")) {
		t.Errorf("the limit is %v after the reload", l)
	}
}

// TestFilesChangedDuringStart changes the policy file after Start was called, before it returns.
func TestFilesChangedDuringStart(t *testing.T) {
	c := settings(t, "http://127.0.0.1:1", perClient("1/s"))
	c.File, c.Watch = filepath.Join(t.TempDir(), "weir.yaml"), true
	write := func(text string) {
		if err := os.WriteFile(c.File, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	write("before")
	reread := make(chan struct{}, 1)
	var once sync.Once
	p, err := Start(t.Context(), Input{
		Config: c,
		Getenv: func(string) string { once.Do(func() { write("after") }); return "" },
		Reload: func() (*config.Config, error) { reread <- struct{}{}; return c, nil },
	}, discard())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	select {
	case <-reread:
	case <-time.After(patient):
		t.Error("the change is not noticed")
	}
}
