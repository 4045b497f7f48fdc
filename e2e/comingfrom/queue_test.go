package comingfrom_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/weirfile"
)

// TestQueue checks that the replacement of Sentinel's queue delays calls, one interval apart,
// for at most half a second.
func TestQueue(t *testing.T) {
	file, err := weirfile.Load("sentinel.yaml")
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		r, err := guard.NewRegistry(guard.Config{Store: store, Functions: file.Functions, Protections: failsafe.New})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		var passed, denied atomic.Int64
		var last atomic.Int64
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				e, err := r.Enter(t.Context(), "sendMail", "")
				if errors.Is(err, guard.ErrDenied) {
					denied.Add(1)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				passed.Add(1)
				last.Store(int64(time.Since(begin)))
				e.Exit(nil)
			})
		}
		wg.Wait()
		if passed.Load() != 6 || denied.Load() != 4 || time.Duration(last.Load()) != 500*time.Millisecond {
			t.Errorf("%d passed, the last after %v, %d denied; want 6, 500ms, 4", passed.Load(), time.Duration(last.Load()), denied.Load())
		}
	})
}
