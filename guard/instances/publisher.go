package instances

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/redisstore"
)

// A Publisher reports a process. Service and one of Conn and URL are required.
type Publisher struct {
	// Conn is the Redis with the reports.
	Conn redisstore.Conn

	// URL names POST /v1/programs of weir serve, for a program without Conn. Token is sent in
	// the field Authorization; none if empty. Client sends the requests; the default client
	// if nil.
	URL    string
	Token  string
	Client *http.Client

	// Service is the name of the program, 1 to 64 bytes.
	Service string

	// Registry has the guards; nil if the program has none.
	Registry *guard.Registry

	// Policies returns the version of the policies in force, and why that is not the last
	// one, as weirfile.Follower.Status does. The program follows none if nil.
	Policies func() (version int64, problem error)

	// Counters have the decisions of its policies; nil if it counts none.
	Counters *Counters

	// Adjusts reports whether the program applies the adjustments of single keys, as
	// weirfile.Follower.Adjusts does. It applies none if nil.
	Adjusts func() bool

	// Every is the interval between reports; DefaultEvery if zero, at most half of StaleAfter.
	Every time.Duration

	// OnError, if not nil, is called with the error of a failed report, once for each
	// different error, and with nil when a report succeeds again. Reports go on.
	OnError func(error)

	samples []sample // of the last rateWindow, the oldest first
}

const (
	// rateWindow is the time over which rates are computed.
	rateWindow = 10 * time.Second

	// lookInterval is the interval in which Publisher.Policies is called, so that a change is
	// reported at once.
	lookInterval = 200 * time.Millisecond

	// postTimeout bounds one report.
	postTimeout = 2 * time.Second

	// maxDetail bounds the part of an error response that is reported, in bytes.
	maxDetail = 200
)

// A sample has the counts of all guards at one time.
type sample struct {
	at       time.Time
	counts   map[guardID]Counts
	policies map[string][4]int64 // of Counters
}

// A guardID identifies a guard of a process.
type guardID struct {
	name, function, file string
	line                 int
}

// Run reports at once and at intervals until ctx is done. Then it removes the process from the
// list. It returns the cause of ctx's end, or an error about an invalid field of p.
func (p *Publisher) Run(ctx context.Context) error {
	every := p.Every
	if every == 0 {
		every = DefaultEvery
	}
	if err := p.check(every); err != nil {
		return err
	}
	host, _ := os.Hostname()
	me := Process{ID: rand.Text(), Service: p.Service, Host: host[:min(len(host), maxHost)], PID: os.Getpid(), Since: time.Now().UTC().Truncate(time.Second)}
	last := ""
	tick, look := time.NewTicker(every), time.NewTicker(min(every, lookInterval))
	defer tick.Stop()
	defer look.Stop()
	for {
		report := p.report(me)
		err := p.post(ctx, report)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if p.OnError != nil && text != last && ctx.Err() == nil {
			p.OnError(err)
		}
		last = text
		for next := false; !next; {
			select {
			case <-tick.C:
				next = true
			case <-look.C: // operators wait for a new version
				version, problem := p.policies()
				next = version != report.Version || problem != report.Problem || p.adjusts() != report.Adjusts
			case <-ctx.Done():
				next = true
			}
		}
		if ctx.Err() != nil {
			me.Left = true
			_ = p.post(context.WithoutCancel(ctx), me) // else it is removed after TTL
			return context.Cause(ctx)
		}
	}
}

func (p *Publisher) check(every time.Duration) error {
	u, err := url.Parse(p.URL)
	switch {
	case (p.Conn == nil) == (p.URL == "") || p.Conn != nil && missing.Value(p.Conn):
		return fmt.Errorf("instances: %w: want one of Conn and URL", weir.ErrInvalid)
	case p.URL != "" && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == ""):
		return fmt.Errorf("instances: URL: %w: want an http or https URL with a host", weir.ErrInvalid)
	case strings.ContainsFunc(p.Token, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return fmt.Errorf("instances: Token: %w: want ASCII without spaces", weir.ErrInvalid)
	case p.Service == "" || len(p.Service) > maxName:
		return fmt.Errorf("instances: service %.80q: %w: want 1 to %d bytes", p.Service, weir.ErrInvalid, maxName)
	case every < 0 || every > StaleAfter/2:
		return fmt.Errorf("instances: every %v: %w: want at most %v", every, weir.ErrInvalid, StaleAfter/2)
	}
	return nil
}

// report adds the guards and the policies to me.
func (p *Publisher) report(me Process) Process {
	me.Version, me.Problem = p.policies()
	me.Adjusts = p.adjusts()
	now := sample{time.Now(), map[guardID]Counts{}, p.Counters.total()}
	var live []guard.Status
	if p.Registry != nil {
		live = p.Registry.Live()
	}
	for len(p.samples) > 1 && now.at.Sub(p.samples[1].at) >= rateWindow {
		p.samples = p.samples[1:]
	}
	for _, s := range live {
		id := guardID{s.Name, s.Function, s.File, s.Line}
		f := Function{
			Name: s.Name, Function: s.Function, File: s.File, Line: s.Line, BuiltBy: string(s.BuiltBy),
			Limits: make([]string, len(s.Limits)), Rule: s.Rule, Mode: s.Mode, Protections: s.Protections, BreakerOpen: s.BreakerOpen.Seconds(),
			Total: Counts{s.Passed, s.Denied, s.Undecided, s.Failed, s.KeyFaults, s.Running, s.Busy.Seconds()},
		}
		for i, l := range s.Limits {
			f.Limits[i] = l.String()
		}
		if len(p.samples) > 0 {
			before, seconds := p.samples[0].counts[id], now.at.Sub(p.samples[0].at).Seconds()
			rate := func(a, b int64) float64 { return float64(a-b) / max(seconds, 0.001) }
			f.Denied, f.Failed = rate(s.Denied, before.Denied), rate(s.Failed, before.Failed)
			f.Calls = rate(s.Passed, before.Passed) + f.Denied
		}
		now.counts[id] = f.Total
		me.Functions = append(me.Functions, f)
	}
	if len(p.samples) > 0 {
		me.Policies = policiesSince(p.samples[0], now)
	}
	p.samples = append(p.samples, now)
	return me
}

func (p *Publisher) adjusts() bool { return p.Adjusts != nil && p.Adjusts() }

// policies returns the version in force and the problem.
func (p *Publisher) policies() (version int64, problem string) {
	if p.Policies == nil {
		return 0, ""
	}
	version, err := p.Policies()
	if err != nil {
		problem = err.Error()
	}
	return version, problem
}

// post sends a report.
func (p *Publisher) post(ctx context.Context, me Process) error {
	ctx, cancel := context.WithTimeout(ctx, postTimeout)
	defer cancel()
	if p.Conn != nil {
		return Post(ctx, p.Conn, me)
	}
	if err := me.check(); err != nil {
		return err
	}
	body, err := me.encode()
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("instances: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if p.Token != "" {
		r.Header.Set("Authorization", "Bearer "+p.Token)
	}
	var c http.Client
	if p.Client != nil {
		c = *p.Client
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	res, err := c.Do(r)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return fmt.Errorf("instances: POST %s: %w: %w", r.URL.Redacted(), weir.ErrUnavailable, err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		detail, _ := io.ReadAll(io.LimitReader(res.Body, maxDetail))
		return fmt.Errorf("instances: POST %s: got %s, want 204: %.*q", r.URL.Redacted(), res.Status, maxDetail, detail)
	}
	return nil
}
