package guard_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/policy"
)

// TestWaitersAfterChange checks that waiting calls are decided by the new limits, without an
// allowance of their own.
func TestWaitersAfterChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := func(limit string) guard.Config {
			return guard.Config{Functions: functions(rule(t, policy.Config{Name: "f", Limits: limits(limit), OnDenied: policy.OnDenied{Wait: time.Minute}}))}
		}
		r := registry(t, c("10/s burst 50"))
		var passed atomic.Int64
		var all sync.WaitGroup
		call := func() {
			e, err := r.Enter(context.Background(), "f", "")
			if err == nil {
				passed.Add(1)
			}
			e.Exit(nil)
		}
		for range 150 {
			all.Go(call)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		configure(t, r, c("11/s burst 50"))
		all.Go(call)
		time.Sleep(time.Second)
		synctest.Wait()
		if got := passed.Load(); got < 69 || got > 72 {
			t.Errorf("%d pass in two seconds, want 60 and 11 at most", got)
		}
		all.Wait()
	})
}
