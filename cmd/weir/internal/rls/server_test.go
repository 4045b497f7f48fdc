package rls_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const plain = `
domain: d
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 100}
  - key: site
    rate_limit: {unit: hour, requests_per_unit: 150}
  - key: quota
    quota_mode: true
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: detail
    detailed_metric: true
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: free
    rate_limit: {unlimited: true}
`

func parse(t testing.TB, text string) *ratelimit.Config {
	t.Helper()
	c, err := ratelimit.Parse("config.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// midday is a clock that stands still, so no window ends in a test.
func midday() int64 { return time.Date(2026, 1, 1, 12, 30, 0, 0, time.UTC).UnixMicro() }

// newServer returns a server of plain over a memory store, modified by c.
func newServer(t testing.TB, c rls.Config) *rls.Server {
	t.Helper()
	if c.Store == nil {
		store, err := memstore.New(memstore.Config{Clock: midday})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		c.Store = store
	}
	if c.Limits == nil {
		c.Limits = parse(t, plain)
	}
	s, err := rls.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A fake is a memory store with replaceable functions.
type fake struct {
	weir.Store
	doAll func(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error)
}

func (f fake) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	return f.doAll(ctx, rs, ds)
}

func (f fake) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	ds := make([]weir.Decision, 1)
	_, err := f.doAll(ctx, []weir.Request{r}, ds)
	return ds[0], err
}

func TestNew(t *testing.T) {
	if _, err := rls.New(rls.Config{}); err == nil {
		t.Error("New without a store: no error")
	}
}

// TestNoConfiguration checks that requests get an error until there is a configuration.
func TestNoConfiguration(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, err := rls.New(rls.Config{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	r := parseRequest(t, "d", "user=a")
	if _, err := s.ShouldRateLimit(t.Context(), r); status.Code(err) != codes.Unavailable {
		t.Errorf("without a configuration: %v, want Unavailable", err)
	}
	s.Use(parse(t, plain))
	if got, err := s.ShouldRateLimit(t.Context(), r); err != nil || got.GetOverallCode() != pb.RateLimitResponse_OK {
		t.Errorf("with a configuration: %v, %v", got, err)
	}
}

// TestStoreErrors checks the errors of requests without a decision of the store.
func TestStoreErrors(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	late, stop := context.WithTimeout(t.Context(), -time.Second)
	defer stop()
	for _, test := range []struct {
		name     string
		ctx      context.Context
		err      error
		ok       bool
		code     codes.Code
		rejected int
	}{
		{"unavailable", t.Context(), weir.ErrUnavailable, false, codes.Unavailable, 1},
		{"full", t.Context(), weir.ErrFull, false, codes.Unavailable, 1},
		{"overloaded", t.Context(), &weir.OverloadError{Reason: "busy"}, false, codes.Unavailable, 1},
		{"unknown", t.Context(), errors.New("other"), false, codes.Unavailable, 1},
		{"invalid", t.Context(), weir.ErrInvalid, false, codes.InvalidArgument, 1},
		{"the caller is gone", gone, context.Canceled, false, codes.Canceled, 0},
		{"too late", late, context.DeadlineExceeded, false, codes.DeadlineExceeded, 0},
		{"a store that denies nothing and everything", t.Context(), nil, false, codes.Unavailable, 1},
	} {
		var log strings.Builder
		rejected := 0
		s := newServer(t, rls.Config{
			Store: fake{doAll: func(_ context.Context, _ []weir.Request, ds []weir.Decision) (bool, error) {
				for i := range ds {
					ds[i].OK = true
				}
				return test.ok, test.err
			}},
			Log: slog.New(slog.NewTextHandler(&log, nil)),
			Observe: func(e rls.Event) {
				if e.Err == nil || e.Domain != "d" {
					t.Errorf("%s: event %+v", test.name, e)
				}
				rejected++
			},
		})
		for range 3 {
			_, err := s.ShouldRateLimit(test.ctx, parseRequest(t, "d", "user=a + shadow=b"))
			if status.Code(err) != test.code {
				t.Errorf("%s: %v, want %s", test.name, err, test.code)
			}
		}
		if rejected != 3*test.rejected {
			t.Errorf("%s: %d events, want %d", test.name, rejected, 3*test.rejected)
		}
		if n := strings.Count(log.String(), "no decision"); n < test.rejected || n > 2*test.rejected {
			t.Errorf("%s: logged %d times in one second", test.name, n)
		}
	}
}

// TestDegraded checks that a decision of a fallback is a response, and that the event
// reports the mode.
func TestDegraded(t *testing.T) {
	var events []rls.Event
	s := newServer(t, rls.Config{
		Store: fake{doAll: func(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
			for i := range ds {
				ds[i] = weir.Decision{OK: false, Limit: rs[i].Limit, Degraded: policy.Closed}
			}
			return false, nil
		}},
		Observe: func(e rls.Event) { events = append(events, e) },
	})
	r, err := s.ShouldRateLimit(t.Context(), parseRequest(t, "d", "user=a"))
	if err != nil || r.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT || r.GetStatuses()[0].GetDurationUntilReset().GetSeconds() < 1 {
		t.Errorf("answer = %v, %v, want OVER_LIMIT", r, err)
	}
	if len(events) != 1 || events[0].Decision.Degraded != policy.Closed {
		t.Errorf("events = %+v", events)
	}
}

// TestExactly sends more requests than the limit from 64 clients over gRPC: every limit
// admits exactly its quota, and nothing is charged twice.
func TestExactly(t *testing.T) {
	_, addr := serve(t, newServer(t, rls.Config{}), rls.ServerConfig{})
	client := pb.NewRateLimitServiceClient(dial(t, addr))
	var admitted [2]atomic.Int64
	var quotas atomic.Int64
	var wg sync.WaitGroup
	for i := range 64 {
		user := i % 2
		wg.Go(func() {
			for range 5 {
				r, err := client.ShouldRateLimit(context.Background(), parseRequest(t, "d",
					fmt.Sprintf("user=%d + site=all + quota=a + quota=b%d + shadow=a", user, user)))
				if err != nil {
					t.Error(err)
					return
				}
				if r.GetOverallCode() == pb.RateLimitResponse_OK {
					admitted[user].Add(1)
					for _, s := range r.GetStatuses()[2:4] {
						if s.GetCode() == pb.RateLimitResponse_OK {
							quotas.Add(1)
						}
					}
				}
			}
		})
	}
	wg.Wait()
	// Three buckets of 10 let a request through as long as one that it meets has
	// something left: at most 10 + 10 + 10 go through.
	a, b := admitted[0].Load(), admitted[1].Load()
	if quotas.Load() != 30 || a+b < 20 || a+b > 30 {
		t.Errorf("%d and %d admitted, quotas charged %d times, want 30", a, b, quotas.Load())
	}
	all := func(line string) (n int) {
		for range 400 {
			r, err := client.ShouldRateLimit(t.Context(), parseRequest(t, "d", line))
			if err != nil {
				t.Fatal(err)
			}
			if r.GetOverallCode() != pb.RateLimitResponse_OK {
				return n
			}
			n++
		}
		return n
	}
	// What is left is what was not admitted: nothing was charged for denials.
	if got, want := all("user=0"), 100-int(a); got != want {
		t.Errorf("user 0 has %d left, want %d", got, want)
	}
	if got, want := all("site=all"), 150-int(a+b); got != want {
		t.Errorf("the site has %d left, want %d", got, want)
	}
}

// TestReloadUnderLoad replaces the configuration under load: no request fails, and no
// window is lost, although the limit changes back and forth.
func TestReloadUnderLoad(t *testing.T) {
	configs := make([]*ratelimit.Config, 4)
	for i := range configs {
		configs[i] = parse(t, fmt.Sprintf(`
domain: d
descriptors:
  - {key: user, rate_limit: {unit: hour, requests_per_unit: %d}}
  - {key: other%d, rate_limit: {unit: hour, requests_per_unit: 1}}
`, 200, i))
	}
	s := newServer(t, rls.Config{Limits: configs[0]})
	_, addr := serve(t, s, rls.ServerConfig{})
	client := pb.NewRateLimitServiceClient(dial(t, addr))
	ended, reloads := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		for {
			select {
			case <-ended:
				reloads <- n
				return
			default:
				n++
				s.Use(configs[n%len(configs)])
			}
		}
	}()
	var admitted, unlimited atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				r, err := client.ShouldRateLimit(context.Background(), parseRequest(t, "d", "user=a"))
				switch {
				case err != nil:
					t.Error(err)
				case r.GetStatuses()[0].GetCurrentLimit() == nil:
					unlimited.Add(1)
				case r.GetOverallCode() == pb.RateLimitResponse_OK:
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	close(ended)
	if a, u := admitted.Load(), unlimited.Load(); a != 200 || u != 0 {
		t.Errorf("%d of 800 admitted, %d without a limit, want 200 and 0", a, u)
	}
	if n := <-reloads; n < 10 {
		t.Errorf("%d reloads", n)
	}
}

// TestOverridesThatChange checks that a limit in requests that changes every time uses
// one state.
func TestOverridesThatChange(t *testing.T) {
	s := newServer(t, rls.Config{})
	admitted := 0
	for i := range 100 {
		r, err := s.ShouldRateLimit(t.Context(), parseRequest(t, "d", fmt.Sprintf("user=a @limit=%d/HOUR", 10+i%3)))
		if err != nil {
			t.Fatal(err)
		}
		if r.GetOverallCode() == pb.RateLimitResponse_OK {
			admitted++
		}
	}
	if admitted != 12 {
		t.Errorf("%d of 100 admitted under limits of 10 to 12, want 12", admitted)
	}
	for i := range 10_000 { // more limits than are kept
		if _, err := s.ShouldRateLimit(t.Context(), parseRequest(t, "d", fmt.Sprintf("user=%d @limit=%d/HOUR", i, 1+i%5000))); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTooMuch sends requests beyond every bound.
func TestTooMuch(t *testing.T) {
	s := newServer(t, rls.Config{ResponseHeaders: true, DynamicMetadata: true})
	_, addr := serve(t, s, rls.ServerConfig{})
	client := pb.NewRateLimitServiceClient(dial(t, addr))
	descriptors := func(n int, of string) *pb.RateLimitRequest {
		r := parseRequest(t, "d", of)
		for len(r.Descriptors) < n {
			r.Descriptors = append(r.Descriptors, r.Descriptors[0])
		}
		return r
	}
	long := descriptors(1, "user=a")
	for range 50_000 {
		long.Descriptors[0].Entries = append(long.Descriptors[0].Entries, &common.RateLimitDescriptor_Entry{Key: "k", Value: "v"})
	}
	override := descriptors(1, "user=a @limit=1/DAY")
	override.Descriptors[0].Entries = long.Descriptors[0].Entries
	for _, test := range []struct {
		name string
		r    *pb.RateLimitRequest
		code codes.Code
	}{
		{"10,000 descriptors", descriptors(10_000, "user=a"), codes.InvalidArgument},
		{"257 descriptors", descriptors(257, "user=b"), codes.InvalidArgument},
		{"256 descriptors", descriptors(256, "user=b"), codes.OK},
		{"256 limits of their own", descriptors(256, "user=c @limit=1/DAY"), codes.InvalidArgument},
		{"128 limits of their own", descriptors(128, "user=c @limit=1/DAY"), codes.OK},
		{"256 descriptors that match nothing", descriptors(256, "unknown=b"), codes.OK},
		{"256 quotas", descriptors(256, "quota=b"), codes.OK},
		{"256 shadows", descriptors(256, "shadow=b"), codes.OK},
		{"256 refunds", descriptors(256, "user=b @refund"), codes.OK},
		{"a value of nearly 1 MiB", descriptors(1, "user="+strings.Repeat("x", 1<<20-200)), codes.OK},
		{"50,000 entries", long, codes.OK},
		{"a limit of its own for 50,000 entries", override, codes.OK},
		{"a descriptor without entries", &pb.RateLimitRequest{Domain: "d", Descriptors: []*common.RateLimitDescriptor{{}}}, codes.OK},
	} {
		r, err := client.ShouldRateLimit(t.Context(), test.r)
		if status.Code(err) != test.code {
			t.Errorf("%s: %v, want %s", test.name, err, test.code)
		}
		if err == nil && len(r.GetStatuses()) != len(test.r.Descriptors) {
			t.Errorf("%s: %d statuses of %d descriptors", test.name, len(r.GetStatuses()), len(test.r.Descriptors))
		}
	}
}

// TestOneKeyTwice checks that a request with one key twice is charged twice or not at
// all.
func TestOneKeyTwice(t *testing.T) {
	s := newServer(t, rls.Config{})
	ask := func(line string) string {
		r, err := s.ShouldRateLimit(t.Context(), parseRequest(t, "d", line))
		return strings.Join(strings.Fields(render(r, err)), " ")
	}
	if got := ask("user=a hits=60 + user=a"); !strings.HasPrefix(got, "OVER_LIMIT OK 100 left") {
		t.Errorf("120 hits of 100: %s", got)
	}
	if got := ask("user=a hits=50 + user=a"); !strings.HasPrefix(got, "OK OK 50 left") || !strings.Contains(got, "OK 0 left") {
		t.Errorf("100 hits of 100: %s", got)
	}
	// Of shadows, those that fit are charged.
	if got := ask("shadow=a hits=7 + shadow=a"); !strings.HasPrefix(got, "OK OK 3 left") {
		t.Errorf("shadows: %s", got)
	}
	if got := ask("shadow=a @hits=0"); !strings.Contains(got, "3 left") {
		t.Errorf("shadows afterwards: %s", got)
	}
}

// TestEvents checks the statistics of operators.
func TestEvents(t *testing.T) {
	var events []rls.Event
	s := newServer(t, rls.Config{Observe: func(e rls.Event) { events = append(events, e) }})
	ask := func(line string) []rls.Event {
		events = nil
		if _, err := s.ShouldRateLimit(t.Context(), parseRequest(t, "d", line)); err != nil {
			t.Fatal(err)
		}
		return events
	}
	line := func(e rls.Event) string {
		return fmt.Sprintf("%s/%s ok=%v admitted=%v charged=%v hits=%d near=%d refunded=%d shadow=%v quota=%v override=%v",
			e.Domain, e.Label, e.OK, e.Admitted, e.Charged, e.Hits, e.Near, e.Refunded, e.Shadow, e.Quota, e.Override)
	}
	for _, test := range []struct{ ask, want string }{
		{"user=a hits=79", "d/user ok=true admitted=true charged=true hits=79 near=0 refunded=0 shadow=false quota=false override=false"},
		{"user=a hits=2", "d/user ok=true admitted=true charged=true hits=2 near=1 refunded=0 shadow=false quota=false override=false"},
		{"user=a hits=2", "d/user ok=true admitted=true charged=true hits=2 near=2 refunded=0 shadow=false quota=false override=false"},
		{"user=a hits=18", "d/user ok=false admitted=false charged=false hits=18 near=0 refunded=0 shadow=false quota=false override=false"},
		{"user=a @hits=18446744073709551615", "d/user ok=false admitted=false charged=false hits=4294967296 near=0 refunded=0 shadow=false quota=false override=false"},
		{"user=a @refund", "d/user ok=true admitted=true charged=false hits=0 near=0 refunded=1 shadow=false quota=false override=false"},
		{"user=a @hits=0", "d/user ok=true admitted=true charged=false hits=0 near=0 refunded=0 shadow=false quota=false override=false"},
		{"shadow=a hits=11", "d/shadow ok=false admitted=true charged=false hits=11 near=0 refunded=0 shadow=true quota=false override=false"},
		{"quota=a", "d/quota ok=true admitted=true charged=true hits=1 near=0 refunded=0 shadow=false quota=true override=false"},
		{"free=a", "d/free ok=true admitted=true charged=false hits=1 near=0 refunded=0 shadow=false quota=false override=false"},
		{"user=x @limit=5/DAY", "d/user ok=true admitted=true charged=true hits=1 near=0 refunded=0 shadow=false quota=false override=true"},
		{"unknown=x @limit=5/DAY", "d/(override) ok=true admitted=true charged=true hits=1 near=0 refunded=0 shadow=false quota=false override=true"},
		{"unknown=x", ""},
		{"domain=none user=x", "/ ok=true admitted=true charged=false hits=0 near=0 refunded=0 shadow=false quota=false override=false"},
	} {
		got := ""
		for _, e := range ask(test.ask) {
			got += line(e)
		}
		if got != test.want {
			t.Errorf("%s:\ngot  %s\nwant %s", test.ask, got, test.want)
		}
	}
	labels := map[string]bool{}
	for i := range rls.MaxLabels + 500 {
		for _, e := range ask(fmt.Sprintf("detail=%d", i)) {
			labels[e.Label] = true
		}
	}
	if n := len(labels); n != rls.MaxLabels+1 || !labels["detail"] {
		t.Errorf("%d labels, want %d with values and one without", n, rls.MaxLabels)
	}
}

// TestJSON sends bodies as curl does.
func TestJSON(t *testing.T) {
	s := newServer(t, rls.Config{})
	broken := newServer(t, rls.Config{Store: fake{doAll: func(context.Context, []weir.Request, []weir.Decision) (bool, error) {
		return false, weir.ErrUnavailable
	}}})
	busy := newServer(t, rls.Config{Store: fake{doAll: func(context.Context, []weir.Request, []weir.Decision) (bool, error) {
		return false, &weir.OverloadError{Reason: "busy", RetryAfter: 3 * time.Second}
	}}})
	for _, test := range []struct {
		name, method, body string
		s                  *rls.Server
		status             int
		want               string
	}{
		{"a request", "POST", `{"domain": "d", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`, s, 200, `"limitRemaining":99`},
		{"names as in the proto", "POST", `{"domain": "d", "hits_addend": 9, "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`, s, 200, `"limitRemaining":90`},
		{"numbers as text", "POST", `{"domain": "d", "hitsAddend": "1", "descriptors": [{"entries": [{"key": "user", "value": "a"}], "hitsAddend": "4"}]}`, s, 200, `"limitRemaining":86`},
		{"over the limit", "POST", `{"domain": "d", "descriptors": [{"hitsAddend": 101, "entries": [{"key": "user", "value": "b"}]}]}`, s, 429, `"overallCode":"OVER_LIMIT"`},
		{"a limit of its own", "POST", `{"domain": "d", "descriptors": [{"entries": [{"key": "x"}], "limit": {"requestsPerUnit": 3, "unit": "DAY"}}]}`, s, 200, `"unit":"DAY"`},
		{"no domain", "POST", `{"descriptors": [{}]}`, s, 400, "domain"},
		{"no descriptors", "POST", `{"domain": "d"}`, s, 400, "descriptors"},
		{"nothing", "POST", ``, s, 400, "RateLimitRequest"},
		{"no JSON", "POST", `domain=d`, s, 400, "RateLimitRequest"},
		{"an unknown field", "POST", `{"domain": "d", "descriptor": []}`, s, 400, "descriptor"},
		{"a wrong type", "POST", `{"domain": 1}`, s, 400, "domain"},
		{"two values", "POST", `{} {}`, s, 400, ""},
		{"null in a list", "POST", `{"domain": "d", "descriptors": [null]}`, s, 400, ""},
		{"deep", "POST", `{"domain": ` + strings.Repeat("[", 100_000), s, 400, ""},
		{"too large", "POST", `{"domain": "` + strings.Repeat("x", rls.MaxMessage), s, 413, "1 MiB"},
		{"another method", "GET", ``, s, 405, "POST"},
		{"overloaded", "POST", `{"domain": "d", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`, busy, 503, "busy"},
		{"the store is gone", "POST", `{"domain": "d", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}`, broken, 500, "unavailable"},
	} {
		server := httptest.NewServer(test.s.JSON())
		r, err := http.NewRequest(test.method, server.URL+"/json", strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded") // as curl has it
		got, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(got.Body)
		got.Body.Close()
		server.Close()
		text := strings.ReplaceAll(string(body), " ", "")
		if err != nil || got.StatusCode != test.status || !strings.Contains(text, strings.ReplaceAll(test.want, " ", "")) {
			t.Errorf("%s: status %d, %v, want %d and %s in\n%.300s", test.name, got.StatusCode, err, test.status, test.want, body)
		}
		if retry := got.Header.Get("Retry-After"); (retry == "3") != (test.s == busy) {
			t.Errorf("%s: Retry-After %q", test.name, retry)
		}
		if kind := got.Header.Get("Content-Type"); slices.Contains([]int{200, 429}, test.status) != (kind == "application/json") {
			t.Errorf("%s: Content-Type %s", test.name, kind)
		}
	}
}

// TestReloadOfTheSame checks that reloading an unchanged configuration does not evict
// previous ones.
func TestReloadOfTheSame(t *testing.T) {
	config := func(n int) *ratelimit.Config {
		return parse(t, fmt.Sprintf("domain: d\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: %d}}]", n))
	}
	s := newServer(t, rls.Config{Limits: config(10)})
	ask := func(want string) {
		t.Helper()
		r, err := s.ShouldRateLimit(t.Context(), parseRequest(t, "d", "user=a hits=10"))
		if got := strings.Join(strings.Fields(render(r, err)), " "); !strings.HasPrefix(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	ask("OK OK 0 left of 10")
	for range 10 {
		s.Use(config(20))
	}
	ask("OK OK 0 left of 20")
	ask("OVER_LIMIT")
}

// TestNames checks the names of response fields, the prefix of keys, and the part of a limit
// above which hits are near it.
func TestNames(t *testing.T) {
	var event rls.Event
	key := ""
	store := fake{doAll: func(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
		key = rs[0].Key
		ds[0] = weir.Decision{OK: true, Limit: rs[0].Limit, Remaining: 4}
		return true, nil
	}}
	s := newServer(t, rls.Config{
		Store: store, Limits: parse(t, "domain: d\ndescriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 10}}]"),
		ResponseHeaders: true, Headers: [3]string{"L", "", "Reset"}, NearRatio: 0.5, KeyPrefix: "one",
		Observe: func(e rls.Event) { event = e },
	})
	r, err := s.ShouldRateLimit(t.Context(), parseRequest(t, "d", "user=a"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, h := range r.ResponseHeadersToAdd {
		names = append(names, h.Key)
	}
	if want := []string{"L", "RateLimit-Remaining", "Reset"}; !slices.Equal(names, want) {
		t.Errorf("headers %q, want %q", names, want)
	}
	if want := "one|envoy|1:d|4:user|1:a"; key != want || event.Near != 1 {
		t.Errorf("key %q, %d near hits, want %q, 1", key, event.Near, want)
	}
}

// TestElsewhere checks that a domain of another service is refused.
func TestElsewhere(t *testing.T) {
	s := newServer(t, rls.Config{Elsewhere: []string{"other", "d"}})
	_, err := s.ShouldRateLimit(t.Context(), parseRequest(t, "d", "user=a"))
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), `domain: got "d", want one that the rate limit quota service does not have`) {
		t.Errorf("ShouldRateLimit = %v, want InvalidArgument", err)
	}
}
