package weirconnect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/floodweir/weir"
	weirconnect "github.com/floodweir/weir/contrib/connect"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

func behind(s *weirconnect.Server) []connect.Interceptor { return []connect.Interceptor{s} }

// wantDenied checks the error of a denial that lasts for half an hour.
func wantDenied(t *testing.T, protocol string, err error) {
	t.Helper()
	retry, quota, meta := details(err)
	if code(err) != connect.CodeResourceExhausted || retry.GetRetryDelay().AsDuration() != 30*time.Minute {
		t.Errorf("%s: got %v with %v, want resource_exhausted for 30m", protocol, err, retry)
	}
	if vs := quota.GetViolations(); len(vs) != 1 || vs[0].Subject != "calls/2" || !strings.Contains(vs[0].Description, "calls/2") {
		t.Errorf("%s: violations = %v, want one of calls/2", protocol, vs)
	}
	if want := "resource_exhausted: rate limited by policy calls: retry after 30m0s"; err.Error() != want {
		t.Errorf("%s: error = %q, want %q", protocol, err, want)
	}
	want := map[string]string{
		"Retry-After": "1800", "RateLimit": `"calls/2";r=0;t=1800`, "RateLimit-Policy": `"calls/1";q=9;w=1, "calls/2";q=2;w=3600`, "X-RateLimit-Remaining": "0",
		"Grpc-Retry-Pushback-Ms": "-1",
	}
	if protocol == connect.ProtocolConnect || protocol == "get" {
		want["Grpc-Retry-Pushback-Ms"] = ""
	}
	for name, value := range want {
		if got := meta.Get(name); got != value {
			t.Errorf("%s: %s = %q, want %q", protocol, name, got, value)
		}
	}
}

func calls() policy.Config {
	return policy.Config{Name: "calls", Match: policy.Match{Paths: []string{"/test.Echo/*"}}, Limits: limits("9/s", "2/h")}
}

func TestUnary(t *testing.T) {
	for protocol, opts := range protocols() {
		var ran atomic.Int32
		e := echo{say: func(_ context.Context, r *connect.Request[text]) (*response, error) {
			ran.Add(1)
			return connect.NewResponse(r.Msg), nil
		}}
		c := serve(t, e, behind(server(t, still(t), set(t, calls()), weirconnect.Config{})), opts...)
		for i, left := range []string{"1", "0"} {
			resp, err := c.say(t.Context())
			if err != nil {
				t.Fatalf("%s: call %d: %v", protocol, i+1, err)
			}
			if got := resp.Header().Get("X-RateLimit-Remaining"); got != left {
				t.Errorf("%s: call %d: headers %v, want %s left", protocol, i+1, resp.Header(), left)
			}
		}
		_, err := c.say(t.Context())
		wantDenied(t, protocol, err)
		if ran.Load() != 2 {
			t.Errorf("%s: the handler ran %d times, want 2", protocol, ran.Load())
		}
	}
}

// TestPlainHTTP checks that a client without RPC gets the response of other limits.
func TestPlainHTTP(t *testing.T) {
	c := serve(t, echo{}, behind(server(t, still(t), set(t, policy.Config{Limits: limits("1/h")}), weirconnect.Config{})))
	for i, want := range []int{200, 429} {
		resp, err := http.Post(c.url+sayProcedure, "application/json", strings.NewReader(`"hello"`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == 429 && resp.Header.Get("Retry-After") != "3600" {
			t.Errorf("request %d: %d %v %s, want %d", i+1, resp.StatusCode, resp.Header, body, want)
		}
	}
}

func TestStream(t *testing.T) {
	for protocol, opts := range protocols() {
		c := serve(t, echo{}, behind(server(t, still(t), set(t, calls()), weirconnect.Config{})), opts...)
		for i := range 2 {
			s := c.chat(t.Context())
			for range 5 {
				if err := exchange(s); err != nil {
					t.Fatalf("%s: stream %d: %v, want its messages to be free", protocol, i+1, err)
				}
			}
			if s.ResponseHeader().Get("RateLimit") == "" {
				t.Errorf("%s: headers = %v, want what is left", protocol, s.ResponseHeader())
			}
			_ = s.CloseRequest()
			if _, err := s.Receive(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: stream %d ended with %v", protocol, i+1, err)
			}
			_ = s.CloseResponse()
		}
		wantDenied(t, protocol, c.one(t.Context()))
	}
}

func TestWait(t *testing.T) {
	p := policy.Config{Limits: limits("20/s burst 1"), OnDenied: policy.OnDenied{Wait: 10 * time.Second}}
	c := serve(t, echo{}, behind(server(t, fakestore.Memory(t), set(t, p), weirconnect.Config{})))
	for i := range 3 {
		if _, err := c.say(t.Context()); err != nil {
			t.Errorf("call %d: %v", i+1, err)
		}
		if err := c.one(t.Context()); err != nil {
			t.Errorf("stream %d: %v", i+1, err)
		}
	}
	slow := policy.Config{Limits: limits("1/m"), OnDenied: policy.OnDenied{Wait: time.Minute}}
	c = serve(t, echo{}, behind(server(t, fakestore.Memory(t), set(t, slow), weirconnect.Config{})))
	if _, err := c.say(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.say(ctx); code(err) != connect.CodeDeadlineExceeded {
		t.Errorf("call = %v, want deadline_exceeded", err)
	}
}

func TestShadow(t *testing.T) {
	var asked events
	p := policy.Config{Name: "trial", Limits: limits("1/h"), Mode: policy.Shadow}
	c := serve(t, echo{}, behind(server(t, still(t), set(t, p), weirconnect.Config{Observe: asked.observe})))
	for range 2 {
		if resp, err := c.say(t.Context()); err != nil || resp.Header().Get("RateLimit") != "" {
			t.Errorf("call: %v %v, want nothing said", resp, err)
		}
	}
	if want := "[/test.Echo/Say trial admitted shadow /test.Echo/Say trial denied shadow]"; asked.String() != want {
		t.Errorf("observed %s, want %s", &asked, want)
	}
}

// TestOverload checks that a call that this process is too busy to decide is refused in every
// mode, with the RetryAfter of the error.
func TestOverload(t *testing.T) {
	busy := fakestore.Failing(fmt.Errorf("secret address: %w", &weir.OverloadError{Reason: "busy", RetryAfter: 2500 * time.Millisecond}))
	for _, mode := range []policy.FailMode{policy.Open, policy.Closed, policy.Local} {
		c := serve(t, echo{}, behind(server(t, busy, set(t, policy.Config{Limits: limits("1/h"), OnStoreError: mode}), weirconnect.Config{})))
		_, err := c.say(t.Context())
		retry, _, meta := details(err)
		if code(err) != connect.CodeUnavailable || strings.Contains(err.Error(), "secret") || retry.GetRetryDelay().AsDuration() != 2500*time.Millisecond || meta.Get("Retry-After") != "3" {
			t.Errorf("%s: %v, %v, %v, want UNAVAILABLE and 2.5 s", mode, err, retry, meta)
		}
	}
}

// TestStoreError checks OnStoreError of policies, for unary and streaming calls.
func TestStoreError(t *testing.T) {
	broken := fakestore.Store{One: func(context.Context, weir.Request) (weir.Decision, error) {
		return weir.Decision{}, fmt.Errorf("secret address: %w", weir.ErrUnavailable)
	}}
	for _, w := range []struct {
		mode     policy.FailMode
		codes    []connect.Code
		degraded string
	}{
		{policy.Open, []connect.Code{0, 0}, "open"},
		{policy.Closed, []connect.Code{connect.CodeUnavailable, connect.CodeUnavailable}, "closed"},
		{policy.Local, []connect.Code{0, connect.CodeResourceExhausted}, "local"},
	} {
		limit := server(t, broken, set(t, policy.Config{Limits: limits("1/h"), OnStoreError: w.mode}), weirconnect.Config{Options: enforce.Options{Local: still(t)}})
		c := serve(t, echo{}, behind(limit))
		for i, want := range w.codes {
			resp, err := c.say(t.Context())
			if code(err) != want || strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%s: call %d = %v, want %v", w.mode, i+1, err, want)
			}
			retry, _, meta := details(err)
			if err == nil {
				meta = resp.Header()
			}
			if got := meta.Get("Weir-Degraded"); got != w.degraded {
				t.Errorf("%s: call %d says it was degraded %q", w.mode, i+1, got)
			}
			if want == connect.CodeUnavailable && (retry.GetRetryDelay().AsDuration() != time.Second || meta.Get("Retry-After") != "1") {
				t.Errorf("%s: call %d has retry %v and %v, want a second", w.mode, i+1, retry, meta)
			}
		}
		if err := c.one(t.Context()); code(err) != w.codes[1] {
			t.Errorf("%s: stream = %v, want %v", w.mode, err, w.codes[1])
		}
	}
}

// TestClientAddress checks that only a trusted proxy can set the client address.
func TestClientAddress(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	for _, w := range []struct {
		client httplimit.ClientAddress
		want   connect.Code
	}{
		{httplimit.ClientAddress{}, connect.CodeResourceExhausted},
		{httplimit.ClientAddress{Trusted: trusted}, 0},
		{httplimit.ClientAddress{Trusted: trusted, Header: "Forwarded"}, connect.CodeResourceExhausted},
	} {
		c := serve(t, echo{}, behind(server(t, still(t), set(t, policy.Config{Limits: limits("1/h")}), weirconnect.Config{Client: w.client})))
		_, err := c.say(t.Context(), "X-Forwarded-For", "203.0.113.1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.say(t.Context(), "X-Forwarded-For", "203.0.113.2"); code(err) != w.want {
			t.Errorf("%+v: %v, want %v", w.client, err, w.want)
		}
	}
}

// TestKeys checks which parts of a call name a bucket.
func TestKeys(t *testing.T) {
	for protocol, opts := range protocols() {
		store := still(t)
		s := set(t, policy.Config{Name: "k", Limits: limits("100/h"), Match: policy.Match{Paths: []string{"/test.Echo/{method}"}, Hosts: []string{"api.example.com"}}, Key: []policy.KeyPart{
			{Source: policy.Host}, {Source: policy.Method}, {Source: policy.Header, Name: "X-Api-Key"}, {Source: policy.Header, Name: "X-Raw-Bin"},
			{Source: policy.Claim, Name: "sub"}, {Source: policy.Query, Name: "connect"}, {Source: policy.Cookie, Name: "c"},
		}})
		c := serve(t, echo{}, behind(server(t, store, s, weirconnect.Config{})), opts...)
		if _, err := c.say(t.Context(), "Host", "api.example.com", "X-Api-Key", "alice", "X-Raw-Bin", "AAE",
			"Authorization", "Bearer e30.eyJzdWIiOiJib2IifQ.x", "Cookie", "c=1"); err != nil { // {"sub":"bob"}
			t.Fatal(err)
		}
		key := "k|15:api.example.com|4:POST|5:alice|-|3:bob|-|1:1"
		if protocol == "get" {
			key = "k|15:api.example.com|3:GET|5:alice|-|3:bob|2:v1|1:1"
		}
		if left(t, store, key, "100/h") != 99 {
			t.Errorf("%s: nothing was taken of %s", protocol, key)
		}
	}
}

// TestExactly checks that a hundred concurrent calls get exactly the limit.
func TestExactly(t *testing.T) {
	c := serve(t, echo{}, behind(server(t, still(t), set(t, policy.Config{Limits: limits("37/h")}), weirconnect.Config{})))
	var admitted, denied atomic.Int32
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = c.say(t.Context())
			} else {
				err = c.one(t.Context())
			}
			switch code(err) {
			case 0:
				admitted.Add(1)
			case connect.CodeResourceExhausted:
				denied.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if admitted.Load() != 37 || denied.Load() != 63 {
		t.Errorf("%d admitted and %d denied, want 37 and 63", admitted.Load(), denied.Load())
	}
}

// TestMessages checks that messages of all streams share the limit, and that a unary call has
// none.
func TestMessages(t *testing.T) {
	for protocol, opts := range protocols() {
		c := serve(t, echo{}, behind(server(t, still(t), set(t), weirconnect.Config{Messages: set(t, policy.Config{Name: "messages", Limits: limits("5/h")})})), opts...)
		got := 0
		for range 2 {
			s := c.chat(t.Context())
			for range 4 {
				err := exchange(s)
				if err == nil {
					got++
					continue
				}
				retry, quota, meta := details(err)
				if code(err) != connect.CodeResourceExhausted || retry.GetRetryDelay().AsDuration() != 12*time.Minute || quota.GetViolations()[0].Subject != "messages" || meta.Get("Retry-After") != "720" {
					t.Errorf("%s: message %d: %v with %v, %v and %v", protocol, got+1, err, retry, quota, meta)
				}
				break
			}
			_ = s.CloseRequest()
			_ = s.CloseResponse()
		}
		if _, err := c.say(t.Context()); err != nil {
			t.Errorf("%s: unary call: %v", protocol, err)
		}
		if got != 5 {
			t.Errorf("%s: %d messages came back, want 5", protocol, got)
		}
	}
}

// TestMessagesWait checks that messages that wait are not lost, and keep their order.
func TestMessagesWait(t *testing.T) {
	messages := set(t, policy.Config{Limits: limits("50/s burst 1"), OnDenied: policy.OnDenied{Wait: 10 * time.Second}})
	c := serve(t, echo{}, behind(server(t, fakestore.Memory(t), set(t), weirconnect.Config{Messages: messages})))
	s := c.chat(t.Context())
	for i := range 5 {
		if err := s.Send(wrapperspb.String(fmt.Sprint(i))); err != nil {
			t.Fatal(err)
		}
	}
	_ = s.CloseRequest()
	for i := range 5 {
		if m, err := s.Receive(); err != nil || m.Value != fmt.Sprint(i) {
			t.Fatalf("message %d: %v %v", i, m, err)
		}
	}
	_ = s.CloseResponse()

	ended := make(chan error, 1)
	store, advance := fakestore.Clocked(t)
	e := echo{chat: func(_ context.Context, s *stream) (err error) {
		for range 2 {
			_, _ = s.Receive()
		}
		advance(2 * time.Hour) // the limit would admit the next
		_, err = s.Receive()
		ended <- err
		return err
	}}
	c = serve(t, e, behind(server(t, store, set(t), weirconnect.Config{Messages: set(t, policy.Config{Limits: limits("1/h")})})))
	s = c.chat(t.Context())
	for range 4 {
		_ = s.Send(wrapperspb.String("hello"))
	}
	if err := <-ended; code(err) != connect.CodeResourceExhausted {
		t.Errorf("Receive = %v, want the denial", err)
	}
	_ = s.CloseRequest()
	_ = s.CloseResponse()
}

func TestNewRefuses(t *testing.T) {
	store, none := still(t), set(t)
	named := func(c policy.Config) *policy.Set {
		c.Name, c.Limits = "odd", append(c.Limits, limits("9/s")...)
		return set(t, c)
	}
	for _, c := range []struct {
		store  weir.Store
		set    *policy.Set
		config weirconnect.Config
		want   string
	}{
		{nil, none, weirconnect.Config{}, "weirconnect: rpclimit: store: invalid: got nil"},
		{store, nil, weirconnect.Config{}, "weirconnect: rpclimit: policies: invalid: got nil"},
		{store, none, weirconnect.Config{Fields: httplimit.Draft03 | httplimit.Draft08}, "at most one draft"},
		{store, none, weirconnect.Config{Client: httplimit.ClientAddress{Header: "X-Real-Ip"}}, "want X-Forwarded-For or Forwarded"},
		{store, none, weirconnect.Config{RetryJitter: -1}, "RetryJitter: invalid: got -1ns"},
		{store, none, weirconnect.Config{Options: enforce.Options{MaxWaiters: -1}}, "MaxWaiters: invalid: got -1"},
		{store, none, weirconnect.Config{Options: enforce.Options{SettleTTL: 1}}, "SettleTTL: invalid: got 1ns"},
		{store, named(policy.Config{Settle: policy.Settle{JSON: "usage.total"}}), weirconnect.Config{}, `policy odd: cost.json "usage.total"`},
		{store, none, weirconnect.Config{Messages: named(policy.Config{Settle: policy.Settle{Header: "X-Cost"}})}, `messages: policy odd: cost.header "X-Cost"`},
		{store, none, weirconnect.Config{Messages: named(policy.Config{Count: policy.CountFailures})}, `messages: policy odd: count "failures"`},
		{store, none, weirconnect.Config{Messages: named(policy.Config{Limits: limits("3 concurrency")})}, `messages: policy odd: limits[0] "3 concurrency`},
	} {
		_, err := weirconnect.New(c.store, c.set, c.config)
		if !errors.Is(err, weir.ErrInvalid) || !strings.HasPrefix(err.Error(), "weirconnect: ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New = %v, want an invalid %s", err, c.want)
		}
	}
}
