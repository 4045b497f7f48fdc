package httplimit_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// priced returns a policy with a meter that refuses models other than m1 and m2.
func priced(t *testing.T, c budget.MeterConfig) policy.Config {
	t.Helper()
	prices, err := budget.NewPrices("deny", budget.Price{Models: []string{"m1"}, Input: "1", Output: "10"}, budget.Price{Models: []string{"m2"}, Input: "2", Output: "1000"})
	if err != nil {
		t.Fatal(err)
	}
	c.Unit, c.Prices = budget.USD, prices
	m, err := budget.NewMeter(c)
	if err != nil {
		t.Fatal(err)
	}
	return policy.Config{Name: "p", Limits: limits(ample), Settle: policy.Settle{Meter: m}}
}

// TestCall checks what is reserved for the body of a request, which requests are refused, and that
// the handler reads the same body.
func TestCall(t *testing.T) {
	long := `{"model":"m1","messages":"` + strings.Repeat("a", 300) + `"}`
	for _, tc := range []struct {
		name, body, encoding string
		status               int
		want                 int64 // reserved
		says                 string
	}{
		{"a model", `{"model":"m1"}`, "", 200, 100 + 500*10, ""},
		{"a model and its maximum", `{"model":"m1","max_tokens":7,"n":2}`, "", 200, 100 + 14*10, ""},
		{"another model", `{"model":"m2","max_tokens":7}`, "", 200, 200 + 7*1000, ""},
		{"an unknown model", `{"model":"m3"}`, "", 400, 0, `"m3"`},
		{"a model with quotes", `{"model":"<\"\\>"}`, "", 400, 0, `"<\"\\>"`},
		{"no model", `{}`, "", 400, 0, "names none"},
		{"no JSON", `model=m1`, "", 400, 0, "want a JSON object"},
		{"no body", ``, "", 400, 0, "want a JSON object"},
		{"too long", long, "", 413, 0, "want at most 200 bytes"},
		{"encoded", `{"model":"m1"}`, "gzip", 400, 0, "encoding"},
	} {
		store := fakestore.Memory(t)
		var events []enforce.Event
		read, reserved := "", int64(-1)
		h := serving(t, store, set(t, priced(t, budget.MeterConfig{MaxInput: 100, MaxOutput: 500, MaxBody: 200})), httplimit.Config{
			Observe: func(_ *http.Request, e enforce.Event) { events = append(events, e) },
		}, func(w http.ResponseWriter, r *http.Request) {
			text, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			read, reserved = string(text), charged(t, store, "p", ample)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"object":"chat.completion","model":"m1","usage":{"prompt_tokens":10,"completion_tokens":1}}`)
		})
		r := httptest.NewRequest("POST", "/v1/chat/completions", iotest.HalfReader(strings.NewReader(tc.body)))
		r.RemoteAddr = peer
		r.Header.Set("Content-Encoding", tc.encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != tc.status {
			t.Errorf("%s: %d %s, want %d", tc.name, w.Code, w.Body, tc.status)
		}
		if tc.status == 200 {
			if read != tc.body || reserved != tc.want {
				t.Errorf("%s: the handler read %q, with %d reserved, want %q and %d", tc.name, read, reserved, tc.body, tc.want)
			}
			if got := charged(t, store, "p", ample); got != 20 {
				t.Errorf("%s: charged %d, want 20, the price of the response", tc.name, got)
			}
			continue
		}
		var problem struct {
			Detail string
			Error  struct{ Message, Code string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || !strings.Contains(problem.Detail, tc.says) || problem.Error.Message != problem.Detail || problem.Error.Code != "model_not_found" {
			t.Errorf("%s: body %s, %v, want a problem that says %s", tc.name, w.Body, err, tc.says)
		}
		if reserved != -1 || charged(t, store, "p", ample) != 0 {
			t.Errorf("%s: the request reached the handler, or was charged", tc.name)
		}
		if len(events) != 2 || events[0].Outcome != enforce.Denied || events[1].Outcome != enforce.Unpriced || budget.Reason(events[1].Err) != "unknown_model" {
			t.Errorf("%s: events %+v, want a denial, and unknown_model", tc.name, events)
		}
	}
}

// TestCallInShadow checks that a policy in shadow mode refuses no model.
func TestCallInShadow(t *testing.T) {
	c := priced(t, budget.MeterConfig{})
	c.Mode = policy.Shadow
	var outcomes []enforce.Outcome
	h := serving(t, fakestore.Memory(t), set(t, c), httplimit.Config{Observe: func(_ *http.Request, e enforce.Event) { outcomes = append(outcomes, e.Outcome) }}, func(http.ResponseWriter, *http.Request) {})
	if w := get(h, "/", peer); w.Code != 200 || len(outcomes) != 2 || outcomes[0] != enforce.Denied {
		t.Errorf("%d with outcomes %v, want 200 and a denial in shadow mode", w.Code, outcomes)
	}
}

// TestCallOfNoResponse checks that an interface without bodies reserves by the highest price.
func TestCallOfNoResponse(t *testing.T) {
	store := fakestore.Memory(t)
	h := serving(t, store, set(t, priced(t, budget.MeterConfig{MaxInput: 100, MaxOutput: 5})), httplimit.Config{NoResponse: true}, func(http.ResponseWriter, *http.Request) {})
	if w := get(h, "/", peer); w.Code != 200 || charged(t, store, "p", ample) != 200+5*1000 {
		t.Errorf("%d, charged %d, want 200 and the bound of the dearest model", w.Code, charged(t, store, "p", ample))
	}
}

// TestDeniedBudget checks that SDKs do not repeat a request that a budget denied.
func TestDeniedBudget(t *testing.T) {
	c := priced(t, budget.MeterConfig{MaxInput: 100, MaxOutput: 500})
	c.Limits = limits("5500/24h fixed_window")
	h := serving(t, fakestore.Memory(t), set(t, c), httplimit.Config{}, func(http.ResponseWriter, *http.Request) {})
	for _, want := range []int{200, 429} {
		r := httptest.NewRequest("POST", "/", strings.NewReader(`{"model":"m1"}`))
		r.RemoteAddr = peer
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if retry := w.Header().Get("X-Should-Retry"); w.Code != want || (retry == "false") != (want == 429) {
			t.Errorf("%d with X-Should-Retry %q, want %d", w.Code, retry, want)
		}
	}
}
