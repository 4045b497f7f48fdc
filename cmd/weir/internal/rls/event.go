package rls

import (
	"context"
	"log/slog"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
)

// An Event is the decision of one limit about one descriptor, or a request without a
// decision. It gives the statistics of envoyproxy/ratelimit:
//
//   - total_hits: Hits
//   - over_limit: Hits if not OK
//   - near_limit: Near
//   - within_limit: Hits if OK
//   - shadow_mode: Hits if not OK and Shadow
type Event struct {
	// Domain is the configured domain; "" if it is unknown.
	Domain string

	// Path names the limit, as in "message_type_marketing.to_number"; it has as many
	// values as the configuration has descriptors. For a limit in a request it is the
	// path of the descriptor that it replaced, or "(override)". It is "" for an unknown
	// domain and for a request without a decision.
	Path string

	// Label is Path, or the label that detailed_metric and value_to_metric derive from
	// it. Beyond MaxLabels labels of all domains it is Path.
	Label string

	// Key is the key of the bucket; it has as many values as there are clients. "": none.
	Key string

	OK       bool // the decision of this limit
	Admitted bool // the decision of the request
	Charged  bool // the hits were counted
	Shadow   bool // a denial of the limit has no effect
	Quota    bool // the limit is in quota mode
	Override bool // the limit was in the request

	Hits     uint64 // 0 for a check; at most MaxHits
	Near     uint64 // the part of Hits above Config.NearRatio of the limit's capacity
	Refunded uint64 // returned hits; at most MaxHits

	Decision weir.Decision

	// Err is the error of a request without a decision.
	Err error
}

// MaxLabels is the maximum number of different labels of events.
const MaxLabels = 1000

// MaxHits is the maximum number of hits in an event. A client may send 2^64−1, which
// would overflow sums.
const MaxHits = 1 << 32

// observe reports the events of a request.
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
			e.Near = near(a, s.c.NearRatio)
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

// near returns the number of hits of a above a part of its limit.
func near(a *check, ratio float64) uint64 {
	capacity := a.limit.Limit.Capacity()
	after, hits := capacity-a.decision.Remaining, min(int64(a.hits), capacity)
	return uint64(min(hits, max(0, after-int64(float64(capacity)*ratio))))
}

// failed reports a request without a decision.
func (s *Server) failed(ctx context.Context, d *decision, err error) {
	if ctx.Err() != nil {
		return // the client disconnected
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

// labels is a bounded set of labels with values from requests.
type labels struct {
	mu    sync.Mutex
	known map[[2]string]struct{}
}

// bounded returns the label of m, or its path beyond MaxLabels.
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

// maxBudgets is the maximum number of known budgets.
const maxBudgets = 1 << 16

// budgets are the names of limits that clients check for remaining quota before they
// charge. At the charge it is too late to deny. So hits that do not fit are counted as
// far as quota remains; otherwise every check would succeed.
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

// counts returns which hits of a over the limit are counted.
func (b *budgets) counts(domain *ratelimit.Domain, a *check) overLimit {
	switch {
	case a.limit.Count == ratelimit.CountAll:
		return countAll
	case a.limit.Count == ratelimit.CountAdmitted || a.hits == 1: // if one hit does not fit, nothing remains
		return countNone
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	if _, ok := b.known[[2]string{domain.Name, path(a)}]; ok {
		return countRemaining
	}
	return countNone
}
