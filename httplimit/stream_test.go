package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// chunk is an event with one token.
const chunk = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}` + "\n\n"

// lastChunks end a stream of 40 input and the given number of output tokens.
func lastChunks(output int) string {
	return `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
		fmt.Sprintf(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[],"usage":{"prompt_tokens":40,"completion_tokens":%d}}`, output) + "\n\ndata: [DONE]\n\n"
}

// stepped returns a policy in tokens that reserves 100 input tokens and steps of 10.
func stepped(t *testing.T, name, limit string, m *budget.Meter) policy.Config {
	t.Helper()
	return policy.Config{Name: name, Limits: limits(limit), Settle: policy.Settle{Meter: m}}
}

// proxied sends a request for a stream through a reverse proxy with policies to an upstream, and
// returns the response, its body and the errors of the server.
func proxied(t *testing.T, c httplimit.Config, s *policy.Set, body string, upstream http.HandlerFunc) (*http.Response, string, error) {
	t.Helper()
	api := httptest.NewServer(upstream)
	defer api.Close()
	to, _ := url.Parse(api.URL)
	m, err := httplimit.New(fakestore.Memory(t), s, c)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(m.Wrap(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1}))
	defer proxy.Close()
	res, err := http.Post(proxy.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res, string(text), err
}

const streamBody = `{"model":"m1","stream":true}`

// TestSteps checks that a stream is extended on all levels together, and that its usage is charged.
func TestSteps(t *testing.T) {
	store := fakestore.Memory(t)
	m := meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, MaxOutput: 500, Step: 10})
	var reserved []int64
	h := serving(t, store, set(t, stepped(t, "key", ample, m), stepped(t, "team", ample, m)), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 35 {
			if key, team := charged(t, store, "key", ample), charged(t, store, "team", ample); key != team {
				t.Errorf("charged %d and %d, want the same on both levels", key, team)
			} else if len(reserved) == 0 || reserved[len(reserved)-1] != key {
				reserved = append(reserved, key)
			}
			_, _ = io.WriteString(w, chunk)
		}
		_, _ = io.WriteString(w, lastChunks(35))
	})
	r := httptest.NewRequest("POST", "/", strings.NewReader(streamBody))
	r.RemoteAddr = peer
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := fmt.Sprint(reserved); got != "[110 120 130 140]" {
		t.Errorf("reserved %s, want steps of 10", got)
	}
	if w.Body.String() != strings.Repeat(chunk, 35)+lastChunks(35) {
		t.Errorf("the response differs: %.300s", w.Body)
	}
	for _, level := range []string{"key", "team"} {
		if got := charged(t, store, level, ample); got != 75 {
			t.Errorf("%s: charged %d, want 75, the usage", level, got)
		}
	}
}

// TestStepsOfRequests checks what is reserved at first for other requests than a long stream.
func TestStepsOfRequests(t *testing.T) {
	for body, want := range map[string]int64{
		`{"model":"m1"}`: 600, `{"model":"m1","stream":true}`: 110, `{"model":"m1","stream":true,"max_tokens":5}`: 105, `{"model":"m1","max_tokens":50}`: 150, `x`: 600,
	} {
		store := fakestore.Memory(t)
		m := meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, MaxOutput: 500, Step: 10})
		h := serving(t, store, set(t, stepped(t, "p", ample, m)), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
			if got := charged(t, store, "p", ample); got != want {
				t.Errorf("%s: reserved %d, want %d", body, got, want)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, strings.Repeat(chunk, 5))
			if got := charged(t, store, "p", ample); got != want {
				t.Errorf("%s: reserved %d after 5 tokens, want %d", body, got, want)
			}
		})
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.RemoteAddr = peer
		h.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// TestExhausted checks the ends of a stream whose team has no tokens left: through a reverse proxy,
// with the charge of what was read, and with a canceled upstream.
func TestExhausted(t *testing.T) {
	for _, tc := range []struct {
		exhausted string
		last      string
		charged   int64
		reason    error
	}{
		{"finish", "data: [DONE]\n\n", 130, budget.ErrExhausted},
		{"error", `"type":"insufficient_quota"}}` + "\n\n", 130, budget.ErrExhausted},
		{"allow", lastChunks(50), 90, nil},
	} {
		m := meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, MaxOutput: 500, Step: 10, Exhausted: tc.exhausted})
		canceled := make(chan struct{})
		var events []enforce.Event
		res, text, err := proxied(t, httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) {
			if e.Outcome.AtEnd() {
				events = append(events, e)
			}
		}}, set(t, stepped(t, "key", ample, m), stepped(t, "team", "135/24h fixed_window", m)), `{"model":"m1","stream":true,"stream_options":{"include_usage":true}}`, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for range 50 {
				_, _ = io.WriteString(w, chunk)
				_ = http.NewResponseController(w).Flush()
			}
			if tc.exhausted == "allow" {
				_, _ = io.WriteString(w, lastChunks(50))
				return
			}
			<-r.Context().Done()
			close(canceled)
		})
		if err != nil || res.StatusCode != 200 || !strings.HasSuffix(text, tc.last) {
			t.Errorf("%s: %s, %v, …%s, want the end %s", tc.exhausted, res.Status, err, text[max(0, len(text)-300):], tc.last)
		}
		if tc.reason == nil {
			if len(events) != 1 || events[0].Outcome != enforce.Exhausted || events[0].Policy.Name() != "team" {
				t.Errorf("%s: events %+v, want that team was exhausted", tc.exhausted, events)
			}
			continue
		}
		<-canceled
		if tc.exhausted == "finish" && !strings.Contains(text, `"completion_tokens":30`) {
			t.Errorf("%s: no usage of 30 tokens", text)
		}
		if n := strings.Count(text, `"content":"a"`); n != 30 || !strings.Contains(text, "\n\n: weir budget exhausted\n\n") {
			t.Errorf("%s: %d tokens, want 30, the reserved ones, and a comment:\n%s", tc.exhausted, n, text)
		}
		if len(events) != 3 || events[0].Outcome != enforce.Exhausted || events[0].Policy.Name() != "team" || !errors.Is(events[1].Err, tc.reason) || events[1].Cost != tc.charged || events[2].Cost != tc.charged {
			t.Errorf("%s: events %+v, want that team was exhausted, and a charge of %d on both levels", tc.exhausted, events, tc.charged)
		}
	}
}

// TestExhaustedHandler checks a handler that is no proxy: its writes fail, and its panic passes.
func TestExhaustedHandler(t *testing.T) {
	m := meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, Step: 10})
	for _, value := range []any{nil, "other"} {
		h := serving(t, fakestore.Memory(t), set(t, stepped(t, "p", "115/24h fixed_window", m)), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", "10000")
			if _, err := io.WriteString(w, strings.Repeat(chunk, 12)); err == nil || r.Context().Err() == nil {
				t.Errorf("a write after the end: %v, context %v", err, r.Context().Err())
			}
			if _, err := io.WriteString(w, chunk); err == nil {
				t.Error("a second write after the end succeeds")
			}
			if value != nil {
				panic(value)
			}
		})
		r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(streamBody))
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		func() {
			defer func() {
				if v := recover(); v != value {
					t.Errorf("recovered %v, want %v", v, value)
				}
			}()
			h.ServeHTTP(w, r)
		}()
		if text := w.Body.String(); strings.Count(text, `"content":"a"`) != 10 || !strings.HasSuffix(text, "data: [DONE]\n\n") || w.Header().Get("Content-Length") != "" {
			t.Errorf("response %s, want 10 tokens and an end, without a length", text)
		}
	}
}

// TestOtherStreams checks streams of which the end cannot be changed: their whole bound is reserved before
// their first byte, or the client gets 429.
func TestOtherStreams(t *testing.T) {
	for _, tc := range []struct {
		name, limit, kind, encoding, exhausted string
		status                                 int
		charged                                int64
	}{
		{"compressed", "135/24h fixed_window", "text/event-stream", "gzip", "finish", 429, 110},
		{"an unknown encoding", "135/24h fixed_window", "text/event-stream", "x", "error", 429, 110},
		{"an array", "135/24h fixed_window", "application/json", "", "finish", 429, 110},
		{"binary", "135/24h fixed_window", "application/vnd.amazon.eventstream", "", "finish", 429, 110},
		{"a budget for the bound", "600/24h fixed_window", "application/json", "", "finish", 200, 600},
		{"a budget below the bound", "599/24h fixed_window", "application/json", "", "finish", 429, 110},
		{"allowed", "135/24h fixed_window", "application/json", "", "allow", 200, 110},
		{"identity", "600/24h fixed_window", "text/event-stream", "identity", "finish", 200, 110},
	} {
		m := meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, MaxOutput: 500, Step: 10, Exhausted: tc.exhausted})
		charge := int64(0)
		res, text, err := proxied(t, httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) {
			if e.Outcome.AtEnd() && e.Outcome != enforce.Exhausted {
				charge = e.Cost
			}
		}}, set(t, stepped(t, "p", tc.limit, m)), streamBody, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", tc.kind)
			if tc.encoding != "" {
				w.Header().Set("Content-Encoding", tc.encoding)
			}
			_, _ = io.WriteString(w, "[")
			_ = http.NewResponseController(w).Flush()
			if tc.status == 429 {
				<-r.Context().Done()
			}
			_, _ = io.WriteString(w, "]")
		})
		want := "[]"
		if tc.status == 429 {
			want = `{"error":{"code":"budget_exhausted","message":"budget exhausted","param":null,"type":"insufficient_quota"}}` + "\n"
		}
		final := res.Header.Get("X-Should-Retry") == "false" && res.Header.Get("Content-Encoding") == ""
		if err != nil || res.StatusCode != tc.status || text != want || charge != tc.charged || final != (tc.status == 429) {
			t.Errorf("%s: %s %v, %q, %v, charged %d, want %d, %q, charged %d", tc.name, res.Status, res.Header, text, err, charge, tc.status, want, tc.charged)
		}
	}
}

// TestStepsInShadow checks that a policy in shadow mode ends no stream.
func TestStepsInShadow(t *testing.T) {
	m := meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, Step: 10})
	c := stepped(t, "p", "115/24h fixed_window", m)
	c.Mode = policy.Shadow
	exhausted := 0
	_, text, err := proxied(t, httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) {
		if e.Outcome == enforce.Exhausted && e.Shadow {
			exhausted++
		}
	}}, set(t, c), streamBody, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, strings.Repeat(chunk, 50)+lastChunks(50))
	})
	if err != nil || text != strings.Repeat(chunk, 50)+lastChunks(50) || exhausted != 1 {
		t.Errorf("%v, %d bytes, %d events, want the whole stream and one event", err, len(text), exhausted)
	}
}

// TestIncludeUsage checks that the upstream is asked for the usage, and which clients see it.
func TestIncludeUsage(t *testing.T) {
	const asked = `{"stream_options":{"include_usage":true},"model":"m1","stream":true}`
	all := chunk + lastChunks(5)
	hidden := all[:strings.Index(all, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m1","choices":[],`)] + "data: [DONE]\n\n"
	for _, tc := range []struct {
		name, body, sent, want string
		c                      budget.MeterConfig
	}{
		{"on", streamBody, asked, hidden, budget.MeterConfig{IncludeUsage: true}},
		{"on with steps", streamBody, asked, hidden, budget.MeterConfig{IncludeUsage: true, Step: 10}},
		{"asked by the client", asked, asked, all, budget.MeterConfig{IncludeUsage: true}},
		{"no stream", `{"model":"m1"}`, `{"model":"m1"}`, all, budget.MeterConfig{IncludeUsage: true}},
		{"another format", streamBody, streamBody, all, budget.MeterConfig{IncludeUsage: true, Format: budget.Anthropic}},
		{"off", streamBody, streamBody, all, budget.MeterConfig{}},
	} {
		tc.c.Unit = budget.Tokens
		_, got, err := proxied(t, httplimit.Config{}, set(t, stepped(t, "p", ample, meter(t, tc.c))), tc.body, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if string(body) != tc.sent || err != nil || r.ContentLength != int64(len(tc.sent)) {
				t.Errorf("%s: the upstream got %s, length %d, %v, want %s", tc.name, body, r.ContentLength, err, tc.sent)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Length", fmt.Sprint(len(all)))
			_, _ = io.WriteString(w, all)
		})
		if got != tc.want || err != nil {
			t.Errorf("%s: %v, the client got %s, want %s", tc.name, err, got, tc.want)
		}
	}
}

// TestIncludeMax checks which bound of the output the upstream gets, and that no request reaches it
// without one.
func TestIncludeMax(t *testing.T) {
	for _, tc := range []struct {
		name, body, sent string
		status           int
		c                budget.MeterConfig
		mode             policy.Mode
	}{
		{"none", `{"model":"m1"}`, `{"max_tokens":50,"model":"m1"}`, 200, budget.MeterConfig{IncludeMax: "max_tokens"}, ""},
		{"a smaller one", `{"max_tokens":7}`, `{"max_tokens":7}`, 200, budget.MeterConfig{IncludeMax: "max_tokens"}, ""},
		{"a larger one", `{"max_tokens":70}`, `{"max_tokens":50}`, 200, budget.MeterConfig{IncludeMax: "max_tokens"}, ""},
		{"with the usage", `{"stream":true}`, `{"stream_options":{"include_usage":true},"max_tokens":50,"stream":true}`, 200, budget.MeterConfig{IncludeMax: "max_tokens", IncludeUsage: true, Step: 10}, ""},
		{"no JSON", `x`, "", 400, budget.MeterConfig{IncludeMax: "max_tokens"}, ""},
		{"too long", `{"model":"m1"}`, "", 413, budget.MeterConfig{IncludeMax: "max_tokens", MaxBody: 5}, ""},
		{"in shadow mode", `{"max_tokens":70}`, `{"max_tokens":70}`, 200, budget.MeterConfig{IncludeMax: "max_tokens"}, policy.Shadow},
		{"off", `{"max_tokens":70}`, `{"max_tokens":70}`, 200, budget.MeterConfig{}, ""},
	} {
		tc.c.Unit, tc.c.MaxInput, tc.c.MaxOutput = budget.Tokens, 100, 50
		c := stepped(t, "p", ample, meter(t, tc.c))
		c.Mode = tc.mode
		got := ""
		res, _, err := proxied(t, httplimit.Config{}, set(t, c), tc.body, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if got = string(body); err != nil || r.ContentLength != int64(len(body)) {
				t.Errorf("%s: length %d, %v", tc.name, r.ContentLength, err)
			}
		})
		if err != nil || res.StatusCode != tc.status || got != tc.sent {
			t.Errorf("%s: %s, %v, the upstream got %s, want %d and %s", tc.name, res.Status, err, got, tc.status, tc.sent)
		}
	}
}

// TestDisconnected checks that a response is read to its end without a client, unless it is canceled.
func TestDisconnected(t *testing.T) {
	for disconnected, want := range map[string]int64{"drain": 45, "cancel": 600} {
		store := fakestore.Memory(t)
		m := meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, MaxOutput: 500, Disconnected: disconnected})
		ctx, leave := context.WithCancel(t.Context())
		h := serving(t, store, set(t, stepped(t, "p", ample, m)), httplimit.Config{}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, chunk)
			leave()
			if canceled := r.Context().Err() != nil; canceled != (disconnected == "cancel") {
				t.Errorf("%s: the context of the handler has ended: %t", disconnected, canceled)
			}
			if r.Context().Err() == nil {
				_, _ = io.WriteString(w, lastChunks(5))
			}
		})
		r := httptest.NewRequestWithContext(ctx, "POST", "/", strings.NewReader(streamBody))
		r.RemoteAddr = peer
		h.ServeHTTP(httptest.NewRecorder(), r)
		if got := charged(t, store, "p", ample); got != want {
			t.Errorf("%s: charged %d, want %d", disconnected, got, want)
		}
	}
}

// TestDisconnectedProxy checks that a reverse proxy reads a response for its usage after its client has
// disconnected, and that the response is charged.
func TestDisconnectedProxy(t *testing.T) {
	gone := make(chan struct{})
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, chunk)
		_ = http.NewResponseController(w).Flush()
		<-gone
		for range 100 {
			_, _ = io.WriteString(w, strings.Repeat(chunk, 10))
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.WriteString(w, lastChunks(1001))
	}))
	defer api.Close()
	to, _ := url.Parse(api.URL)
	store := fakestore.Memory(t)
	meter := meter(t, budget.MeterConfig{Unit: budget.Tokens, MaxInput: 100, MaxOutput: 5000, Step: 100})
	m, err := httplimit.New(store, set(t, stepped(t, "p", ample, meter)), httplimit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	limited := m.Wrap(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		context.AfterFunc(r.Context(), func() { close(gone) })
		r.RemoteAddr = peer
		limited.ServeHTTP(w, r)
	}))
	defer proxy.Close()
	res, err := http.Post(proxy.URL, "application/json", strings.NewReader(streamBody))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadFull(res.Body, make([]byte, len(chunk)))
	_ = res.Body.Close()
	<-ended
	if got := charged(t, store, "p", ample); got != 1041 {
		t.Errorf("charged %d, want 1041, the usage of the response", got)
	}
}
