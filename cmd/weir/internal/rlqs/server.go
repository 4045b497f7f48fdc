package rlqs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/share"
	"google.golang.org/grpc"
)

// An Event is an action for a bucket of a client, or what the client reported of it.
type Event struct {
	Domain string // of Config.Domains
	Action Action // "" for a report

	// The fields of a report: Path names the limit, as in "message_type_marketing.to_number". Label is Path, or
	// one with values of requests.
	Path, Label     string
	Allowed, Denied uint64 // requests; at most 2^40
}

// An Action names the effect of a response on a bucket.
type Action string

// The actions.
const (
	Assigned  Action = "assigned"  // a token bucket, which costs tokens
	Renewed   Action = "renewed"   // the same one again
	Denied    Action = "denied"    // nothing is left, or the limit denies everything
	Allowed   Action = "allowed"   // there is no limit
	Abandoned Action = "abandoned" // nothing was requested for a minute
	Failed    Action = "failed"    // no response: the ledger is unavailable
)

// Actions lists all actions.
func Actions() []Action { return []Action{Assigned, Renewed, Denied, Allowed, Abandoned, Failed} }

// Stats are the counts of a Server.
type Stats struct {
	Streams int64
	Buckets int64 // of all streams
}

// A Server implements Envoy's rate limit quota service.
type Server struct {
	pb.UnimplementedRateLimitQuotaServiceServer

	c      Config
	grants *share.Grants
	quiet  time.Time // nothing is granted before
	limits atomic.Pointer[ratelimit.Config]

	streams, buckets atomic.Int64
	lastLogged       atomic.Int64 // Unix time of the last error in the log, in s
	closing          sync.Once
}

// New returns a Server without limits. Close ends it.
func New(c Config) (*Server, error) {
	c, err := c.normalize()
	if err != nil {
		return nil, err
	}
	s := &Server{c: c}
	if s.grants, err = share.NewGrants(c.Ledger, share.Config{Drift: c.Drift, Timeout: sendWithin}); err != nil {
		return nil, fmt.Errorf("rlqs: %w", err)
	}
	if c.Volatile {
		s.quiet = time.Now().Add(c.lease())
	}
	return s, nil
}

// Use puts limits into force for every report that arrives from now on. An error lists the limits
// that cannot be divided among clients; the former ones then stay.
func (s *Server) Use(limits *ratelimit.Config) error {
	if err := Check(limits, s.c.Domains); err != nil {
		return err
	}
	s.limits.Store(limits)
	return nil
}

// Domains lists the domains of the service.
func (s *Server) Domains() []string { return s.c.Domains }

// Match returns the limit of a bucket of a domain, and without a Limit if there is none. An error
// describes the id.
func (s *Server) Match(domain string, id map[string]string) (ratelimit.Match, error) {
	entries, err := descriptor(id)
	if err != nil {
		return ratelimit.Match{}, err
	}
	m, ok := s.limits.Load().Domain(domain).Match(entries)
	if ok && s.c.Shadow {
		l := *m.Limit
		l.Shadow, m.Limit = true, &l
	}
	return m, nil
}

// Division returns how clients divide a limit that Match has returned. An error wraps
// weir.ErrInvalid or weir.ErrUnavailable.
func (s *Server) Division(ctx context.Context, m ratelimit.Match) (share.Division, error) {
	return s.grants.Explain(ctx, m.Key, m.Limit.Limit.Named(limitName))
}

// ServiceName is the full name of the service, for health checks.
const ServiceName = "envoy.service.rate_limit_quota.v3.RateLimitQuotaService"

// Register adds the service to g.
func (s *Server) Register(g grpc.ServiceRegistrar) { pb.RegisterRateLimitQuotaServiceServer(g, s) }

// Stats returns the counts.
func (s *Server) Stats() Stats { return Stats{s.streams.Load(), s.buckets.Load()} }

// Close ends the calls of the ledger. Clients keep their assignments until they expire. Closing
// again does nothing.
func (s *Server) Close() { s.closing.Do(s.grants.Close) }

func (s *Server) observe(e Event) {
	if s.c.Observe != nil {
		s.c.Observe(e)
	}
}

// failed reports that a bucket gets no response.
func (s *Server) failed(domain string, err error) {
	s.observe(Event{Domain: domain, Action: Failed})
	now, last := time.Now().Unix(), s.lastLogged.Load()
	if now != last && s.lastLogged.CompareAndSwap(last, now) {
		s.c.Log.Error("quota not assigned", "domain", domain, "error", err)
	}
}

// known reports whether a domain is one of the service.
func (s *Server) known(domain string) bool { return slices.Contains(s.c.Domains, domain) }

var errSlow = errors.New("the ledger took too long")
