package httplimit_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/httplimit"
)

// TestReplace checks that waiting requests are decided by the new policies after Replace.
func TestReplace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bubbled(t)
		defer store.Close()
		before := set(t, waiting("p", time.Minute, "10/s burst 50"))
		first, err := httplimit.New(store, before, httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := httplimit.New(store, set(t, waiting("p", time.Minute, "11/s burst 50")).WithPrevious(before), httplimit.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var passed atomic.Int64
		var all sync.WaitGroup
		call := func(m *httplimit.Middleware) {
			h := m.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { passed.Add(1) }))
			all.Go(func() {
				if w := get(h, "/", peer); w.Code != http.StatusOK || w.Header().Get("RateLimit") == "" {
					t.Errorf("%d with %v, want 200 and a RateLimit", w.Code, w.Header())
				}
			})
		}
		for range 150 {
			call(first)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		first.Replace(second)
		second.Replace(nil)
		call(second)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := passed.Load(); got < 69 || got > 72 {
			t.Errorf("%d pass in two seconds, want 60 and 11 at most", got)
		}
		all.Wait()
	})
}
