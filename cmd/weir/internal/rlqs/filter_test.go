package rlqs_test

import (
	"context"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A manner selects how a client deviates from others.
type manner struct {
	full   bool          // a different token bucket starts full; otherwise with the fill ratio of the old one
	steps  bool          // refills at the end of each fill interval; otherwise continuously
	reuse  time.Duration // after the expiry
	allow  bool          // after the expiry, and without an assignment
	drift  float64       // of its clock
	once   bool          // domain only in the first report of a stream
	hungry bool          // takes all that its bucket has, also before and after each response
	late   time.Duration // stops for so long before it applies a response
}

// A filter is a client that behaves like the filter of an Envoy process with one bucket. Its methods
// run on its goroutine.
type filter struct {
	t      testing.TB
	w      *world
	link   *link
	id     map[string]string
	manner manner
	rand   *rand.Rand

	mu     sync.Mutex
	server *listener     // of the next connection
	rate   float64       // requests per second
	paused time.Duration // before the next response is applied
	held   time.Time     // no reports before

	stop  context.CancelFunc
	ended chan struct{}

	stream    pb.RateLimitQuotaService_StreamRateLimitQuotasClient
	first     bool // the next report is the first one of the stream
	close     func()
	responses chan received

	cached   bool
	assigned *pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction
	received time.Time
	level    float64
	counted  time.Time // when level was
	allowed  uint64
	denied   uint64
	reported time.Time

	// For tests; guarded by mu.
	admitted, refused int64
	changes, renewals int
	abandoned         int
	streams           int
	answers           int
	most              int // requests that an assignment allows in its time to live
}

type received struct {
	r    *pb.RateLimitQuotaResponse
	from pb.RateLimitQuotaService_StreamRateLimitQuotasClient
}

// run is the client until its context ends.
func (f *filter) run(ctx context.Context) {
	defer close(f.ended)
	defer func() { f.disconnect() }()
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	arrival := time.NewTimer(f.gap())
	defer arrival.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-arrival.C:
			f.request()
			arrival.Reset(f.gap())
		case <-tick.C:
			if f.cached && !f.holds() {
				f.report(time.Since(f.reported))
			}
		case r := <-f.responses:
			if p := f.pause() + f.manner.late; p > 0 { // it was stopped after the kernel received the response
				rlqs.Pass(p)
			}
			if r.r == nil {
				if r.from == f.stream {
					f.disconnect()
				}
				continue
			}
			for _, a := range r.r.GetBucketAction() {
				f.apply(a)
			}
		}
	}
}

func (f *filter) pause() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.paused
	f.paused = 0
	return p
}

// hold sends no reports for a time.
func (f *filter) hold(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = time.Now().Add(d)
}

func (f *filter) holds() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Now().Before(f.held)
}

// gap returns the time until the next request.
func (f *filter) gap() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.rate <= 0 {
		return 100 * time.Millisecond
	}
	return 1 + time.Duration(f.rand.ExpFloat64()/f.rate*float64(time.Second))
}

// now returns the time of the client's clock.
func (f *filter) now() time.Time {
	n := time.Now()
	return n.Add(time.Duration(float64(n.Sub(f.w.start)) * f.manner.drift))
}

// drain requests until a denial.
func (f *filter) drain() {
	n := uint64(0)
	for n < 1e6 && f.decide() {
		n++
	}
	if n > 0 {
		f.allowed += n
		f.w.admit(int64(n))
		f.mu.Lock()
		f.admitted += int64(n)
		f.mu.Unlock()
	}
}

// request decides one request.
func (f *filter) request() {
	f.mu.Lock()
	idle := f.rate <= 0
	f.mu.Unlock()
	if idle {
		return
	}
	ok := f.decide()
	f.mu.Lock()
	if ok {
		f.admitted++
	} else {
		f.refused++
	}
	f.mu.Unlock()
	if ok {
		f.allowed++
		f.w.admit(1)
	} else {
		f.denied++
	}
	if f.manner.hungry {
		f.drain()
	}
	if !f.cached {
		f.cached = true
		f.report(0)
	}
}

func (f *filter) decide() bool {
	if f.assigned == nil {
		return f.manner.allow
	}
	age := f.now().Sub(f.received)
	if ttl := f.assigned.GetAssignmentTimeToLive().AsDuration(); age >= ttl {
		if age < ttl+f.manner.reuse {
			return f.take()
		}
		f.assigned = nil
		return f.manner.allow
	}
	return f.take()
}

func (f *filter) take() bool {
	s := f.assigned.GetRateLimitStrategy()
	b := s.GetTokenBucket()
	if b == nil {
		return s.GetBlanketRule() == typepb.RateLimitStrategy_ALLOW_ALL
	}
	now := f.now()
	every := b.GetFillInterval().AsDuration()
	fill := float64(b.GetTokensPerFill().GetValue())
	if f.manner.steps {
		n := now.Sub(f.counted) / every
		f.level = min(float64(b.GetMaxTokens()), f.level+float64(n)*fill)
		f.counted = f.counted.Add(n * every)
	} else {
		f.level = min(float64(b.GetMaxTokens()), f.level+now.Sub(f.counted).Seconds()/every.Seconds()*fill)
		f.counted = now
	}
	if f.level < 1 {
		return false
	}
	f.level--
	return true
}

// apply applies an action of a response.
func (f *filter) apply(a *pb.RateLimitQuotaResponse_BucketAction) {
	f.mu.Lock()
	f.answers++
	f.mu.Unlock()
	if !f.cached || !proto.Equal(a.GetBucketId(), &pb.BucketId{Bucket: f.id}) {
		return
	}
	if a.GetAbandonAction() != nil {
		f.cached, f.assigned, f.allowed, f.denied = false, nil, 0, 0
		f.mu.Lock()
		f.abandoned++
		f.mu.Unlock()
		return
	}
	if f.manner.hungry {
		f.drain()
		defer f.drain()
	}
	next, old := a.GetQuotaAssignmentAction(), f.assigned
	now := f.now()
	if old != nil && now.Sub(f.received) >= old.GetAssignmentTimeToLive().AsDuration() {
		old = nil
	}
	b, was := next.GetRateLimitStrategy().GetTokenBucket(), old.GetRateLimitStrategy().GetTokenBucket()
	same := proto.Equal(next.GetRateLimitStrategy(), old.GetRateLimitStrategy())
	f.mu.Lock()
	if same {
		f.renewals++
	} else {
		f.changes++
	}
	f.mu.Unlock()
	switch {
	case same:
	case b != nil && was != nil && !f.manner.full:
		f.take() // refills
		f.level = min(f.level+1, float64(was.GetMaxTokens())) * float64(b.GetMaxTokens()) / float64(was.GetMaxTokens())
		f.counted = now
	case b != nil:
		f.level, f.counted = float64(b.GetMaxTokens()), now
	}
	f.assigned, f.received = next, now
	if b != nil {
		fill := float64(b.GetTokensPerFill().GetValue())
		all := float64(b.GetMaxTokens()) + fill + fill*next.GetAssignmentTimeToLive().AsDuration().Seconds()/b.GetFillInterval().AsDuration().Seconds()
		f.mu.Lock()
		f.most = max(f.most, int(all))
		f.mu.Unlock()
	}
}

// report reports the bucket, and opens a stream if there is none.
func (f *filter) report(elapsed time.Duration) {
	f.reported = time.Now()
	if f.stream == nil && !f.connect() {
		f.allowed, f.denied = 0, 0 // Envoy loses them
		return
	}
	r := &pb.RateLimitQuotaUsageReports{
		Domain: domain,
		BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{{
			BucketId: &pb.BucketId{Bucket: f.id}, TimeElapsed: durationpb.New(elapsed.Truncate(time.Second)),
			NumRequestsAllowed: f.allowed, NumRequestsDenied: f.denied,
		}},
	}
	if f.manner.once && !f.first {
		r.Domain = ""
	}
	f.first = false
	f.allowed, f.denied = 0, 0
	if err := f.stream.Send(r); err != nil {
		f.disconnect()
	}
}

// connect opens a stream on a new connection.
func (f *filter) connect() bool {
	f.mu.Lock()
	to := f.server
	f.streams++
	f.mu.Unlock()
	if to == nil {
		return false
	}
	conn, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return to.dial(ctx, f.link) }))
	if err != nil {
		f.t.Error(err)
		return false
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := pb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
	if err != nil {
		cancel()
		conn.Close()
		return false
	}
	f.stream, f.first = stream, true
	f.close = func() { cancel(); conn.Close() }
	go func() {
		for {
			r, err := stream.Recv()
			if err != nil {
				r = nil
			} else {
				f.w.check(r)
			}
			select {
			case f.responses <- received{r, stream}:
			case <-f.ended:
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return true
}

// disconnect ends the stream. Assignments stay.
func (f *filter) disconnect() {
	if f.close != nil {
		f.close()
	}
	f.stream, f.close = nil, nil
}

// set changes the demand and the server of the next connection.
func (f *filter) set(rate float64, server *listener) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rate, f.server = rate, server
}

// counts returns what the client decided.
func (f *filter) counts() (admitted, refused int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.admitted, f.refused
}
