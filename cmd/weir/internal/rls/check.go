package rls

import (
	"errors"
	"fmt"
	"slices"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/internal/bounds"
)

// MaxDescriptors is the maximum number of descriptors of a request. A store decides them
// together.
const MaxDescriptors = bounds.MaxBatch

// maxHits exceeds the capacity of every limit.
const maxHits = 1 << 41

// A role is the effect of a limit's denial on the request.
type role uint8

const (
	enforced role = iota // denies the request
	quota                // denies the request if all limits with this role deny
	shadow               // no effect
)

// An overLimit says which hits over the limit are counted.
type overLimit uint8

const (
	countNone      overLimit = iota
	countRemaining           // as many as remain
	countAll                 // all, as debt
)

// A check is the check of one descriptor: its limit, the request to the store and the
// result.
type check struct {
	limit     *ratelimit.Limit // nil: none
	match     ratelimit.Match
	override  *override // the limit in the request; nil: none
	role      role
	quota     bool // quota mode, also for a shadow limit
	deciding  bool // takes part in the decision; false for a refund
	overLimit overLimit

	hits    uint64 // as in the request; 0: peek
	refund  bool
	request weir.Request

	ok       bool // the decision of this limit
	peeked   bool // decided without a charge
	charged  bool
	decision weir.Decision
}

// A decision is a request and its result. It is used again for later requests.
type decision struct {
	domain   *ratelimit.Domain // nil: unknown
	checks   []check
	admitted bool
	at       time.Time

	live []int // the indexes of deciding checks

	// of the last call of the store
	requests  []weir.Request
	ends      []int // of the requests of each check
	decisions []weir.Decision

	// The last limit of a response and its message, which is only read. They outlive a reset.
	described   *ratelimit.Limit
	description *pb.RateLimitResponse_RateLimit
}

// reset makes d ready for another request. It keeps the memory, and the description of a limit.
func (d *decision) reset() {
	clear(d.checks)
	clear(d.requests)
	clear(d.decisions)
	*d = decision{checks: d.checks[:0], live: d.live[:0], requests: d.requests[:0], ends: d.ends[:0], decisions: d.decisions[:0], described: d.described, description: d.description}
}

var (
	errDomain      = errors.New("rls: domain: want the name of a domain, got an empty one: the rate limit domain must not be empty")
	errDescriptors = errors.New("rls: descriptors: want at least 1, got none: the rate limit descriptor list must not be empty")
)

// read finds the limits of a request, for d, which is reset.
func (s *Server) read(gens *generations, r *pb.RateLimitRequest, d *decision) error {
	descriptors := r.GetDescriptors()
	switch n := len(descriptors); {
	case r.GetDomain() == "":
		return errDomain
	case n == 0:
		return errDescriptors
	case slices.Contains(s.c.Elsewhere, r.GetDomain()):
		return fmt.Errorf("rls: domain: got %.100q, want one that the rate limit quota service does not have", r.GetDomain())
	case n > MaxDescriptors:
		return fmt.Errorf("rls: descriptors: got %[2]d, want at most %[1]d", MaxDescriptors, n)
	}
	d.domain, d.checks = gens.now.Domain(r.GetDomain()), slices.Grow(d.checks, len(descriptors))[:len(descriptors)]
	if d.domain == nil {
		for i := range d.checks {
			d.checks[i].ok = true
		}
		return nil
	}
	var few [8]ratelimit.Entry
	for i, descriptor := range descriptors {
		if err := s.readOne(d, &d.checks[i], r, descriptor, few[:0]); err != nil {
			return fmt.Errorf("rls: descriptors[%d]: %w", i, err)
		}
	}
	dropReplaced(d.checks)
	requests := 0
	for i := range d.checks {
		a := &d.checks[i]
		s.prepare(gens, d.domain, a, descriptors[i], few[:0])
		if requests++; a.override != nil {
			requests++
		}
	}
	if requests > bounds.MaxBatch {
		return fmt.Errorf("rls: descriptors: want at most %d, and those with a limit of their own count twice, got %d", MaxDescriptors, requests)
	}
	return nil
}

// readOne finds the limit of one descriptor.
func (s *Server) readOne(d *decision, a *check, r *pb.RateLimitRequest, from *common.RateLimitDescriptor, few []ratelimit.Entry) error {
	a.ok = true
	a.hits, a.refund = uint64(max(1, r.GetHitsAddend())), from.GetIsNegativeHits()
	if h := from.GetHitsAddend(); h != nil {
		a.hits = h.GetValue()
	}
	matched := false
	if len(from.GetEntries()) <= d.domain.Depth() {
		a.match, matched = d.domain.Match(entries(from, few))
	}
	if o := from.GetLimit(); o != nil {
		override, err := s.overrides.of(o)
		if err != nil {
			return err
		}
		a.limit, a.override = &override.limit, override
		a.match.Key = d.domain.Key(entries(from, few))
		a.match.Descriptor = nil
		return nil
	}
	if matched {
		a.limit = a.match.Limit
	}
	return nil
}

func entries(d *common.RateLimitDescriptor, into []ratelimit.Entry) []ratelimit.Entry {
	for _, e := range d.GetEntries() {
		into = append(into, ratelimit.Entry{Key: e.GetKey(), Value: e.GetValue()})
	}
	return into
}

// dropReplaced removes limits that another limit of the request replaces, even if that
// one is replaced too. Unlimited ones stay.
func dropReplaced(asks []check) {
	var replaced map[string]bool
	for i := range asks {
		if asks[i].limit == nil {
			continue
		}
		for _, name := range asks[i].limit.Replaces {
			if replaced == nil {
				replaced = map[string]bool{}
			}
			replaced[name] = true
		}
	}
	if replaced == nil {
		return
	}
	for i := range asks {
		if l := asks[i].limit; l != nil && l.Name != "" && replaced[l.Name] && !l.Unlimited {
			asks[i].match, asks[i].limit = ratelimit.Match{}, nil
		}
	}
}

// prepare builds the request of a to the store.
func (s *Server) prepare(gens *generations, domain *ratelimit.Domain, a *check, from *common.RateLimitDescriptor, few []ratelimit.Entry) {
	if a.limit == nil {
		a.quota = s.c.Quota
		return
	}
	a.quota = s.c.Quota || a.limit.Quota
	switch {
	case a.limit.Unlimited:
		return
	case a.limit.Shadow:
		a.role = shadow
	case a.quota:
		a.role = quota
	}
	if a.limit.Blocks() {
		a.ok = a.refund
		return
	}
	a.request = weir.Request{Key: s.c.KeyPrefix + a.match.Key, Limit: a.limit.Limit, N: int64(min(a.hits, maxHits))}
	switch {
	case a.hits == 0:
		// A check for remaining quota: one hit has to fit.
		a.request.Verb, a.request.N, a.deciding = weir.Peek, 1, true
		s.budgets.note(domain, a)
	case a.refund:
		a.request.Verb = weir.Return
	default:
		a.request.Verb, a.deciding = weir.Take, true
		a.overLimit = s.budgets.counts(domain, a)
	}
	if a.override != nil {
		a.request.Limit = a.override.counted
	} else if len(gens.previous) > 0 {
		a.request.From = gens.previousLimits(domain.Name, a, entries(from, few), s.c.Now())
	}
}

// previousLimits returns the limits of a descriptor in previous configurations, newest
// first.
func (g *generations) previousLimits(domain string, a *check, es []ratelimit.Entry, now time.Time) []weir.Limit {
	var from []weir.Limit
	for _, f := range g.previous {
		if !f.relevantUntil.After(now) {
			continue
		}
		m, ok := f.limits.Domain(domain).Match(es)
		if !ok || m.Key != a.match.Key || m.Limit.Limit.IsZero() || m.Limit.Limit.Equal(a.limit.Limit) {
			continue
		}
		known := false
		for _, l := range from {
			known = known || l.Equal(m.Limit.Limit)
		}
		if !known {
			from = append(from, m.Limit.Limit)
		}
	}
	return from
}
