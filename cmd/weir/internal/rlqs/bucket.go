package rlqs

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/share"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// kind says how a bucket is limited.
type kind uint8

const (
	unlimited kind = iota // no limit, or one that admits everything
	blocked               // a limit of 0
	limited
)

// limitName names the states of all limits, so that a changed limit of a bucket has the same row.
const limitName = "rlqs"

// A bucket is a bucket of a client.
type bucket struct {
	id      *pb.BucketId
	key     string // its identity in the stream
	entries []ratelimit.Entry
	excess  bool // there are too many buckets: it is not kept
	queued  bool // for a response

	limits  *ratelimit.Config // of matched
	matched ratelimit.Match   // without a Limit if there is none
	kind    kind

	requested time.Time // the last report with requests
	counted   time.Time // the last measurement of the demand
	requests  int64     // since then
	answered  time.Time // of a kind other than limited
	bare      bool      // nothing was promised at the last report

	grant grant
	claim share.Claim
}

func newBucket(c *Config, id *pb.BucketId, key string, entries []ratelimit.Entry, now time.Time) *bucket {
	b := &bucket{id: id, key: key, entries: entries, requested: now, counted: now, bare: true, grant: grant{c: c, id: rand.Uint64()}}
	b.claim = share.Claim{Holder: b.grant.id, Lease: c.lease(), Decide: b.grant.decide}
	return b
}

// descriptor returns the entries of an id, sorted by key.
func descriptor(id map[string]string) (entries []ratelimit.Entry, err error) {
	switch {
	case len(id) == 0:
		return nil, fmt.Errorf("got no pairs, want 1 to %d", MaxPairs)
	case len(id) > MaxPairs:
		return nil, fmt.Errorf("got %d pairs, want 1 to %d", len(id), MaxPairs)
	}
	for _, key := range slices.Sorted(maps.Keys(id)) {
		value := id[key]
		if key == "" || value == "" || len(key) > MaxText || len(value) > MaxText {
			return nil, fmt.Errorf("got the pair %.100q: %.100q, want a key and a value of 1 to %d bytes", key, value, MaxText)
		}
		entries = append(entries, ratelimit.Entry{Key: key, Value: value})
	}
	return entries, nil
}

// identity returns a text that differs for different entries.
func identity(entries []ratelimit.Entry) string {
	var b []byte
	for _, e := range entries {
		for _, text := range []string{e.Key, e.Value} {
			b = append(strconv.AppendInt(b, int64(len(text)), 10), ':')
			b = append(b, text...)
		}
	}
	return string(b)
}

// match finds the limit of the bucket, if the limits have changed.
func (b *bucket) match(limits *ratelimit.Config, domain *ratelimit.Domain, c *Config) {
	if b.limits == limits {
		return
	}
	b.limits, b.answered = limits, time.Time{}
	b.matched, _ = domain.Match(b.entries)
	was := b.kind
	switch l := b.matched.Limit; {
	case l == nil || l.Unlimited || l.Shadow || c.Shadow:
		b.kind = unlimited
	case l.Blocks():
		b.kind = blocked
	default:
		b.kind = limited
		b.grant.every, _ = fits(l.Limit) // Check has accepted it
		b.grant.since = time.Time{}      // it may be changed at once
		b.claim.Key, b.claim.Limit = b.matched.Key, l.Limit.Named(limitName)
	}
	if was == limited && b.kind != limited {
		b.grant.known = false // the client gets another assignment
	}
}

// leastGap is the least time over which a demand is measured.
const leastGap = time.Second

// count adds what the client used. If clients admit without an assignment, such counts are charged to
// the remainder. Otherwise the first counts of a stream are from a former one, and paid for.
func (b *bucket) count(u *pb.RateLimitQuotaUsageReports_BucketQuotaUsage, now time.Time) {
	allowed := int64(min(u.GetNumRequestsAllowed(), maxCount))
	n := allowed + int64(min(u.GetNumRequestsDenied(), maxCount))
	b.requests += n
	if n > 0 {
		b.requested = now
	}
	if b.bare && b.grant.c.AfterExpiry.Allow {
		b.claim.Used = min(b.claim.Used+allowed, maxCount)
	}
}

// The ages of an assignment from which a report renews it, and from which it replaces a denial or a
// guess.
const (
	renewAfter   = 4 * time.Second
	replaceAfter = time.Second
)

// prepare measures the demand and prepares the claim of a report. It returns false if the assignment
// is not due. Limits of a ledger that was empty before quiet have no tokens then, because nothing is
// known of their use.
func (b *bucket) prepare(begin, quiet time.Time) bool {
	g := &b.grant
	if gap := begin.Sub(b.counted); gap >= leastGap {
		g.observe(b.requests, gap)
		b.requests, b.counted = 0, begin
	}
	g.forget(begin)
	b.bare = len(g.promises) == 0
	age := begin.Sub(g.sent)
	if g.known && (age < replaceAfter || age < renewAfter && g.current.tokens > 0 && !g.since.IsZero()) {
		return false
	}
	g.begin, b.claim.Demand, b.claim.New = begin, g.demand, 0
	if l := b.claim.Limit; !quiet.IsZero() {
		refilled := begin.Sub(quiet).Seconds() * float64(l.Count()) / l.Period().Seconds()
		b.claim.New = l.Capacity() - int64(min(refilled, float64(l.Capacity())))
	}
	return true
}

// promise records the plan of the claim, and returns its action.
func (b *bucket) promise() (Action, *pb.RateLimitQuotaResponse_BucketAction) {
	g := &b.grant
	action, end := Denied, g.begin.Add(g.c.lease())
	switch g.next.outcome {
	case renewed:
		action = Renewed
		g.promises[len(g.promises)-1].end = end
	case changed:
		action, b.bare = Assigned, false
		g.promises = append(g.promises, promise{g.next.assignment, end})
		g.current, g.since = g.next.assignment, time.Time{}
		if g.measured {
			g.since = g.begin
		}
	case denied:
		g.current, g.since = assignment{}, time.Time{}
	}
	g.known, g.sent = true, g.begin
	return action, b.assign(g.current, g.c.TTL)
}

func (b *bucket) assign(a assignment, ttl time.Duration) *pb.RateLimitQuotaResponse_BucketAction {
	strategy := blanket(typepb.RateLimitStrategy_DENY_ALL)
	if a.tokens > 0 {
		strategy = &typepb.RateLimitStrategy{Strategy: &typepb.RateLimitStrategy_TokenBucket{TokenBucket: &typepb.TokenBucket{
			MaxTokens: uint32(a.burst), TokensPerFill: wrapperspb.UInt32(uint32(a.tokens)), FillInterval: durationpb.New(a.every),
		}}}
	}
	return b.with(strategy, ttl)
}

func (b *bucket) with(strategy *typepb.RateLimitStrategy, ttl time.Duration) *pb.RateLimitQuotaResponse_BucketAction {
	return &pb.RateLimitQuotaResponse_BucketAction{
		BucketId: b.id,
		BucketAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
			QuotaAssignmentAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
				AssignmentTimeToLive: durationpb.New(ttl), RateLimitStrategy: strategy,
			},
		},
	}
}

func blanket(rule typepb.RateLimitStrategy_BlanketRule) *typepb.RateLimitStrategy {
	return &typepb.RateLimitStrategy{Strategy: &typepb.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
}

// fixed returns the action for a bucket whose limit needs no ledger.
func (b *bucket) fixed() (Action, *pb.RateLimitQuotaResponse_BucketAction) {
	if b.kind == blocked {
		return Denied, b.assign(assignment{}, unlimitedTTL)
	}
	return Allowed, b.with(blanket(typepb.RateLimitStrategy_ALLOW_ALL), unlimitedTTL)
}

func (b *bucket) abandon() *pb.RateLimitQuotaResponse_BucketAction {
	return &pb.RateLimitQuotaResponse_BucketAction{
		BucketId: b.id,
		BucketAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction_{
			AbandonAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction{},
		},
	}
}
