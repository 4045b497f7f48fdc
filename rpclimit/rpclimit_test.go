package rpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/rpclimit"
)

// A failure is an error of the protocol of these tests.
type failure struct{ rpclimit.End }

func (f failure) Error() string { return fmt.Sprintf("%d: %v", f.Code, f.Err) }
func (f failure) Unwrap() error { return f.Err }

func dialect() rpclimit.Dialect {
	return rpclimit.Dialect{
		Error: func(e rpclimit.End) error { return failure{e} },
		RetryAfter: func(err error) (time.Duration, bool) {
			var f failure
			ok := errors.As(err, &f)
			return f.Retry, ok
		},
	}
}

func ExamplePacer() {
	p, err := rpclimit.NewPacer(rpclimit.PacerConfig{MaxWait: time.Second}, dialect())
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	call := p.Call(ctx, "api.example.com", "/shop.Cart/Add")
	fmt.Println(p.Unary(ctx, call, func() error {
		return failure{rpclimit.End{Code: rpclimit.Unavailable, Err: errors.New("busy"), Retry: time.Hour}}
	}))
	fmt.Println(p.Admit(ctx, call) == nil)
	// Output:
	// 14: busy
	// false
}

// TestPacer checks that a call is repeated after the delay that the server asked for, within
// Retries and MaxWait, and that later calls wait as long.
func TestPacer(t *testing.T) {
	for _, c := range []struct {
		pacing rpclimit.PacerConfig
		says   time.Duration
		sent   []time.Duration // when, since the beginning
	}{
		{rpclimit.PacerConfig{}, time.Second, []time.Duration{0}},
		{rpclimit.PacerConfig{Retries: 2}, time.Second, []time.Duration{0, time.Second, 2 * time.Second}},
		{rpclimit.PacerConfig{Retries: 2}, 2 * time.Minute, []time.Duration{0}},
		{rpclimit.PacerConfig{Retries: 2, MaxWait: weir.NoWait}, time.Second, []time.Duration{0}},
		{rpclimit.PacerConfig{Retries: 2, MaxWait: time.Hour}, time.Hour, []time.Duration{0, time.Hour, 2 * time.Hour}},
	} {
		synctest.Test(t, func(t *testing.T) {
			p, err := rpclimit.NewPacer(c.pacing, dialect())
			if err != nil {
				t.Fatal(err)
			}
			start, sent := time.Now(), []time.Duration(nil)
			denied := failure{rpclimit.End{Code: rpclimit.ResourceExhausted, Err: errors.New("busy"), Retry: c.says}}
			call := p.Call(t.Context(), "host", "method")
			err = p.Unary(t.Context(), call, func() error {
				sent = append(sent, time.Since(start))
				return denied
			})
			if err != denied || !slices.Equal(sent, c.sent) {
				t.Errorf("%+v: %v, sent at %v, want %v", c.pacing, err, sent, c.sent)
			}
			ctx, cancel := context.WithTimeout(t.Context(), c.says/2)
			defer cancel()
			if err := p.Admit(ctx, call); err == nil || !strings.Contains(err.Error(), "call not sent: held back by a pause that the server asked for: retry after "+c.says.String()) {
				t.Errorf("%+v: a call beside it: %v, want it held back", c.pacing, err)
			}
			if err := p.Admit(ctx, p.Call(ctx, "host", "other")); err != nil {
				t.Errorf("%+v: another method: %v", c.pacing, err)
			}
		})
	}
}

// TestRefuse checks the codes, texts and fields of calls that end.
func TestRefuse(t *testing.T) {
	memory, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name   string
		ctx    context.Context
		store  weir.Store
		limit  string
		calls  int
		push   bool
		code   rpclimit.Code
		text   string
		fields http.Header
	}{
		{"denied", t.Context(), memory, "1/m", 2, true, rpclimit.ResourceExhausted,
			"rate limited by policy p: retry after ", http.Header{"Retry-After": {"60"}}},
		{"undecided", t.Context(), broken{}, "1/s", 1, true, rpclimit.Unavailable,
			"rate limit store unavailable: retry after 1s", http.Header{"Retry-After": {"1"}, "Grpc-Retry-Pushback-Ms": {"1000"}}},
		{"without push", t.Context(), broken{}, "1/s", 1, false, rpclimit.Unavailable,
			"rate limit store unavailable: retry after 1s", http.Header{"Retry-After": {"1"}}},
		{"overloaded", t.Context(), fakestore.Failing(&weir.OverloadError{Reason: "busy", RetryAfter: 2500 * time.Millisecond}), "1/s", 1, true, rpclimit.Unavailable,
			"rate limiter overloaded: retry after 2.5s", http.Header{"Retry-After": {"3"}, "Grpc-Retry-Pushback-Ms": {"2500"}}},
		{"gone", gone, broken{}, "1/s", 1, true, rpclimit.Canceled, "context canceled", http.Header{}},
	} {
		calls, messages, err := rpclimit.NewEnforcers(c.store, one(t, policy.Config{Limits: []weir.Limit{weir.MustLimit(c.limit)}, OnStoreError: policy.Closed}), rpclimit.ServerConfig{})
		if err != nil || messages != nil {
			t.Fatal(err, messages)
		}
		var pass enforce.Admission
		for range c.calls {
			calls.Enter(c.ctx, call{}, &pass)
		}
		end, h := rpclimit.Refuse(c.ctx, &pass, 0), http.Header{}
		end.SetHeader(h, c.push)
		if c.name == "denied" {
			h.Del("Grpc-Retry-Pushback-Ms") // it is of a clock that runs
		}
		if end.Code != c.code || !strings.HasPrefix(end.Err.Error(), c.text) || fmt.Sprint(h) != fmt.Sprint(c.fields) {
			t.Errorf("%s: %+v with %v, want %d %s with %v", c.name, end, h, c.code, c.text, c.fields)
		}
		pass.Exit(enforce.Result{})
	}
}

// TestSetHeader checks that no client retries by itself after more than a minute, or never.
func TestSetHeader(t *testing.T) {
	for retry, want := range map[time.Duration]string{
		0:                    "map[Grpc-Retry-Pushback-Ms:[1] Retry-After:[1]]",
		time.Millisecond + 1: "map[Grpc-Retry-Pushback-Ms:[2] Retry-After:[1]]",
		time.Minute:          "map[Grpc-Retry-Pushback-Ms:[60000] Retry-After:[60]]",
		time.Minute + 1:      "map[Grpc-Retry-Pushback-Ms:[-1] Retry-After:[61]]",
		weir.Never:           "map[Grpc-Retry-Pushback-Ms:[-1]]",
	} {
		h := http.Header{}
		rpclimit.End{Code: rpclimit.ResourceExhausted, Retry: retry}.SetHeader(h, true)
		if fmt.Sprint(h) != want {
			t.Errorf("%v: %v, want %s", retry, h, want)
		}
	}
}

func ExampleCode_HTTPStatus() {
	for c := rpclimit.OK; c <= rpclimit.Unauthenticated+1; c++ {
		fmt.Print(c.HTTPStatus(), " ")
	}
	// Output:
	// 200 499 500 400 504 404 409 403 429 400 409 400 501 500 503 500 401 500
}

// TestPacerBudget checks the calls of a client with a Limiter.
func TestPacerBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		key := strings.Repeat("k", bounds.MaxKey+1)
		for _, c := range []struct {
			name  string
			wait  time.Duration
			store weir.Store
			key   string
			mode  policy.FailMode
			want  rpclimit.Code // of the second call
		}{
			{"waits", time.Minute, memory, "a", "", rpclimit.OK},
			{"waits for too long", time.Second, memory, "b", "", rpclimit.ResourceExhausted},
			{"has no key", time.Second, memory, "", "", rpclimit.OK},
			{"has too long a key", time.Second, memory, key, "", rpclimit.InvalidArgument},
			{"is decided in this process", time.Second, broken{}, "a", "", rpclimit.ResourceExhausted},
			{"waits in this process", time.Minute, broken{}, "a", policy.Local, rpclimit.OK},
			{"is sent undecided", time.Second, broken{}, "a", policy.Open, rpclimit.OK},
			{"is not sent by a busy process", time.Second, fakestore.Failing(&weir.OverloadError{Reason: "busy"}), "a", policy.Open, rpclimit.Unavailable},
			{"is not sent undecided", time.Second, broken{}, "a", policy.Closed, rpclimit.Unavailable},
		} {
			l, err := weir.New(c.store, weir.MustLimit("1/30s"), weir.Config{})
			if err != nil {
				t.Fatal(err)
			}
			p, err := rpclimit.NewPacer(rpclimit.PacerConfig{Limiter: l, MaxWait: c.wait, OnStoreError: c.mode, Key: func(context.Context, string, string) string { return c.key }}, dialect())
			if err != nil {
				t.Fatal(err)
			}
			_ = p.Admit(t.Context(), p.Call(t.Context(), "host", "method"))
			var f failure
			if errors.As(p.Admit(t.Context(), p.Call(t.Context(), "host", "method")), &f); f.Code != c.want {
				t.Errorf("a call that %s: %+v, want %d", c.name, f, c.want)
			}
		}
	})
}

// TestPacerForgets checks that the pauses of a bounded number of servers are kept.
func TestPacerForgets(t *testing.T) {
	p, err := rpclimit.NewPacer(rpclimit.PacerConfig{MaxWait: weir.NoWait}, dialect())
	if err != nil {
		t.Fatal(err)
	}
	held := 0
	for i := range 5000 {
		p.Observe(p.Call(t.Context(), "host", fmt.Sprint(i)), failure{rpclimit.End{Retry: time.Hour}})
	}
	for i := range 5000 {
		if p.Admit(t.Context(), p.Call(t.Context(), "host", fmt.Sprint(i))) != nil {
			held++
		}
	}
	if held != 4096 {
		t.Errorf("%d are remembered, want 4096", held)
	}
}

func TestRefused(t *testing.T) {
	store := broken{}
	l, err := weir.New(store, weir.MustLimit("3 concurrency"), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pacer := func(c rpclimit.PacerConfig) error { _, err := rpclimit.NewPacer(c, dialect()); return err }
	gates := func(store weir.Store, calls, messages *policy.Set) error {
		_, _, err := rpclimit.NewEnforcers(store, calls, rpclimit.ServerConfig{Messages: messages})
		return err
	}
	rate := []weir.Limit{weir.MustLimit("1/s")}
	json := one(t, policy.Config{Limits: rate, Settle: policy.Settle{JSON: "usage"}})
	header := one(t, policy.Config{Limits: rate, Settle: policy.Settle{Header: "Cost"}})
	for want, err := range map[string]error{
		"Retries: invalid: got -1":                  pacer(rpclimit.PacerConfig{Retries: -1}),
		"Retries: invalid: got 11":                  pacer(rpclimit.PacerConfig{Retries: 11}),
		`OnStoreError: invalid: got "ajar"`:         pacer(rpclimit.PacerConfig{OnStoreError: "ajar"}),
		"Limiter: invalid: got concurrency limit 3": pacer(rpclimit.PacerConfig{Limiter: l}),
		"store: invalid: got nil":                   gates(nil, header, nil),
		"policies: ":                                gates(store, nil, nil),
		`policy p: cost.json "usage": `:             gates(store, json, nil),
		`messages: policy p: cost.json "usage": `:   gates(store, header, json),
		`messages: policy p: cost.header "Cost": `:  gates(store, header, header),
		`messages: policy p: count "failures": `:    gates(store, header, one(t, policy.Config{Limits: rate, Count: policy.CountFailures})),
		"messages: policy p: limits[0] ":            gates(store, header, one(t, policy.Config{Limits: []weir.Limit{l.Limit()}})),
	} {
		if !errors.Is(err, weir.ErrInvalid) || !strings.HasPrefix(err.Error(), "rpclimit: "+want) {
			t.Errorf("error = %v, want rpclimit: %s", err, want)
		}
	}
	if err := gates(store, header, one(t, policy.Config{Limits: rate, Count: policy.CountFailures, Mode: policy.Off})); err != nil {
		t.Errorf("a policy that is off: %v", err)
	}
}

func TestCost(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, " 17\t": 17, "1099511627776": 1 << 40, "1099511627777": -1, "": -1, "-1": -1, "+1": -1, "1.5": -1, "99999999999999999999": -1} {
		if n, err := rpclimit.Cost(text); (err == nil) != (want >= 0) || err == nil && n != want {
			t.Errorf("Cost(%q) = %d, %v, want %d", text, n, err, want)
		}
	}
}

// A call is one of a single client.
type call struct{ policy.Attributes }

func (call) Method() string       { return "" }
func (call) Host() string         { return "" }
func (call) Path() string         { return "" }
func (call) ClientIP() netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, 1}) }

// one is a policy p for each client.
func one(t *testing.T, c policy.Config) *policy.Set {
	t.Helper()
	c.Name, c.Key = "p", []policy.KeyPart{{Source: policy.ClientIP}}
	p, err := policy.New(c)
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

type broken struct{}

func (broken) Do(context.Context, weir.Request) (weir.Decision, error) {
	return weir.Decision{}, weir.ErrUnavailable
}

func (broken) DoAll(context.Context, []weir.Request, []weir.Decision) (bool, error) {
	return false, weir.ErrUnavailable
}

// TestWaitByTheClockOfTheStore checks that MaxWait is measured by the clock of the store.
func TestWaitByTheClockOfTheStore(t *testing.T) {
	for _, c := range fakestore.DriftingWaits {
		synctest.Test(t, func(t *testing.T) {
			c.Check(t, func(store weir.Store, maxWait time.Duration) bool {
				l, err := weir.New(store, weir.MustLimit(c.Limit), weir.Config{})
				if err != nil {
					t.Fatal(err)
				}
				p, err := rpclimit.NewPacer(rpclimit.PacerConfig{Limiter: l, MaxWait: maxWait}, dialect())
				if err != nil {
					t.Fatal(err)
				}
				err = p.Admit(t.Context(), p.Call(t.Context(), "host", "method"))
				var f failure
				if err != nil && (!errors.As(err, &f) || f.Code != rpclimit.ResourceExhausted) {
					t.Error(err)
				}
				return err == nil
			})
		})
	}
}
