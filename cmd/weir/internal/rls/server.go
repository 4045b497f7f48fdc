package rls

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Config describes a Server. Store is required.
type Config struct {
	// Store decides.
	Store weir.Store

	// Limits is the configuration. Until there is one, requests get an error.
	Limits *ratelimit.Config

	// Shadow answers OK to every request, and decides and counts as ever. The codes of
	// descriptors say what was decided.
	Shadow bool

	// Quota puts every limit into quota mode.
	Quota bool

	// ResponseHeaders adds RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset of
	// the limit that is nearest to its end to every answer.
	ResponseHeaders bool

	// DynamicMetadata adds the request, and the metadata of the limits that admitted it,
	// to every answer.
	DynamicMetadata bool

	// Log is where it is said that the store made no decision, at most once a second;
	// nowhere if nil.
	Log *slog.Logger

	// Observe is told what every limit did, if not nil. It has to be quick.
	Observe func(Event)

	// Now is the time where no store says it; time.Now if nil.
	Now func() time.Time
}

// A Server answers Envoy.
type Server struct {
	pb.UnimplementedRateLimitServiceServer

	c          Config
	limits     atomic.Pointer[generations]
	swap       sync.Mutex // for Use
	overrides  overrides
	budgets    budgets
	labels     labels
	lastLogged atomic.Int64 // when the log was last told of an error, in s
}

// New makes a Server.
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
	s := &Server{c: c}
	s.limits.Store(&generations{now: c.Limits})
	return s, nil
}

// Register makes g answer for s.
func (s *Server) Register(g grpc.ServiceRegistrar) { pb.RegisterRateLimitServiceServer(g, s) }

// maxFormer is how many configurations are remembered behind the one in force.
const maxPrevious = 4

// generations are the configuration in force and those before it, newest first.
type generations struct {
	now      *ratelimit.Config
	previous []previous
}

type previous struct {
	limits        *ratelimit.Config
	relevantUntil time.Time // when nothing counts any more that was counted under it
}

// Use puts another configuration into force for every request that begins from now on.
// A descriptor whose limit changed keeps what it used: of a limit that grew what is left
// grows by as much, of one that shrank the share stays that was left. Limits of the last
// four configurations are remembered, each for as long as it counted.
func (s *Server) Use(limits *ratelimit.Config) {
	s.swap.Lock()
	defer s.swap.Unlock()
	old := s.limits.Load()
	if old.now != nil && old.now.Equal(limits) {
		return // it is no other configuration
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

// longest is the longest time that a limit of c counts what it admitted.
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
	d, err := s.read(gens, r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	if err := s.decide(ctx, d); err != nil {
		err = fmt.Errorf("rls: domain %q: %w", r.GetDomain(), err)
		s.failed(ctx, d, err)
		return nil, failure(ctx, err)
	}
	answer := s.answer(r, d)
	s.observe(d)
	return answer, nil
}

// failure is the error of a request that was not decided.
func failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case errors.Is(err, weir.ErrInvalid):
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.Unavailable, err.Error())
}
