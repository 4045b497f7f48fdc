package replay

import (
	"context"
	"net/netip"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/virtual"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// A replica decides all requests by one policy file, with one spacing.
type replica struct {
	clock    *virtual.Clock
	store    *virtual.Store
	enforcer *enforce.Enforcer
	tasks    bool // requests may wait, or have an end that counts
	call     request
	good     func(netip.Addr) bool

	counts   Counts
	policies map[string]*PolicyCounts
	series   series
	clients  map[netip.Addr]*client
	missing  map[string]int
	differ   []Difference
	err      error
}

// A client has the denials of an address.
type client struct {
	denied      int
	first, last int64 // in µs
	agents      [maxAgents]string
}

const (
	maxClients     = 100_000 // with denials, in memory
	maxAgents      = 8
	maxDifferences = 100
)

func newReplica(set *policy.Set, at int64, good func(netip.Addr) bool) (*replica, error) {
	r := &replica{
		clock: virtual.NewClock(time.UnixMicro(at)), good: good, tasks: needsTasks(set),
		policies: map[string]*PolicyCounts{}, clients: map[netip.Addr]*client{}, missing: map[string]int{},
	}
	var err error
	if r.store, err = virtual.NewStore(r.clock); err != nil {
		return nil, err
	}
	r.enforcer, err = enforce.New(r.store, set, enforce.Config{Observe: func(_ context.Context, a policy.Attributes, e enforce.Event) {
		r.observe(a.(*request), &e)
	}})
	return r, err
}

// needsTasks reports whether the time of a request matters beyond its arrival: a policy queues
// it, or counts its result, or limits concurrency.
func needsTasks(set *policy.Set) bool {
	slow := func(ls []weir.Limit) bool {
		for _, l := range ls {
			if b, ok := l.Config().(weir.LeakyBucket); l.IsConcurrency() || ok && b.Queue {
				return true
			}
		}
		return false
	}
	for _, p := range set.Policies() {
		c := p.Config()
		if slow(c.Limits) || slow(c.Candidate) || c.OnDenied.Wait > 0 || c.Settle != (policy.Settle{}) || c.Count == policy.CountFailures || c.Count == policy.CountSuccesses {
			return true
		}
		for _, o := range c.Overrides {
			if slow(o.Limits) {
				return true
			}
		}
	}
	return false
}

// decide decides the request of an entry at an instant in µs.
func (r *replica) decide(e *accesslog.Entry, at int64) {
	r.clock.Advance(at)
	if !r.tasks {
		r.call.e, r.call.to, r.call.query, r.call.deniedBy = e, r, nil, ""
		r.finish(&r.call, at, r.enforcer.Enter(context.Background(), &r.call, &r.call.admission))
		return
	}
	entry := *e // outlives the batch
	r.clock.Run(func() {
		q := &request{e: &entry, to: r}
		r.finish(q, at, r.enforcer.Enter(context.Background(), q, &q.admission))
		if q.admission.Outcome().Passes() && q.admission.NeedsExit() {
			if entry.Duration > 0 {
				_ = r.clock.Sleep(context.Background(), time.Duration(entry.Duration)*time.Microsecond)
			}
			result := enforce.Result{Status: entry.Status}
			if entry.Status == 429 { // of the limit then
				result.Status = 0
			}
			q.admission.Exit(result)
		}
	})
}

// observe counts the decision of one policy.
func (r *replica) observe(q *request, e *enforce.Event) {
	if e.Outcome.AtEnd() {
		return
	}
	p := r.policies[e.Policy.Name()]
	if p == nil {
		p = &PolicyCounts{Name: e.Policy.Name()}
		r.policies[p.Name] = p
	}
	p.Requests++
	switch {
	case e.Err != nil:
		r.counts.Undecided++
		if r.err == nil {
			r.err = e.Err
		}
	case e.Outcome == enforce.Denied && e.Shadow:
		p.Shadow++
	case e.Outcome == enforce.Denied:
		p.Denied++
		q.deniedBy = p.Name
	}
}

// finish counts the outcome of a request.
func (r *replica) finish(q *request, at int64, outcome enforce.Outcome) {
	e, denied := q.e, outcome == enforce.Denied
	r.counts.Requests++
	good := r.good != nil && r.good(e.Client)
	if good {
		r.counts.Good.Requests++
	}
	if waited := r.clock.Now().UnixMicro() - at; waited > 0 && !denied {
		r.counts.Delayed++
	}
	r.series.add(e.At, denied)
	was := e.Status == 429
	switch {
	case was && denied:
		r.counts.Both++
	case was:
		r.counts.OnlyLog++
	case denied:
		r.counts.OnlyReplay++
	}
	if was != denied && len(r.differ) < maxDifferences {
		r.differ = append(r.differ, Difference{At: time.UnixMicro(e.At).UTC(), Client: e.Client, Method: e.Method, Path: e.Path, Log: e.Status, Policy: q.deniedBy})
	}
	if !denied {
		return
	}
	r.counts.Denied++
	if good {
		r.counts.Good.Denied++
	}
	switch {
	case e.Method == "HEAD" || e.Method == "OPTIONS":
		r.counts.Methods++
	case isStatic(e.Path):
		r.counts.Static++
	}
	c := r.clients[e.Client]
	if c == nil {
		if len(r.clients) == maxClients {
			r.counts.OtherClients++
			return
		}
		c = &client{first: e.At}
		r.clients[e.Client] = c
	}
	c.denied, c.last = c.denied+1, e.At
	for i, a := range c.agents {
		if a == e.Agent {
			break
		}
		if a == "" {
			c.agents[i] = e.Agent
			break
		}
	}
}

// close ends the requests that still run.
func (r *replica) close() {
	r.clock.Drain()
	r.store.Close()
}

// A series counts requests in at most maxSlots slots. It doubles the slots to cover more time.
type series struct {
	begin, slot     int64 // in µs
	offered, denied []float64
}

const maxSlots = 240

func (s *series) add(at int64, denied bool) {
	if s.slot == 0 {
		s.begin, s.slot = at, time.Second.Microseconds()
	}
	for (at-s.begin)/s.slot >= maxSlots {
		s.offered, s.denied, s.slot = halve(s.offered), halve(s.denied), 2*s.slot
	}
	i := int(max(0, at-s.begin) / s.slot)
	for len(s.offered) <= i {
		s.offered, s.denied = append(s.offered, 0), append(s.denied, 0)
	}
	s.offered[i]++
	if denied {
		s.denied[i]++
	}
}

func halve(v []float64) []float64 {
	var half []float64
	for i := range v {
		if i%2 == 0 {
			half = append(half, 0)
		}
		half[i/2] += v[i]
	}
	return half
}
