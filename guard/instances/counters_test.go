package instances_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/policy"
)

// TestCounters checks the rates of the policies in a report, and their maximum number.
func TestCounters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c instances.Counters
		named := func(name string) *policy.Policy {
			p, err := policy.New(policy.Config{Name: name, Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("1/s")}, Candidate: []weir.Limit{weir.MustLimit("2/s")}})
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		login := named("login")
		s := &site{status: 204}
		p := instances.Publisher{URL: "http://weir.example/v1/programs", Client: &http.Client{Transport: s}, Service: "shop", Counters: &c, Adjusts: func() bool { return true }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- p.Run(ctx) }()
		<-time.After(500 * time.Millisecond) // between the reports
		for range 20 {
			<-time.After(time.Second)
			for i, e := range []enforce.Event{
				{Outcome: enforce.Admitted}, {Outcome: enforce.FailedOpen}, {Outcome: enforce.Denied}, {Outcome: enforce.Denied, Shadow: true},
				{Outcome: enforce.Overloaded}, {Outcome: enforce.FailedClosed}, {Outcome: enforce.FailedClosed, Err: context.Canceled}, {Outcome: enforce.Settled}, {Outcome: enforce.Held},
			} {
				e.Policy = login
				c.Observe(e)
				if i == 0 {
					c.Observe(e)
				}
			}
		}
		synctest.Wait()
		got := s.read()
		if want := []instances.PolicyRate{{Name: "login", Admitted: 3, Denied: 1, Shadow: 1, Overloaded: 2}}; fmt.Sprint(got.Policies) != fmt.Sprint(want) || !got.Adjusts {
			t.Errorf("policies %+v, Adjusts %v, want %+v", got.Policies, got.Adjusts, want)
		}
		for i := range instances.MaxPolicies + 10 {
			c.Observe(enforce.Event{Policy: named(fmt.Sprint("p", i)), Outcome: enforce.Admitted})
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		if got := s.read(); len(got.Policies) != instances.MaxPolicies {
			t.Errorf("%d policies, want %d", len(got.Policies), instances.MaxPolicies)
		}
		cancel()
		<-done
	})
}
