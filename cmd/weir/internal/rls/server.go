package rls

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/enforce"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcmetadata "google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Config is the configuration of a Server. Store is required.
type Config struct {
	// Store decides the requests.
	Store weir.Store

	// Limits is the configuration. Requests get an error while there is none.
	Limits *ratelimit.Config

	// Elsewhere lists domains that another service has. Requests for them are invalid.
	Elsewhere []string

	// Shadow admits every request, but still decides and counts. The codes of the
	// descriptors show the decisions.
	Shadow bool

	// Quota puts every limit into quota mode.
	Quota bool

	// ResponseHeaders adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of
	// the limit nearest to its end to every response. Headers, if not empty, has other
	// names for these three.
	ResponseHeaders bool
	Headers         [3]string

	// NearRatio is the part of a limit above which hits are near it; 0.8 if zero.
	NearRatio float64

	// KeyPrefix precedes the keys of all limits.
	KeyPrefix string

	// DynamicMetadata adds the request, and the metadata of the limits that admitted it,
	// to every response.
	DynamicMetadata bool

	// Log receives errors of the store, at most one per second; nothing is logged if nil.
	Log *slog.Logger

	// Observe receives the decision of every limit, if not nil. It must be fast.
	Observe func(Event)

	// Now returns the time if the store does not; time.Now if nil.
	Now func() time.Time
}

// A Server implements Envoy's rate limit service.
type Server struct {
	pb.UnimplementedRateLimitServiceServer

	c          Config
	limits     atomic.Pointer[generations]
	swap       sync.Mutex // held by Use
	overrides  overrides
	budgets    budgets
	labels     labels
	free       sync.Pool    // of *decision
	lastLogged atomic.Int64 // Unix time of the last store error in the log, in s
}

// New returns a Server.
func New(c Config) (*Server, error) {
	if c.Store == nil {
		return nil, errors.New("rls: store: want a store, got nil")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.NearRatio == 0 {
		c.NearRatio = 0.8
	}
	for i, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"} {
		c.Headers[i] = cmp.Or(c.Headers[i], name)
	}
	s := &Server{c: c}
	s.limits.Store(&generations{now: c.Limits})
	return s, nil
}

// Register adds Envoy's service and that of stream.proto to g.
func (s *Server) Register(g grpc.ServiceRegistrar) {
	pb.RegisterRateLimitServiceServer(g, s)
	g.RegisterService(streamDesc(), s)
}

// maxPrevious is the maximum number of previous configurations that are kept.
const maxPrevious = 4

// generations holds the configuration in force and the previous ones, newest first.
type generations struct {
	now      *ratelimit.Config
	previous []previous
}

type previous struct {
	limits        *ratelimit.Config
	relevantUntil time.Time // end of the longest period of its limits
}

// Use puts another configuration into force for every request that begins from now on. A
// descriptor whose limit changed keeps its state. If the limit grew, the remaining quota
// grows by as much; if it shrank, the remaining fraction stays. Limits of the last four
// configurations are kept, each for its longest period.
func (s *Server) Use(limits *ratelimit.Config) {
	s.swap.Lock()
	defer s.swap.Unlock()
	old := s.limits.Load()
	if old.now != nil && old.now.Equal(limits) {
		return // unchanged
	}
	next := &generations{now: limits}
	now := s.c.Now()
	if old.now != nil {
		next.previous = append(next.previous, previous{old.now, now.Add(longest(old.now))})
	}
	for _, f := range old.previous {
		if len(next.previous) < maxPrevious && f.relevantUntil.After(now) {
			next.previous = append(next.previous, f)
		}
	}
	s.limits.Store(next)
}

// longest returns the longest period of the limits of c.
func longest(c *ratelimit.Config) time.Duration {
	var most time.Duration
	var walk func([]*ratelimit.Descriptor)
	walk = func(ds []*ratelimit.Descriptor) {
		for _, d := range ds {
			if d.Limit != nil && !d.Limit.Limit.IsZero() {
				most = max(most, time.Duration(d.Limit.Limit.Spec().Rule.Horizon())*time.Microsecond)
			}
			walk(d.Descriptors)
		}
	}
	for _, d := range c.Domains() {
		walk(d.Descriptors)
	}
	return most
}

// ShouldRateLimit decides one request.
func (s *Server) ShouldRateLimit(ctx context.Context, r *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	gens := s.limits.Load()
	if gens.now == nil {
		return nil, status.Error(codes.Unavailable, "rls: no rate limit configuration is loaded")
	}
	d, ok := s.free.Get().(*decision)
	if !ok {
		d = new(decision)
	}
	defer func() {
		d.reset()
		s.free.Put(d)
	}()
	if err := s.read(gens, r, d); err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.decide(ctx, d); err != nil {
		err = fmt.Errorf("rls: domain %q: %w", r.GetDomain(), err)
		s.failed(ctx, d, err)
		if errors.Is(err, weir.ErrOverloaded) {
			h := http.Header{}
			problem.SetRetryAfter(h, enforce.RetryAfter(err))
			_ = grpc.SetTrailer(ctx, grpcmetadata.Pairs("retry-after", h.Get("Retry-After"))) // fails at /json
		}
		return nil, failure(ctx, err)
	}
	answer := s.answer(r, d)
	s.observe(d)
	return answer, nil
}

// An overloadError is the error of a request that this process is too busy to decide.
type overloadError struct{ error }

// GRPCStatus returns the status that the gRPC server sends.
func (e overloadError) GRPCStatus() *status.Status { return status.New(codes.Unavailable, e.Error()) }

// Unwrap returns the error of the store.
func (e overloadError) Unwrap() error { return e.error }

// failure returns the error of a request without a decision.
func failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, weir.ErrInvalid):
		return status.Error(codes.InvalidArgument, err.Error())
	case errors.Is(err, weir.ErrOverloaded):
		return overloadError{err}
	}
	return status.Error(codes.Unavailable, err.Error())
}
