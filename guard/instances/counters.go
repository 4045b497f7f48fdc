package instances

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/enforce"
)

// MaxPolicies bounds the policies of a report. Further ones are not counted.
const MaxPolicies = 256

// Counters counts the decisions of the policies of a program, for the Publisher:
//
//	counters := new(instances.Counters)
//	m, err := httplimit.New(store, policies, httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) { counters.Observe(e) }})
//	…
//	p := instances.Publisher{…, Counters: counters}
//
// The zero value is ready, and safe for concurrent use. Do not copy Counters in use.
type Counters struct {
	mu       sync.Mutex
	policies sync.Map // name to *tally
	n        int      // of policies; guarded by mu
}

// A tally counts the decisions of one policy.
type tally struct{ admitted, denied, shadow, overloaded atomic.Int64 }

// A PolicyRate has the decisions per second of one policy in the last ten seconds.
type PolicyRate struct {
	Name       string  `json:"name"`
	Admitted   float64 `json:"admitted"`
	Denied     float64 `json:"denied"`
	Shadow     float64 `json:"shadow"` // would have been denied
	Overloaded float64 `json:"overloaded"`
}

// Observe counts an event. Those of candidates, and those at the end of a request, count nothing.
func (c *Counters) Observe(e enforce.Event) {
	if e.Policy == nil || e.Outcome.AtEnd() {
		return
	}
	t := c.tally(e.Policy.Name())
	switch {
	case t == nil:
	case e.Outcome == enforce.Admitted, e.Outcome == enforce.FailedOpen:
		t.admitted.Add(1)
	case e.Outcome == enforce.Denied && e.Shadow:
		t.shadow.Add(1)
	case e.Outcome == enforce.Denied:
		t.denied.Add(1)
	case e.Outcome == enforce.Overloaded, e.Outcome == enforce.FailedClosed && !errors.Is(e.Err, context.Canceled):
		t.overloaded.Add(1)
	}
}

// tally returns the counts of a policy; nil for a candidate and above MaxPolicies.
func (c *Counters) tally(name string) *tally {
	if known, ok := c.policies.Load(name); ok {
		return known.(*tally)
	}
	if strings.HasSuffix(name, "~candidate") { // no other policy can have this suffix
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if known, ok := c.policies.Load(name); ok {
		return known.(*tally)
	}
	if c.n == MaxPolicies {
		return nil
	}
	c.n++
	t := new(tally)
	c.policies.Store(name, t)
	return t
}

// total returns the counts since the start by name.
func (c *Counters) total() map[string][4]int64 {
	all := map[string][4]int64{}
	if c == nil {
		return all
	}
	c.policies.Range(func(name, v any) bool {
		t := v.(*tally)
		all[name.(string)] = [4]int64{t.admitted.Load(), t.denied.Load(), t.shadow.Load(), t.overloaded.Load()}
		return true
	})
	return all
}

// policiesSince returns the rates of the policies between two samples, by name.
func policiesSince(before, now sample) []PolicyRate {
	var all []PolicyRate
	seconds := max(now.at.Sub(before.at).Seconds(), 0.001)
	for name, n := range now.policies {
		was := before.policies[name]
		rate := func(i int) float64 { return float64(n[i]-was[i]) / seconds }
		all = append(all, PolicyRate{name, rate(0), rate(1), rate(2), rate(3)})
	}
	slices.SortFunc(all, func(a, b PolicyRate) int { return strings.Compare(a.Name, b.Name) })
	return all
}
