package rls

import (
	"context"
	"log/slog"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
)

// An Event is what one limit did with one descriptor, or that a request was not
// decided. Of total_hits, over_limit, near_limit, within_limit and shadow_mode, as
// envoyproxy/ratelimit has them, it is: Hits; Hits if not OK; Near; Hits if OK; Hits if
// not OK and Shadow.
type Event struct {
	// Domain is the domain, as configured; "" if it is not.
	Domain string

	// Path names the limit, as in "message_type_marketing.to_number": there are as many
	// as the configuration has descriptors. A limit that came with a request is that of
	// the descriptor that it replaced, or "(override)". It is "" of a request whose domain
	// is not known, or that was not decided.
	Path string

	// Label is Path, or what detailed_metric and value_to_metric make of it: at most
	// MaxLabels different ones of all domains, and then Path.
	Label string

	// Key is whose state was asked; as many as there are clients. "" if there is none.
	Key string

	OK       bool // what the limit itself says
	Admitted bool // whether the request goes through
	Charged  bool // whether the hits were counted
	Shadow   bool // the limit's denial means nothing
	Quota    bool // the limit is in quota mode
	Override bool // the limit came with the request

	Hits     uint64 // 0 of a check; at most MaxHits
	Near     uint64 // of Hits, those above 80 % of the limit's capacity
	Refunded uint64 // hits that were given back; at most MaxHits

	Decision weir.Decision

	// Err is why there is no decision.
	Err error
}

// MaxLabels is how many different labels events have.
const MaxLabels = 1000

// MaxHits is how many hits of a descriptor an event tells of, which is more than a limit
// has: a client that says 2^64−1 would end whatever adds them up.
const MaxHits = 1 << 32

// tell reports the events of a request.
func (s *Server) observe(d *decision) {
	if s.c.Observe == nil {
		return
	}
	if d.domain == nil {
		s.c.Observe(Event{OK: true, Admitted: true})
		return
	}
	for i := range d.checks {
		a := &d.checks[i]
		if a.limit == nil {
			continue
		}
		e := Event{
			Domain: d.domain.Name, Path: path(a), OK: a.ok, Admitted: d.admitted || s.c.Shadow, Charged: a.charged,
			Shadow: a.role == shadow || s.c.Shadow, Quota: a.quota, Override: a.override != nil,
			Key: a.match.Key, Decision: a.decision, Hits: min(a.hits, MaxHits),
		}
		e.Label = e.Path
		if a.match.Label != a.match.Path && a.override == nil {
			e.Label = s.labels.bounded(d.domain.Name, a.match)
		}
		if a.refund {
			e.Hits, e.Refunded = 0, e.Hits
		}
		if a.charged && a.ok {
			e.Near = near(a)
		}
		s.c.Observe(e)
	}
}

func path(a *check) string {
	if a.override != nil && a.match.Path == "" {
		return "(override)"
	}
	return a.match.Path
}

// near is how many of the hits of a are above 80 % of its limit.
func near(a *check) uint64 {
	capacity := a.limit.Limit.Capacity()
	after, hits := capacity-a.decision.Remaining, min(int64(a.hits), capacity)
	return uint64(min(hits, max(0, after-capacity*4/5)))
}

// failed reports a request that was not decided.
func (s *Server) failed(ctx context.Context, d *decision, err error) {
	if ctx.Err() != nil {
		return // who asked is gone
	}
	domain := ""
	if d.domain != nil {
		domain = d.domain.Name
	}
	if s.c.Observe != nil {
		s.c.Observe(Event{Domain: domain, Err: err})
	}
	now, last := s.c.Now().Unix(), s.lastLogged.Load()
	if now != last && s.lastLogged.CompareAndSwap(last, now) {
		s.c.Log.LogAttrs(ctx, slog.LevelError, "no decision", slog.String("domain", domain), slog.Any("error", err))
	}
}

// labels are those with values of requests, as far as there is room.
type labels struct {
	mu    sync.Mutex
	known map[[2]string]struct{}
}

// bounded is the label of m, or its path if there are too many labels.
func (l *labels) bounded(domain string, m ratelimit.Match) string {
	at := [2]string{domain, m.Label}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.known[at]; ok {
		return m.Label
	}
	if len(l.known) >= MaxLabels {
		return m.Path
	}
	if l.known == nil {
		l.known = map[[2]string]struct{}{}
	}
	l.known[at] = struct{}{}
	return m.Label
}

// maxBudgets is how many limits are known as budgets.
const maxBudgets = 1 << 16

// budgets are the limits that were asked whether anything is left, by their names. Who
// asks that charges later, when it is too late to deny. Hits that do not fit then have
// to count as far as something is left, or the answer would be yes for ever.
type budgets struct {
	mu    sync.RWMutex
	known map[[2]string]struct{}
}

func (b *budgets) note(domain *ratelimit.Domain, a *check) {
	at := [2]string{domain.Name, path(a)}
	b.mu.RLock()
	_, ok := b.known[at]
	b.mu.RUnlock()
	if ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.known == nil {
		b.known = map[[2]string]struct{}{}
	}
	if len(b.known) < maxBudgets {
		b.known[at] = struct{}{}
	}
}

// counts says which hits of a count that do not go through.
func (b *budgets) counts(domain *ratelimit.Domain, a *check) overLimit {
	switch {
	case a.limit.Count == ratelimit.CountAll:
		return countAll
	case a.limit.Count == ratelimit.CountAdmitted || a.hits == 1: // if one does not fit, nothing is left
		return countNone
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if _, ok := b.known[[2]string{domain.Name, path(a)}]; ok {
		return countRemaining
	}
	return countNone
}
