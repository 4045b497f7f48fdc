package office_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/office"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/verify/webtest"
	"github.com/floodweir/weir/flashsale/webhook"
)

// TestWebhooks adds an endpoint, looks at an event, replays and skips it, and removes the
// endpoint.
func TestWebhooks(t *testing.T) {
	l, err := ledger.Open(t.Context(), "sqlite::memory:", ledger.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := openOffice(t, func(c *office.Config) { c.Webhooks = l.Webhooks() })
	for _, name := range []string{"ann", "bob"} {
		if err := l.AddMerchant(t.Context(), name, "hash"); err != nil {
			t.Fatal(err)
		}
	}
	// ask sends a request and decodes the response.
	ask := func(method, path, body string, status int) map[string]any {
		t.Helper()
		w := o.ask(method, path, body)
		got := map[string]any{}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != status {
			t.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, status)
		}
		return got
	}
	made := ask("POST", "/api/webhooks", `{"url":"https://shop.example/hook"}`, http.StatusCreated)
	id, _ := made["id"].(string)
	if secret, _ := made["secret"].(string); !strings.HasPrefix(secret, "whsec_") || id == "" {
		t.Fatalf("added %v, want an ID and a secret", made)
	}
	if got := ask("POST", "/api/webhooks", `{"url":"http://8.8.8.8/"}`, 400); got["field"] != "url" {
		t.Errorf("a URL without TLS: %v, want an error of url", got)
	}
	if got := ask("GET", "/api/webhooks", "", 200); !strings.Contains(toJSON(t, got), id) || strings.Contains(toJSON(t, got), "whsec_") {
		t.Errorf("endpoints %v, want the endpoint without its secret", got)
	}
	now := webtest.Start()
	s, err := l.Create(t.Context(), "ann", "", sale.Draft{SKU: "a", Title: "A", Price: 1, Stock: 1, StartsAt: now, EndsAt: now.Add(time.Hour)}.WithDefaults(), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []sale.State{sale.Exposed, sale.Ended} {
		why := ""
		if state == sale.Ended {
			why = sale.Killed
		}
		if _, err := l.SetState(t.Context(), "ann", s.ID, state, why, now, sale.Drafted, sale.Exposed); err != nil {
			t.Fatal(err)
		}
	}
	leased, err := l.Webhooks().Lease(t.Context(), id, now, now.Add(time.Minute), 10)
	if err != nil || len(leased) != 1 {
		t.Fatal(leased, err)
	}
	leased[0].State, leased[0].Attempts = webhook.Dead, 10
	if err := l.Webhooks().Finish(t.Context(), now, []webhook.Result{{Delivery: leased[0], Attempt: webhook.Attempt{At: now, Status: 500, Duration: 1500 * time.Millisecond, Response: "<b>"}}}); err != nil {
		t.Fatal(err)
	}
	path := "/api/webhooks/" + id
	event := path + "/events/" + leased[0].Event
	for query, want := range map[string]int{"": 1, "?state=dead": 1, "?state=pending": 0, "?type=sale.ended": 1, "?subject=" + s.ID: 1, "?after=" + leased[0].Event: 0} {
		if got, _ := ask("GET", path+"/events"+query, "", 200)["events"].([]any); len(got) != want {
			t.Errorf("events%s: %v, want %d", query, got, want)
		}
	}
	ask("GET", path+"/events?state=lost", "", 400)
	ask("GET", path+"/events?type=x", "", 400)
	got := toJSON(t, ask("GET", event, "", 200))
	for _, want := range []string{`"status":500`, `"duration_ms":1500`, `"response":"\u003cb\u003e"`, `"state":"dead"`, `"type":"sale.ended"`, `"attempts":10`} {
		if !strings.Contains(got, want) {
			t.Errorf("attempts %s, want %s", got, want)
		}
	}
	ask("POST", event+"/replay", "{}", 200)
	if got := ask("GET", path+"/events?state=pending", "", 200); len(got["events"].([]any)) != 1 {
		t.Errorf("after a replay %v, want a pending event", got)
	}
	ask("POST", event+"/skip", "{}", 200)
	ask("POST", event+"/skip", "{}", 409)
	if got := ask("POST", path+"/replay", `{"since":"2000-01-01T00:00:00.000Z"}`, 200); got["events"] != 1.0 {
		t.Errorf("replay since: %v, want one event", got)
	}
	ask("POST", path+"/replay", `{"since":"yesterday"}`, 400)
	if got := ask("POST", path+"/rotate", `{"keep_ms":0}`, 200); got["secret"] == made["secret"] {
		t.Error("a rotation keeps the secret")
	}
	ask("POST", path+"/rotate", `{"keep_ms":-1}`, 400)
	ask("POST", path+"/disable", "{}", 200)
	if got := toJSON(t, ask("GET", "/api/webhooks", "", 200)); !strings.Contains(got, `"disabled":"merchant"`) {
		t.Errorf("disabled: %s", got)
	}
	ask("POST", path+"/enable", "{}", 200)
	other, err := l.Webhooks().AddEndpoint(t.Context(), "bob", "https://bob.example/", signing.New().Text(), now)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"/rotate", "/enable", "/disable", "/remove", "/events/x/skip", "/events/x/replay"} {
		ask("POST", "/api/webhooks/"+other.ID+p, "{}", 404)
	}
	ask("GET", "/api/webhooks/"+other.ID+"/events", "", 404)
	if w := o.ask("POST", path+"/remove", "{}", func(r *http.Request) { r.Header.Del("Flashsale-CSRF") }); w.Code != 403 {
		t.Errorf("without CSRF: %d", w.Code)
	}
	ask("POST", path+"/remove", "{}", 200)
	ask("POST", path+"/remove", "{}", 404)
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
