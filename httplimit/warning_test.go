package httplimit_test

import (
	"net/http"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fakestore"
	"github.com/floodweir/weir/policy"
)

// TestWarningField checks the levels in Weir-Budget-Warning, and the event at the end of a request.
func TestWarningField(t *testing.T) {
	level := func(name, limit string, warn *budget.Warning) policy.Config {
		return policy.Config{
			Name: name, Limits: limits(limit, "1000000/720h fixed_window"),
			Settle: policy.Settle{Meter: meter(t, budget.MeterConfig{Unit: budget.OutputTokens, MaxOutput: 100, Warn: warn})},
		}
	}
	warn := &budget.Warning{Budget: "ai", At: []int{90, 80}}
	c := []policy.Config{
		level("ai.team", "1000/24h fixed_window", warn), level("ai.2nd", "1100/24h fixed_window", warn), level("other", "1000/24h fixed_window", nil),
		{Name: "requests", Limits: limits("10/24h fixed_window")},
	}
	var settled []enforce.Event
	observe := func(_ *http.Request, e enforce.Event) {
		if e.Outcome == enforce.Settled {
			settled = append(settled, e)
		}
	}
	serve := func(fields httplimit.Fields) http.Handler {
		store := fakestore.Memory(t)
		return serving(t, store, set(t, c...), httplimit.Config{Fields: fields, Observe: observe}, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"object":"chat.completion","model":"m1","usage":{"prompt_tokens":1,"completion_tokens":99}}`))
		})
	}
	h, quiet := serve(0), serve(httplimit.NoFields)
	for i, want := range []string{"", "", "", "", "", "", "", "", "team;used=0.89, \"2nd\";used=0.81", "team;used=0.99, \"2nd\";used=0.90", "team;used=0.99, \"2nd\";used=0.90"} {
		res := get(h, "/", peer)
		if got := res.Header().Get(httplimit.WarningField); got != want {
			t.Errorf("request %d: %s = %q, want %q", i+1, httplimit.WarningField, got, want)
		}
		if res := get(quiet, "/", peer); res.Header().Get(httplimit.WarningField) != "" {
			t.Errorf("request %d: %s without fields", i+1, httplimit.WarningField)
		}
	}
	// 10 requests to each of two handlers, with two limits of two levels that warn.
	if len(settled) != 10*2*2*2 {
		t.Fatalf("%d events, want 80", len(settled))
	}
	var last weir.Decision
	for _, e := range settled {
		if e.Policy.Name() == "ai.team" && e.Decision.Limit.Capacity() == 1000 {
			last = e.Decision
		}
		if e.Cost != 99 {
			t.Errorf("cost %d, want 99", e.Cost)
		}
	}
	if used := enforce.Used(last); used != 990 {
		t.Errorf("used %d of the limit after the last response, want 990", used)
	}
}
