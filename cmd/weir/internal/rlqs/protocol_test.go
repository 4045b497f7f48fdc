package rlqs_test

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A raw is a stream whose reports a test writes.
type raw struct {
	t    *testing.T
	w    *world
	link *link
	pb.RateLimitQuotaService_StreamRateLimitQuotasClient
}

// open opens a stream.
func (w *world) open(to *machine) *raw {
	w.t.Helper()
	through := newLink()
	conn, err := grpc.NewClient("passthrough:///server", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return to.dial(ctx, through) }))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	stream, err := pb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return &raw{w.t, w, through, stream}
}

// usage returns the usage of a bucket, whose id is "key=value key=value".
func usage(id string, allowed, denied uint64) *pb.RateLimitQuotaUsageReports_BucketQuotaUsage {
	pairs := map[string]string{}
	for pair := range strings.FieldsSeq(id) {
		key, value, _ := strings.Cut(pair, "=")
		pairs[key] = value
	}
	return &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
		BucketId: &pb.BucketId{Bucket: pairs}, TimeElapsed: &durationpb.Duration{}, NumRequestsAllowed: allowed, NumRequestsDenied: denied,
	}
}

// report sends a report.
func (s *raw) report(domain string, all ...*pb.RateLimitQuotaUsageReports_BucketQuotaUsage) {
	s.t.Helper()
	if err := s.Send(&pb.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: all}); err != nil {
		s.t.Fatal(err)
	}
}

// next returns the actions of the next response.
func (s *raw) next() []*pb.RateLimitQuotaResponse_BucketAction {
	s.t.Helper()
	r, err := s.Recv()
	if err != nil {
		s.t.Fatal(err)
	}
	s.w.check(r)
	return r.GetBucketAction()
}

// ask sends a report of one bucket, and returns its action.
func (s *raw) ask(id string, allowed, denied uint64) *pb.RateLimitQuotaResponse_BucketAction {
	s.t.Helper()
	s.report(domain, usage(id, allowed, denied))
	all := s.next()
	if len(all) != 1 {
		s.t.Fatalf("%d actions, want 1", len(all))
	}
	return all[0]
}

func tokens(a *pb.RateLimitQuotaResponse_BucketAction) *typepb.TokenBucket {
	return a.GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket()
}

func rule(a *pb.RateLimitQuotaResponse_BucketAction) typepb.RateLimitStrategy_BlanketRule {
	if s, ok := a.GetQuotaAssignmentAction().GetRateLimitStrategy().GetStrategy().(*typepb.RateLimitStrategy_BlanketRule_); ok {
		return s.BlanketRule
	}
	return -1
}

// Test01 checks that the first report is answered at once, although its time_elapsed is 0.
func Test01FirstReport(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
		s, begin := w.open(w.serve()), time.Now()
		if a := s.ask("user=x", 0, 1); tokens(a) == nil || a.GetBucketId().GetBucket()["user"] != "x" {
			t.Errorf("the first response: %v, want a token bucket for user=x", a)
		}
		if took := time.Since(begin); took > 100*time.Millisecond {
			t.Errorf("the first response took %v, want at most 100ms", took)
		}
	})
}

// Test02 checks the domain of reports.
func Test02Domain(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
		m := w.serve()
		s := w.open(m)
		s.ask("user=x", 0, 1)
		rlqs.Pass(5 * time.Second)
		s.report("", usage("user=x", 1, 0))
		s.next()
		for _, test := range []struct{ first, second, want string }{
			{"", "", "domain: got none in the first report"},
			{"other", "", `domain: got "other", want one of edge`},
			{domain, "other", `domain: got "other", want "edge" as in the first report`},
		} {
			s := w.open(m)
			s.report(test.first, usage("user=y", 0, 1))
			if test.second != "" {
				s.next()
				s.report(test.second, usage("user=y", 0, 1))
			}
			s.wantInvalid(test.want)
		}
	})
}

// wantInvalid reads the end of the stream.
func (s *raw) wantInvalid(want string) {
	s.t.Helper()
	_, err := s.Recv()
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), want) {
		s.t.Errorf("the stream ends with %v, want InvalidArgument and %q", err, want)
	}
}

// Test03 checks ids: their order does not matter, and bad ones are errors.
func Test03BucketID(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
		m := w.serve()
		s := w.open(m)
		if a := s.ask("b=x a=1", 0, 1); tokens(a) == nil {
			t.Errorf("b=x a=1: %v, want the limit of the sorted pairs", a)
		}
		many := usage("user=x", 0, 1)
		for i := range rlqs.MaxPairs {
			many.BucketId.Bucket[fmt.Sprint(i)] = "x"
		}
		long := usage("user=x", 0, 1)
		long.BucketId.Bucket["user"] = strings.Repeat("x", rlqs.MaxText+1)
		for _, test := range []struct {
			u    *pb.RateLimitQuotaUsageReports_BucketQuotaUsage
			want string
		}{
			{usage("", 0, 1), "bucket_quota_usages[0].bucket_id: got no pairs, want 1 to 30"},
			{usage("user=", 0, 1), `bucket_quota_usages[0].bucket_id: got the pair "user": ""`},
			{usage("=x", 0, 1), `bucket_quota_usages[0].bucket_id: got the pair "": "x"`},
			{&pb.RateLimitQuotaUsageReports_BucketQuotaUsage{}, "got no pairs"},
			{many, "got 31 pairs, want 1 to 30"},
			{long, "want a key and a value of 1 to 4096 bytes"},
		} {
			s := w.open(m)
			s.report(domain, test.u)
			s.wantInvalid(test.want)
		}
	})
}

// Test04 checks the responses to limits that need no ledger. Every other test checks the form of its
// responses too.
func Test04Responses(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{TTL: 20 * time.Second}, func(t *testing.T, w *world) {
		s := w.open(w.serve())
		a := s.ask("zero=x", 0, 1)
		if rule(a) != typepb.RateLimitStrategy_DENY_ALL {
			t.Errorf("a limit of 0: %v, want DENY_ALL", a)
		}
		a = s.ask("user=x", 0, 1)
		if got := a.GetQuotaAssignmentAction().GetAssignmentTimeToLive().AsDuration(); got != 20*time.Second {
			t.Errorf("assignment_time_to_live: %v, want 20s", got)
		}
	})
}

// Test05 checks that an unchanged share is renewed with the same bytes, before it expires.
func Test05Renewal(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
		s := w.open(w.serve())
		s.ask("user=x", 0, 1)
		rlqs.Pass(5 * time.Second)
		first := s.ask("user=x", 500, 0)
		for range 20 {
			rlqs.Pass(5 * time.Second)
			if next := s.ask("user=x", 500, 0); !proto.Equal(next, first) {
				t.Fatalf("a renewal: %v, want %v", next, first)
			}
		}
		if n := w.actions()[rlqs.Renewed]; n != 20 {
			t.Errorf("%d renewals, want 20", n)
		}
	})
}

// Test06 checks that two reports for a bucket in one message count both, and get one response.
func Test06TwoReports(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
		s := w.open(w.serve())
		s.report(domain, usage("user=x", 0, 1), usage("user=y", 0, 1), usage("user=x", 0, 1))
		got := map[string]int{}
		for _, a := range s.next() {
			got[a.GetBucketId().GetBucket()["user"]]++
		}
		if !maps.Equal(got, map[string]int{"x": 1, "y": 1}) {
			t.Errorf("responses: %v, want one for each bucket", got)
		}
		rlqs.Pass(5 * time.Second)
		s.report(domain, usage("user=x", 1000, 0), usage("user=x", 1000, 0))
		b := tokens(s.next()[0])
		if perSecond := float64(b.GetTokensPerFill().GetValue()) / b.GetFillInterval().AsDuration().Seconds(); perSecond < 400 || perSecond > 600 {
			t.Errorf("after 2000 requests in 5s: %.0f/s, want 500/s", perSecond)
		}
	})
}

// Test20 checks that a bucket without requests is abandoned after a minute, and subscribed again.
func Test20Abandon(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
		m := w.serve()
		f := w.client(m, 50, manner{})
		rlqs.Pass(20 * time.Second)
		f.set(0, m.listener)
		rlqs.Pass(58 * time.Second)
		if f.read(&f.abandoned) != 0 {
			t.Error("abandoned before a minute")
		}
		rlqs.Pass(10 * time.Second)
		if f.read(&f.abandoned) != 1 || m.rlqs.Stats().Buckets != 0 {
			t.Errorf("after 68s: %d times abandoned and %+v, want once and no bucket", f.read(&f.abandoned), m.rlqs.Stats())
		}
		f.set(50, m.listener)
		rlqs.Pass(6 * time.Second)
		before, _ := f.counts()
		rlqs.Pass(10 * time.Second)
		if after, _ := f.counts(); after-before < 400 {
			t.Errorf("%d of 500 requests admitted after the bucket was abandoned", after-before)
		}
		w.strict()
	})
}

// Test21 checks that a bucket without a limit is admitted, by one response in a long time.
func Test21UnknownBucket(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
		m := w.serve()
		f := w.client(m, 100, manner{})
		f.kill()
		w.clients = nil
		f = w.client(m, 0, manner{})
		f.id = map[string]string{"unknown": "x"}
		f.set(100, m.listener)
		rlqs.Pass(290 * time.Second)
		if admitted, refused := f.counts(); refused > 10 || admitted < 25_000 {
			t.Errorf("%d admitted, %d denied, want all after the first response", admitted, refused)
		}
		if n := f.read(&f.answers); n > 3 {
			t.Errorf("%d responses in 290s, want at most 3", n)
		}
	})
}

// read returns a counter.
func (f *filter) read(n *int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return *n
}

// TestDivision reads the limit of a bucket, and the parts of two clients.
func TestDivision(t *testing.T) {
	inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
		m := w.serve()
		w.client(m, 100, manner{})
		w.client(m, 300, manner{})
		rlqs.Pass(time.Minute)
		match, err := m.rlqs.Match(domain, map[string]string{"user": "x"})
		if err != nil || match.Path != "user" {
			t.Fatalf("Match = %+v, %v, want the limit of user", match, err)
		}
		v, err := m.rlqs.Division(t.Context(), match)
		if err != nil || len(v.Holders) != 2 || v.Holders[0].Former || v.Remainder <= 0 || v.Remainder > 0.8 {
			t.Fatalf("Division = %+v, %v, want two holders and a remainder", v, err)
		}
		if a, b := v.Holders[0].Rate, v.Holders[1].Rate; min(a, b) < 0.1 || max(a, b) < 0.3 || a+b > 0.9 {
			t.Errorf("Division = %+v, want parts of a little more than 10%% and 30%%", v)
		}
		if match, err := m.rlqs.Match(domain, map[string]string{"unknown": "x"}); err != nil || match.Limit != nil {
			t.Errorf("Match of an unknown bucket = %+v, %v, want no limit", match, err)
		}
		if _, err := m.rlqs.Match(domain, nil); err == nil || err.Error() != "got no pairs, want 1 to 30" {
			t.Errorf("Match without an id = %v, want an error", err)
		}
	})
}
