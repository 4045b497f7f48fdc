package flashsale_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/pages"
)

// A scriptedShop gives a buyer's pages the responses that a test sets, to show states that a
// real shop rarely has. It has one sale with the ID "one".
type scriptedShop struct {
	URL string

	mu      sync.Mutex
	ahead   time.Duration // how far its clock is ahead of the machine's
	view    map[string]any
	status  map[string]any
	orders  []map[string]any
	refuse  map[string][]refusal // by method and path; each is used once
	asked   []string             // method and path of every call below /api/
	keys    []string             // Idempotency-Keys of purchases
	wanted  []int                // quantities of the clicks
	onOrder func(*scriptedShop)
	behind  bool // whether its queue status lacks the state of an order
}

type refusal struct {
	status int
	reason string
	retry  time.Duration
}

// badQuantity is the refusal of a quantity above the maximum of an order.
var badQuantity = refusal{400, "invalid", 0}

func newScriptedShop(t *testing.T) *scriptedShop {
	s := &scriptedShop{}
	s.reset()
	mux := http.NewServeMux()
	mux.Handle("/", pages.NewShop(pages.Config{Mock: true}))
	mux.HandleFunc("/api/", s.serve)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// reset sets the responses for a sale that is open.
func (s *scriptedShop) reset() {
	s.orders, s.refuse = nil, map[string][]refusal{}
	start := time.Now()
	s.view = map[string]any{
		"id": "one", "sku": "MUG-1", "title": `Mug <b>"one"</b> & more`, "price": 9900, "currency": "CNY", "stock": 100, "free": 60,
		"phase": "open", "starts_at": at(start.Add(-time.Minute)), "ends_at": at(start.Add(time.Hour)), "lobby_ms": 0, "queue": "fifo",
		"per_user": 1, "pay_within_ms": 900_000, "waiting": 12, "poll_after_ms": 200,
	}
	s.status = map[string]any{"state": "none", "ahead": 0, "eta_ms": 0, "poll_after_ms": 200, "place": ""}
}

// at formats a time as the API does.
func at(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

func (s *scriptedShop) now() time.Time { return time.Now().Add(s.ahead) }

// set changes the responses.
func (s *scriptedShop) set(change func(s *scriptedShop)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// wait sets the queue status to waiting.
func (s *scriptedShop) wait(ahead int, eta time.Duration) {
	s.status["state"], s.status["ahead"], s.status["eta_ms"], s.status["place"] = "waiting", ahead, eta.Milliseconds(), "place-1"
}

// admit sets the queue status to admitted.
func (s *scriptedShop) admit(token string, for_ time.Duration) {
	s.status["state"], s.status["ahead"], s.status["token"], s.status["until"] = "admitted", 0, token, at(s.now().Add(for_))
}

// order adds an order in a state.
func (s *scriptedShop) order(name, state string, payWithin time.Duration) map[string]any {
	o := map[string]any{
		"receipt": name, "sale": "one", "title": s.view["title"], "price": 9900, "currency": "CNY", "state": state,
		"at": at(s.now()), "pay_by": at(s.now().Add(payWithin)), "refunds": 0,
	}
	s.orders = append([]map[string]any{o}, s.orders...)
	return o
}

func (s *scriptedShop) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	s.asked = append(s.asked, call)
	if key := r.Header.Get("Idempotency-Key"); key != "" {
		s.keys = append(s.keys, key)
	}
	if r.Method == "POST" && r.Header.Get("Flashsale-Request") != "1" {
		s.problem(w, refusal{403, "csrf", 0})
		return
	}
	var body struct{ Quantity int }
	if json.NewDecoder(r.Body).Decode(&body) == nil && body.Quantity > 0 {
		s.wanted = append(s.wanted, body.Quantity)
	}
	if queue := s.refuse[call]; len(queue) > 0 {
		s.refuse[call] = queue[1:]
		s.problem(w, queue[0])
		return
	}
	s.view["now"] = at(s.now())
	receipt, action, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/orders/"), "/")
	switch {
	case call == "GET /api/time":
		s.json(w, 200, map[string]any{"now": at(s.now())})
	case call == "POST /api/session":
		s.json(w, 201, map[string]any{"user": "u1"})
	case call == "GET /api/sales":
		s.json(w, 200, map[string]any{"now": at(s.now()), "sales": []any{s.view}})
	case call == "GET /api/sales/one":
		s.json(w, 200, s.view)
	case call == "GET /api/sales/one/ticket":
		s.json(w, 200, s.whole())
	case call == "POST /api/sales/one/ticket":
		s.wait(40, 95*time.Second)
		s.json(w, 201, s.whole())
	case call == "POST /api/sales/one/orders":
		s.status["state"] = "spent"
		delete(s.status, "token")
		s.json(w, 202, s.order(fmt.Sprintf("receipt-%d", len(s.orders)+1), "reserved", 15*time.Minute))
		if s.onOrder != nil {
			s.onOrder(s)
		}
	case call == "GET /api/orders":
		s.json(w, 200, map[string]any{"orders": append([]map[string]any{}, s.orders...)})
	default:
		for _, o := range s.orders {
			if o["receipt"] == receipt {
				s.act(w, o, action)
				return
			}
		}
		s.problem(w, refusal{404, "not_found", 0})
	}
}

func (s *scriptedShop) act(w http.ResponseWriter, o map[string]any, action string) {
	switch action {
	case "pay":
		o["state"] = "paid"
	case "cancel":
		o["state"] = "cancelled"
	}
	s.json(w, 200, o)
}

// whole returns the queue status with the view and the reservations.
func (s *scriptedShop) whole() map[string]any {
	status := maps.Clone(s.status)
	held := []any{}
	for _, o := range s.orders {
		if o["state"] == "reserved" || o["state"] == "pending_pay" || o["state"] == "paid" {
			if s.behind {
				o = maps.Clone(o)
				o["state"] = "reserved"
			}
			held = append(held, o)
		}
	}
	status["held"], status["view"] = held, s.view
	return status
}

func (s *scriptedShop) json(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(v)
}

func (s *scriptedShop) problem(w http.ResponseWriter, r refusal) {
	w.Header().Set("Content-Type", "application/problem+json")
	if r.retry > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(int((r.retry+time.Second-1)/time.Second)))
	}
	w.WriteHeader(r.status)
	body := map[string]any{
		"status": r.status, "title": http.StatusText(r.status), "detail": "in words", "reason": r.reason, "retry_after_ms": r.retry.Milliseconds(),
	}
	if r == badQuantity {
		body["errors"] = []map[string]any{{"field": "quantity", "detail": "in words", "code": "range", "min": 1, "max": 2}}
	}
	json.NewEncoder(w).Encode(body)
}

// shots returns the directory for the pictures: FLASHSALE_SHOTS, or a temporary one.
func shots(t *testing.T) func(name string) string {
	dir := os.Getenv("FLASHSALE_SHOTS")
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return func(name string) string { return filepath.Join(dir, name+".png") }
}
