package weirfile_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/floodweir/weir/guard"
)

// TestRouteProtections checks that a route reads the protections of functions, with their defaults
// and modes.
func TestRouteProtections(t *testing.T) {
	routes := parse(t, `
gateway:
  routes:
    - { path: /a, upstream: "http://a" }
    - path: /b
      upstream: http://b
      breaker: { failures: 6, period: 10s, mode: shadow }
      bulkhead: { max: 5, max_waiters: 2, wait: 1s, mode: enforce }
      adaptive: { mode: shadow }
`).Gateway.Routes
	want := guard.Settings{
		Breaker:  &guard.Breaker{Failures: 6, Period: 10 * time.Second, Cooldown: 10 * time.Second, Trials: 1, Shadow: true},
		Bulkhead: &guard.Bulkhead{Max: 5, MaxWaiters: 2, Wait: time.Second},
		Adaptive: &guard.Adaptive{Min: 1, Max: 200, Initial: 20, Shadow: true},
	}
	if got := routes[1].Protections; !reflect.DeepEqual(got, want) || routes[0].Protections != (guard.Settings{}) {
		t.Errorf("protections %+v and %+v, want none and %+v", routes[0].Protections, got, want)
	}
}
