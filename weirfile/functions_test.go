package weirfile_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/policy"
)

func TestFunctionForms(t *testing.T) {
	f := parse(t, `
functions:
  mode: shadow
  system: { limits: 1000/s, adaptive: {} , carry: as_is, per_instance: true }
  rules:
    - name: getId
      limits: [10/10s, 100/h]
      mode: off
      wait: 300ms
      on_store_error: local
      percent: 100
      candidate: 5/10s
      carry: additive
      per_instance: true
      count: successes
      overrides: [{ key: vip-*, limits: 100/s }, { key: "", limits: 1/s }]
    - { name: a, breaker: { failures: 5 }, bulkhead: { max: 10, wait: 1s } }
    - { name: b, limits: 5 concurrency, breaker: { rate: 50, slow: 2s, trials: 3, cooldown: 1m }, adaptive: { min: 30 }, bulkhead: { max: 3, max_waiters: 7, wait: 5s } }
    - { name: c, breaker: { failures: 5, of: 10 }, adaptive: { max: 10 } }
    - { name: d, breaker: { rate: 1, of: 5, period: 1m } }
    - { name: e, breaker: { slow_rate: 60, slow: 1s } }
`).Functions
	if f == nil || f.Mode != policy.Shadow || len(f.Rules) != 6 || f.System == nil {
		t.Fatalf("functions = %+v", f)
	}
	if s := f.System; s.Name != "system" || s.Policy.Config().Carry != weir.CarryAsIs || *s.Settings.Adaptive != (guard.Adaptive{Min: 1, Max: 200, Initial: 20}) {
		t.Errorf("system = %+v", s)
	}
	if !f.System.PerInstance || !f.Rules[0].PerInstance || f.Rules[2].PerInstance {
		t.Error("per_instance is not that of the file")
	}
	id := f.Rules[0].Policy.Config()
	if f.Rules[0].Name != "getId" || id.Name != "getId" || len(id.Limits) != 2 || id.Mode != policy.Off || id.OnDenied.Wait != 300*time.Millisecond ||
		id.OnStoreError != policy.Local || id.Percent != 100 || len(id.Candidate) != 1 || id.Carry != weir.CarryAdditive || id.Count != policy.CountSuccesses || len(id.Overrides) != 2 {
		t.Errorf("getId = %+v", id)
	}
	for i, want := range map[int]guard.Settings{
		1: {Breaker: &guard.Breaker{Failures: 5, Of: 5, Cooldown: 10 * time.Second, Trials: 1}, Bulkhead: &guard.Bulkhead{Max: 10, MaxWaiters: 10, Wait: time.Second}},
		2: {
			Breaker:  &guard.Breaker{Rate: 50, Of: 20, Period: 10 * time.Second, Slow: 2 * time.Second, Cooldown: time.Minute, Trials: 3},
			Adaptive: &guard.Adaptive{Min: 30, Max: 200, Initial: 30},
			Bulkhead: &guard.Bulkhead{Max: 3, MaxWaiters: 7, Wait: 5 * time.Second},
		},
		3: {Breaker: &guard.Breaker{Failures: 5, Of: 10, Cooldown: 10 * time.Second, Trials: 1}, Adaptive: &guard.Adaptive{Min: 1, Max: 10, Initial: 10}},
		5: {Breaker: &guard.Breaker{SlowRate: 60, Of: 20, Period: 10 * time.Second, Slow: time.Second, Cooldown: 10 * time.Second, Trials: 1}},
		4: {Breaker: &guard.Breaker{Rate: 1, Of: 5, Period: time.Minute, Cooldown: 10 * time.Second, Trials: 1}},
	} {
		r := f.Rules[i]
		got := r.Settings
		same := func(a, b any) bool { return a == b }
		if (r.Policy == nil) != (i != 2) ||
			!same(deref(got.Breaker), deref(want.Breaker)) || !same(deref(got.Adaptive), deref(want.Adaptive)) || !same(deref(got.Bulkhead), deref(want.Bulkhead)) {
			t.Errorf("rule %s = %+v %+v %+v", r.Name, got.Breaker, got.Adaptive, got.Bulkhead)
		}
	}
	if parse(t, "store: memory\n").Functions != nil {
		t.Error("a file without functions has some")
	}
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
