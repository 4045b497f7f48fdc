package scenario

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/virtual"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

// Run runs the tests that selected accepts, or all if it is nil.
func (f *File) Run(selected func(name string) bool) Report {
	report := Report{File: f.name}
	for i := range f.tests {
		if t := &f.tests[i]; selected == nil || selected(t.name) {
			report.Tests = append(report.Tests, f.run(t))
		}
	}
	return report
}

// A simulation is one run of a test.
type simulation struct {
	*virtual.Clock
	start      time.Time
	store      *virtual.Store
	local      *virtual.Store
	policies   *policy.Set
	middleware *httplimit.Middleware
	exchanges  []*exchange
}

// An exchange is one request and what was observed of it.
type exchange struct {
	step  *step
	index int // in the step
	at    time.Duration

	events   []enforce.Event
	admitted bool
	waited   time.Duration
	response recorder
}

// An arrival is an instant of a step.
type arrival struct {
	step  *step
	index int
	at    time.Duration
}

// run runs one test.
func (f *File) run(t *test) Result {
	result := Result{Name: t.name, Line: t.line, Column: t.column}
	s, err := newSimulation(t, f.policies)
	if err != nil {
		result.Failure = &Failure{File: f.name, Line: t.line, Column: t.column, Summary: err.Error()}
		return result
	}
	defer s.store.Close()
	defer s.local.Close()
	for _, a := range t.arrivals() {
		s.Advance(s.start.Add(a.at).UnixMicro())
		if err := s.process(a); err != nil {
			result.Failure = &Failure{File: f.name, Line: a.step.line, Column: a.step.column, Step: a.step.field, Summary: err.Error()}
			return result
		}
	}
	s.Drain()
	result.Requests = len(s.exchanges)
	for _, x := range s.exchanges {
		if differences := x.compare(); len(differences) > 0 {
			result.Different++
			if result.Failure == nil {
				result.Failure = x.failure(f.name, differences)
			}
		}
	}
	return result
}

// arrivals returns the instants of all steps in the order of time.
func (t *test) arrivals() []arrival {
	var all []arrival
	for i := range t.steps {
		for n := range t.steps[i].times {
			all = append(all, arrival{&t.steps[i], n, t.steps[i].at + time.Duration(n)*t.steps[i].every})
		}
	}
	slices.SortStableFunc(all, func(a, b arrival) int { return int(a.at - b.at) })
	return all
}

func newSimulation(t *test, policies *weirfile.File) (s *simulation, err error) {
	s = &simulation{Clock: virtual.NewClock(t.start), start: t.start}
	if s.store, err = virtual.NewStore(s.Clock); err != nil {
		return nil, err
	}
	if s.local, err = virtual.NewStore(s.Clock); err != nil {
		return nil, err
	}
	return s, s.adopt(policies)
}

// process starts the request of an arrival, or applies its change.
func (s *simulation) process(a arrival) error {
	switch {
	case a.step.policies != nil:
		return s.adopt(a.step.policies)
	case a.step.store != "":
		s.store.Down = a.step.store == "down"
		return nil
	}
	x := &exchange{step: a.step, index: a.index, at: a.at, response: recorder{header: http.Header{}}}
	s.exchanges = append(s.exchanges, x)
	s.Clock.Run(func() { s.serve(x) })
	return nil
}

// adopt puts the policies of a file into use, as a reload does.
func (s *simulation) adopt(f *weirfile.File) error {
	local, err := failover.NewLocal(s.local, max(1, f.Failover.Nodes))
	if err != nil {
		return err
	}
	set := f.Policies.WithPrevious(s.policies)
	m, err := httplimit.New(s.store, set, httplimit.Config{
		Client: f.Gateway.Client, Fields: f.Gateway.Fields, Body: f.Gateway.KeyBody, Options: enforce.Options{Local: local},
		Observe: func(r *http.Request, e enforce.Event) {
			x := r.Context().Value(exchangeKey{}).(*exchange)
			x.events = append(x.events, e)
		},
	})
	if err != nil {
		return err
	}
	if s.middleware != nil {
		s.middleware.Replace(m)
	}
	s.policies, s.middleware = set, m
	return nil
}

type exchangeKey struct{}

// serve sends the request of x through the middleware.
func (s *simulation) serve(x *exchange) {
	r := x.step.request.Clone(context.WithValue(context.Background(), exchangeKey{}, x))
	if r.GetBody != nil {
		r.Body, _ = r.GetBody() // it is in memory
	}
	begin := s.Now()
	end := func() { x.waited = s.Now().Sub(begin) }
	s.middleware.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		end()
		x.admitted = true
		x.step.response.write(s.Clock, w)
	})).ServeHTTP(&x.response, r)
	if !x.admitted {
		end()
	}
}

// write sends the response of the simulated upstream.
func (p *response) write(c *virtual.Clock, w http.ResponseWriter) {
	_ = c.Sleep(context.Background(), p.takes)
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.WriteHeader(p.status)
	_, _ = w.Write(p.body) // a recorder returns no error
}

// A recorder is the ResponseWriter of an exchange.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// Header implements [http.ResponseWriter].
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements [http.ResponseWriter].
func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
}

// Write implements [http.ResponseWriter].
func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// decisive returns the decision that counts, as enforce.Admission.Decision does, and the
// policy that denied the request with the longest RetryAfter.
func (x *exchange) decisive() (d weir.Decision, deniedBy string) {
	var ds []weir.Decision
	longest := time.Duration(-1)
	for i := range x.events {
		e := &x.events[i]
		if blocked(e) {
			return e.Decision, e.Policy.Name()
		}
		if e.Shadow || e.Decision.Limit.IsZero() {
			continue
		}
		ds = append(ds, e.Decision)
		if e.Outcome == enforce.Denied && e.Decision.RetryAfter > longest {
			deniedBy, longest = e.Policy.Name(), e.Decision.RetryAfter
		}
	}
	return enforce.Combine(ds), deniedBy
}

// blocked reports whether the policy of e blocked the request, without a limit.
func blocked(e *enforce.Event) bool {
	return e.Outcome == enforce.Denied && !e.Shadow && e.Decision.Limit.IsZero()
}

// failure describes x, whose decision differs from the expected one.
func (x *exchange) failure(file string, differences []Difference) *Failure {
	r := x.step.request
	from, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		from = "an unknown address"
	}
	number := ""
	if x.step.times > 1 {
		number = fmt.Sprintf("request %d of %d ", x.index+1, x.step.times)
	}
	f := &Failure{
		File: file, Line: x.step.line, Column: x.step.column, Step: x.step.field,
		Summary:     fmt.Sprintf("%sat %v: %s %s%s from %s", number, x.at, r.Method, r.Host, r.URL.RequestURI(), from),
		Differences: differences,
	}
	for _, e := range x.events {
		f.Policies = append(f.Policies, describe(e))
	}
	if len(x.events) == 0 {
		f.Policies = []string{"no policy matches"}
	}
	return f
}

// describe returns the decision of one policy as text.
func describe(e enforce.Event) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Policy.Name(), strings.ReplaceAll(string(e.Outcome), "_", " "))
	if e.Shadow {
		b.WriteString(" in shadow mode")
	}
	fmt.Fprintf(&b, ", key %q, cost %d", e.Key, e.Cost)
	if blocked(&e) {
		b.WriteString(", blocked")
	}
	if d := e.Decision; !d.Limit.IsZero() {
		fmt.Fprintf(&b, ", %s, remaining %d", d.Limit.Brief(), d.Remaining)
		if d.Borrowed {
			b.WriteString(", borrowed")
		}
		if !d.OK {
			fmt.Fprintf(&b, ", retry after %s", retryText(d.RetryAfter))
		}
		if d.Degraded != "" {
			fmt.Fprintf(&b, ", degraded %s", d.Degraded)
		}
	}
	for _, err := range []error{e.Err, e.Fault} {
		if err != nil {
			fmt.Fprintf(&b, ", %v", err)
		}
	}
	return b.String()
}

// retryText returns a RetryAfter as users write it.
func retryText(d time.Duration) string {
	if d == weir.Never {
		return "never"
	}
	return d.String()
}
