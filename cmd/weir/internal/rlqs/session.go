package rlqs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A session is one stream of reports. Its client is a new holder of all its buckets, because what a
// former stream of it was sent may still be in use.
type session struct {
	s       *Server
	stream  pb.RateLimitQuotaService_StreamRateLimitQuotasServer
	slow    context.CancelCauseFunc // ends the stream
	domain  string                  // "" before the first report
	buckets map[string]*bucket      // by identity
}

// StreamRateLimitQuotas answers the reports of a stream in their order, each before the next one is
// read. It ends when the client disconnects, the server drains, or a response cannot be sent within
// Delivery.
func (s *Server) StreamRateLimitQuotas(stream pb.RateLimitQuotaService_StreamRateLimitQuotasServer) error {
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	n := &session{s: s, stream: stream, slow: cancel, buckets: map[string]*bucket{}}
	s.streams.Add(1)
	ended := make(chan error, 1)
	go func() { ended <- n.run(ctx) }() // a receive ends only with the stream
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return status.Error(codes.Unavailable, fmt.Sprintf("rlqs: the stream ends: %v", context.Cause(ctx)))
	}
}

// run answers reports until the stream ends. A panic becomes an error, as in a call.
func (n *session) run(ctx context.Context) (err error) {
	defer func() {
		n.s.streams.Add(-1)
		n.s.buckets.Add(-int64(len(n.buckets)))
		if p := recover(); p != nil {
			n.s.c.Log.Error("panic in a stream", "panic", p)
			err = status.Error(codes.Internal, "rlqs: internal error")
		}
	}()
	for {
		r, err := n.stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if err := n.report(ctx, r); err != nil {
			return err
		}
	}
}

// report answers one report.
func (n *session) report(ctx context.Context, r *pb.RateLimitQuotaUsageReports) error {
	limits := n.s.limits.Load()
	if limits == nil {
		return status.Error(codes.Unavailable, "rlqs: no rate limit configuration is loaded")
	}
	if err := n.check(r); err != nil {
		return status.Error(codes.InvalidArgument, "rlqs: "+err.Error())
	}
	domain := limits.Domain(n.domain)
	now := time.Now()
	var due []*bucket
	for i, u := range r.GetBucketQuotaUsages() {
		b, err := n.bucket(u.GetBucketId(), now)
		if err != nil {
			return status.Error(codes.InvalidArgument, fmt.Sprintf("rlqs: bucket_quota_usages[%d].bucket_id: %v", i, err))
		}
		b.match(limits, domain, &n.s.c)
		b.count(u, now)
		n.observe(b, u)
		if !b.queued {
			b.queued = true
			due = append(due, b)
		}
	}
	for len(due) > 0 {
		size := min(batch, len(due))
		if err := n.answer(ctx, due[:size]); err != nil {
			return err
		}
		due = due[size:]
	}
	return nil
}

// check checks the domain of a report.
func (n *session) check(r *pb.RateLimitQuotaUsageReports) error {
	switch d := r.GetDomain(); {
	case d == "" && n.domain == "":
		return errors.New("domain: got none in the first report, want the name of a domain")
	case d == "" || d == n.domain:
	case n.domain != "":
		return fmt.Errorf("domain: got %.100q, want %q as in the first report, or none", d, n.domain)
	case !n.s.known(d):
		return fmt.Errorf("domain: got %.100q, want one of %s", d, strings.Join(n.s.c.Domains, ", "))
	default:
		n.domain = d
	}
	return nil
}

// bucket returns the bucket of an id. It is not kept if there are too many.
func (n *session) bucket(id *pb.BucketId, now time.Time) (*bucket, error) {
	entries, err := descriptor(id.GetBucket())
	if err != nil {
		return nil, err
	}
	key := identity(entries)
	if b := n.buckets[key]; b != nil {
		return b, nil
	}
	b := newBucket(&n.s.c, id, key, entries, now)
	if len(n.buckets) >= MaxBuckets || n.s.buckets.Load() >= maxAll {
		b.excess = true
		return b, nil
	}
	n.buckets[key] = b
	n.s.buckets.Add(1)
	return b, nil
}

// observe reports what a client used.
func (n *session) observe(b *bucket, u *pb.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	if b.matched.Limit == nil {
		return
	}
	n.s.observe(Event{
		Domain: n.domain, Path: b.matched.Path, Label: b.matched.Label,
		Allowed: min(u.GetNumRequestsAllowed(), maxCount), Denied: min(u.GetNumRequestsDenied(), maxCount),
	})
}

// answer sends a response for buckets, at most batch.
func (n *session) answer(ctx context.Context, due []*bucket) error {
	begin := time.Now()
	response := &pb.RateLimitQuotaResponse{}
	add := func(action Action, what *pb.RateLimitQuotaResponse_BucketAction) {
		response.BucketAction = append(response.BucketAction, what)
		n.s.observe(Event{Domain: n.domain, Action: action})
	}
	var claimed []*bucket
	for _, b := range due {
		b.queued = false
		switch {
		case begin.Sub(b.requested) >= idleAfter || b.excess && b.requests == 0:
			add(Abandoned, b.abandon())
			n.remove(b)
		case b.excess:
			add(Denied, b.assign(assignment{}, unlimitedTTL))
		case b.kind != limited:
			if begin.Sub(b.answered) >= unlimitedTTL/3 {
				b.answered = begin
				add(b.fixed())
			}
		case begin.Before(n.s.quiet):
			add(Denied, b.assign(assignment{}, n.s.quiet.Sub(begin).Truncate(time.Second)+time.Second))
		case b.prepare(begin, n.s.quiet):
			claimed = append(claimed, b)
		}
	}
	if err := n.claim(ctx, claimed, begin, add); err != nil {
		return err
	}
	if len(response.BucketAction) == 0 {
		return nil
	}
	stuck := time.AfterFunc(Delivery, func() { n.slow(errStuck) })
	defer stuck.Stop()
	return n.stream.Send(response)
}

// claim makes the claims of buckets, and adds the actions of their plans.
func (n *session) claim(ctx context.Context, buckets []*bucket, begin time.Time, add func(Action, *pb.RateLimitQuotaResponse_BucketAction)) error {
	if len(buckets) == 0 {
		return nil
	}
	claims := make([]*share.Claim, len(buckets))
	for i, b := range buckets {
		claims[i] = &b.claim
	}
	if err := n.s.grants.Do(ctx, claims...); err != nil {
		if ctx.Err() == nil && !errors.Is(err, weir.ErrClosed) {
			n.s.failed(n.domain, err)
		}
		return status.Error(codes.Unavailable, "rlqs: "+err.Error())
	}
	late := time.Since(begin) > sendWithin
	for _, b := range buckets {
		err := b.claim.Err
		if err == nil {
			b.claim.Used = 0
		}
		switch {
		case errors.Is(err, weir.ErrFull):
			b.grant.known = false
			add(Denied, b.assign(assignment{}, n.s.c.TTL))
		case err == nil && late:
			n.s.failed(n.domain, errSlow)
		case err != nil:
			n.s.failed(n.domain, err)
		case b.grant.next.outcome != silent:
			add(b.promise())
		}
	}
	return nil
}

var errStuck = fmt.Errorf("a response was not sent within %v", Delivery)

// remove ends the subscription of a bucket. The row keeps its part until the lease ends.
func (n *session) remove(b *bucket) {
	if n.buckets[b.key] == b {
		delete(n.buckets, b.key)
		n.s.buckets.Add(-1)
	}
}
