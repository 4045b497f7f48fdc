package transport_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/transport"
)

// TestDenied checks that limits deny requests without sending them.
func TestDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		rt := open(t, transport.Config{Base: s, Limits: limits("2/s burst 2", "3/24h")})
		for step, want := range []struct {
			after time.Duration
			retry time.Duration // 0: admitted
			limit string
		}{
			{0, 0, ""},
			{0, 0, ""},
			{0, 500 * time.Millisecond, "2/s"},
			{500 * time.Millisecond, 0, ""},
			{time.Second, 8*time.Hour - 1500*time.Millisecond, "3/24h"},
			{0, 8*time.Hour - 1500*time.Millisecond, "3/24h"}, // the first limit was not charged
		} {
			time.Sleep(want.after)
			closed := false
			r := request(t, "POST", api, "x")
			r.Body = &body{strings.NewReader("x"), func() { closed = true }}
			before := s.seen()
			_, err := do(rt, r)
			if !closed {
				t.Errorf("step %d: the body is open", step)
			}
			if want.retry == 0 {
				if err != nil {
					t.Fatalf("step %d: %v", step, err)
				}
				continue
			}
			d := denial(t, err)
			if d.Decision.RetryAfter != want.retry || !strings.HasPrefix(d.Decision.Limit.String(), want.limit) || d.Server || d.Key != "api.example.com" {
				t.Errorf("step %d: denied %+v, want %v by %s", step, d, want.retry, want.limit)
			}
			if s.seen() != before {
				t.Errorf("step %d: the server was asked", step)
			}
		}
	})
}

// TestWait checks that requests wait in order, for at most MaxWait.
func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		s := &server{}
		s.answer = func(_ int, r *http.Request) (*http.Response, error) {
			mu.Lock()
			order = append(order, r.URL.Path)
			mu.Unlock()
			return s.response(r, 200), nil
		}
		rt := open(t, transport.Config{Base: s, Limits: limits("10/s burst 1"), MaxWait: 450 * time.Millisecond})
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				_, err := get(t, rt, fmt.Sprintf("http://api.example.com/%d", i))
				if took := time.Since(start); i < 5 && (err != nil || took != time.Duration(i)*100*time.Millisecond) {
					t.Errorf("request %d = %v after %v", i, err, took)
				} else if i >= 5 && (!errors.Is(err, transport.ErrDenied) || took > 450*time.Millisecond) {
					t.Errorf("request %d = %v after %v, want a denial within 450ms", i, err, took)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if got := fmt.Sprint(order); got != "[/0 /1 /2 /3 /4]" {
			t.Errorf("order = %v", got)
		}
	})
}

// TestNoOvertaking checks that a cheap request does not overtake an expensive one.
func TestNoOvertaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		rt := open(t, transport.Config{Base: s, Limits: limits("10/s burst 5"), MaxWait: weir.Unlimited, Cost: func(r *http.Request) int64 { return r.ContentLength }})
		start := time.Now()
		for step, c := range []struct {
			content string
			at      time.Duration
		}{{"xxxx", 0}, {"xxxxx", 400 * time.Millisecond}, {"x", 500 * time.Millisecond}} {
			go func() {
				if _, err := do(rt, request(t, "POST", api, c.content)); err != nil || time.Since(start) != c.at {
					t.Errorf("step %d: %v after %v, want %v", step, err, time.Since(start), c.at)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if s.seen() != 3 {
			t.Errorf("the server saw %d", s.seen())
		}
	})
}

// TestContext checks that Unlimited waits until the context ends, and that its deadline denies
// at once.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		store := fakestore.Memory(t)
		rt := open(t, transport.Config{Base: s, Store: store, Limits: limits("1/m"), MaxWait: weir.Unlimited})
		if _, err := get(t, rt, api); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		_, err := do(rt, request(t, "GET", api, "").WithContext(ctx))
		if d := denial(t, err); d.Decision.RetryAfter != time.Minute || time.Since(start) != 0 {
			t.Errorf("denied %+v after %v, want at once", d, time.Since(start))
		}
		cause := errors.New("changed my mind")
		ctx2, giveUp := context.WithCancelCause(t.Context())
		time.AfterFunc(30*time.Second, func() { giveUp(cause) })
		if _, err := do(rt, request(t, "GET", api, "").WithContext(ctx2)); !errors.Is(err, cause) || time.Since(start) != 30*time.Second {
			t.Errorf("error = %v after %v", err, time.Since(start))
		}
		if _, err := do(rt, request(t, "GET", api, "").WithContext(ctx2)); !errors.Is(err, cause) {
			t.Errorf("of a context that has ended: %v", err)
		}
		if _, err := get(t, rt, api); err != nil || time.Since(start) != time.Minute {
			t.Errorf("error = %v after %v: the canceled request took a token", err, time.Since(start))
		}
		if s.seen() != 2 {
			t.Errorf("the server saw %d requests", s.seen())
		}
	})
}

// TestMaxWait checks that a MaxWait of 0 is the default, NoWait denies at once, and Unlimited
// waits for any time.
func TestMaxWait(t *testing.T) {
	for _, c := range []struct {
		maxWait time.Duration
		limit   string
		sent    bool
	}{
		{0, "1/m", true}, {0, "1/61s", false}, {weir.NoWait, "1/s", false}, {weir.Unlimited, "1/24h", true},
	} {
		synctest.Test(t, func(t *testing.T) {
			rt, err := transport.New(transport.Config{Base: &server{}, Store: fakestore.Memory(t), Limits: limits(c.limit), MaxWait: c.maxWait})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := get(t, rt, api); err != nil {
				t.Fatal(err)
			}
			if _, err := get(t, rt, api); (err == nil) != c.sent {
				t.Errorf("MaxWait %v under %s: error = %v, want sent = %v", c.maxWait, c.limit, err, c.sent)
			}
		})
	}
}

// TestMaxWaiters checks that at most MaxWaiters requests wait.
func TestMaxWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		rt := open(t, transport.Config{Base: s, Limits: limits("1/s"), MaxWait: weir.Unlimited, MaxWaiters: 3})
		results := make(chan error, 6)
		for range 6 {
			go func() {
				_, err := get(t, rt, api)
				results <- err
			}()
			synctest.Wait()
		}
		denied := 0
		for range 6 {
			if errors.Is(<-results, transport.ErrDenied) {
				denied++
			}
		}
		if denied != 2 || s.seen() != 4 {
			t.Errorf("%d denied, %d sent; want 2 and 4", denied, s.seen())
		}
	})
}

// TestDelay checks that the delay of a leaky bucket with a queue is held back.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		queue, err := weir.NewLimit(weir.LeakyBucket{Count: 1, Period: time.Second, Burst: 10, Queue: true})
		if err != nil {
			t.Fatal(err)
		}
		rt := open(t, transport.Config{Base: s, Limits: []weir.Limit{queue}, MaxWait: 1500 * time.Millisecond})
		start := time.Now()
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				_, err := get(t, rt, api)
				if i < 2 && (err != nil || time.Since(start) != time.Duration(i)*time.Second) {
					t.Errorf("request %d: %v after %v", i, err, time.Since(start))
				}
				if i >= 2 {
					if d := denial(t, err); d.Decision.RetryAfter <= 0 || d.Decision.RetryAfter > time.Second {
						t.Errorf("request %d: retry after %v", i, d.Decision.RetryAfter)
					}
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if s.seen() != 2 {
			t.Errorf("the server saw %d", s.seen())
		}
	})
}

// TestDelayEnds checks that a request that is canceled during its delay returns its tokens.
func TestDelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		rt := open(t, transport.Config{Base: s, Limits: limits("1/s leaky_bucket burst 10 queue"), MaxWait: weir.Unlimited})
		if _, err := get(t, rt, api); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		if _, err := do(rt, request(t, "GET", api, "").WithContext(ctx)); !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v", err)
		}
		if _, err := get(t, rt, api); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v, want the place of the canceled request", err, time.Since(start))
		}
	})
}

// TestKeyAndCost checks that keys have budgets of their own, and costs are charged.
func TestKeyAndCost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		var events []transport.Event
		rt := open(t, transport.Config{
			Base: s, Limits: limits("10/m burst 10"),
			Key:     func(r *http.Request) string { return r.Header.Get("Account") },
			Cost:    func(r *http.Request) int64 { return int64(len(r.URL.Query().Get("cost"))) },
			Observe: func(_ *http.Request, e transport.Event) { events = append(events, e) },
		})
		send := func(account, cost string) error {
			r := request(t, "GET", api+"?cost="+cost, "")
			r.Header.Set("Account", account)
			_, err := do(rt, r)
			return err
		}
		for step, c := range []struct {
			account, cost string
			denied        bool
		}{
			{"a", "xxxxxx", false}, {"a", "xxxxxx", true}, {"b", "xxxxxx", false}, {"a", "xxxx", false}, {"a", "x", true}, {"a", "", false},
		} {
			if err := send(c.account, c.cost); errors.Is(err, transport.ErrDenied) != c.denied || !c.denied && err != nil {
				t.Errorf("step %d: %v, want denied %v", step, err, c.denied)
			}
		}
		if d := denial(t, send("a", "xxxxxxxxxxx")); d.Decision.RetryAfter != weir.Never || !strings.Contains(d.Error(), "cost above capacity") {
			t.Errorf("above the capacity: %v", d)
		}
		if len(events) != 7 || events[1].Outcome != enforce.Denied || events[1].Key != "a" || events[1].Cost != 6 || events[3].Outcome != enforce.Admitted || events[3].Decision.Remaining != 0 {
			t.Errorf("events %+v", events)
		}
		if err := send("", "x"); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("an empty key: %v", err)
		}
	})
}

// TestShared checks that Transports of one store share a budget.
func TestShared(t *testing.T) {
	store, s := fakestore.Memory(t), &server{}
	var wg sync.WaitGroup
	for range 8 {
		rt := open(t, transport.Config{Base: s, Store: store, Limits: limits("20/24h", "1000/s")})
		wg.Go(func() {
			for range 10 {
				if _, err := get(t, rt, api); err != nil && !errors.Is(err, transport.ErrDenied) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if s.seen() != 20 {
		t.Errorf("8 transports sent %d, want 20", s.seen())
	}
	other := open(t, transport.Config{Base: s, Store: store, Limits: limits("20/24h"), Prefix: "other"})
	if _, err := get(t, other, api); err != nil {
		t.Errorf("under another prefix: %v", err)
	}
}

// TestUnchanged checks that the request is not changed.
func TestUnchanged(t *testing.T) {
	s := &server{}
	rt := open(t, transport.Config{Base: s, Limits: limits("10/s")})
	r := request(t, "POST", api, "content")
	r.Header.Set("A", "b")
	ctx, content := r.Context(), r.Body
	resp, err := rt.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if r.Context() != ctx || r.Body != content || len(r.Header) != 1 {
		t.Error("the request was changed")
	}
	if resp.Request != r {
		t.Error("the response is of another request")
	}
}

func TestHost(t *testing.T) {
	for in, want := range map[string]string{
		"http://API.Example.com/x":      "api.example.com",
		"http://api.example.com:80/":    "api.example.com",
		"https://api.example.com:443/":  "api.example.com",
		"https://api.example.com:80/":   "api.example.com:80",
		"https://api.example.com./":     "api.example.com",
		"http://[::1]:8080/":            "[::1]:8080",
		"http://user:pw@127.0.0.1:81/a": "127.0.0.1:81",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := transport.Host(&http.Request{URL: u}); got != want {
			t.Errorf("Host(%s) = %q, want %q", in, got, want)
		}
	}
}

// TestBadRequest checks that a request that cannot be judged is not sent, and its body is
// closed.
func TestBadRequest(t *testing.T) {
	s := &server{}
	key, cost := "k", int64(1)
	rt := open(t, transport.Config{
		Base: s, Limits: limits("10/s"),
		Key:  func(*http.Request) string { return key },
		Cost: func(*http.Request) int64 { return cost },
	})
	for _, c := range []struct {
		name, key string
		cost      int64
		url       bool
		want      string
	}{
		{"no key", "", 1, true, "Key: invalid: want 1 to 32768 bytes, got 0"},
		{"long key", strings.Repeat("x", 1<<16), 1, true, "Key: invalid: want 1 to 32768 bytes, got 65536"},
		{"negative cost", "k", -1, true, "Cost: invalid: want 0 or more tokens, got -1"},
		{"no URL", "k", 1, false, "request: want a URL, got none"},
	} {
		key, cost = c.key, c.cost
		closed := false
		r := request(t, "POST", api, "x")
		r.Body = &body{strings.NewReader("x"), func() { closed = true }}
		if !c.url {
			r.URL = nil
		}
		if _, err := do(rt, r); err == nil || !strings.Contains(err.Error(), c.want) || !closed {
			t.Errorf("%s: %v (closed %v), want %q", c.name, err, closed, c.want)
		}
	}
	if s.seen() != 0 {
		t.Errorf("%d were sent", s.seen())
	}
}

func TestBadConfig(t *testing.T) {
	store := fakestore.Memory(t)
	for _, c := range []struct {
		config transport.Config
		want   string
	}{
		{transport.Config{Limits: limits("1/s")}, "Store: invalid: want a store, since there are Limits"},
		{transport.Config{Store: store, Limits: make([]weir.Limit, 1)}, "Limits[0]: invalid: want a limit such as"},
		{transport.Config{Store: store, Limits: limits("1/s", "60/m burst 1", "1/s")}, "Limits[2]: invalid: want limits that differ"},
		{transport.Config{Store: store, Limits: limits("5 concurrency")}, "Limits[0]: invalid: want a rate limit"},
		{transport.Config{Store: store, Limits: make([]weir.Limit, 257)}, "Limits: invalid: want at most 256, got 257"},
		{transport.Config{Store: store, Limits: limits("1/s"), Prefix: "a\x00"}, "Prefix: invalid"},
		{transport.Config{MaxWaiters: -1}, "MaxWaiters: invalid: want 0 or more, got -1"},
		{transport.Config{MaxPausedKeys: -1}, "MaxPausedKeys: invalid: want 0 or more, got -1"},
		{transport.Config{MaxPause: -1}, "MaxPause: invalid: want 0 or more, got -1ns"},
		{transport.Config{Retries: 11}, "Retries: invalid: want 0 to 10, got 11"},
		{transport.Config{Retries: -1}, "Retries: invalid: want 0 to 10, got -1"},
		{transport.Config{Retries: 1, IgnoreServer: true}, "Retries: invalid: want 0 with IgnoreServer"},
		{transport.Config{OnStoreError: "ajar"}, `OnStoreError: invalid: want open, closed or local, got "ajar"`},
	} {
		_, err := transport.New(c.config)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New = %v, want %q", err, c.want)
		}
	}
}
