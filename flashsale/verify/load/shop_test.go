package load_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/bits"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A fakeShop implements the shop's API in memory. It issues a token with the second response to
// a user with a ticket.
type fakeShop struct {
	mu     sync.Mutex
	stock  int
	asked  map[string]int
	tokens map[string]string // token -> user
	bought map[string]string // token -> receipt
	keys   map[string]string // user/key -> receipt
	orders map[string]string // receipt -> state
	units  []int             // of each order

	calls   atomic.Int64
	joins   atomic.Int64
	sources sync.Map // values of X-Forwarded-For

	// Defects that the load generator must report.
	duplicates, anyToken, withoutLayer, refusesWith200 bool

	bits        int      // of the proof of work for a ticket
	worked      sync.Map // user -> nonce
	rejectsWork bool     // accepts no proof of work

	clicks  bool              // a ticket buys a unit; the response to the first call is lost
	clicked map[string]string // user -> key of that call
}

func newFakeShop(stock int) *fakeShop {
	return &fakeShop{stock: stock, asked: map[string]int{}, tokens: map[string]string{}, bought: map[string]string{},
		keys: map[string]string{}, orders: map[string]string{}, clicked: map[string]string{}}
}

func (s *fakeShop) start(t testing.TB) *httptest.Server {
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	return srv
}

func (s *fakeShop) refuse(w http.ResponseWriter, status int, reason, layer string) {
	w.Header().Set("Content-Type", "application/problem+json")
	if !s.withoutLayer {
		w.Header().Set("Flashsale-Layer", layer)
	} else {
		layer = ""
	}
	if status == 429 {
		w.Header().Set("Retry-After", "1")
	}
	if s.refusesWith200 {
		status = 200
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"about:blank","status":%d,"layer":%q,"reason":%q,"retry_after_ms":5}`, status, layer, reason)
}

// work reports whether a user has solved its work, and refuses the request if not.
func (s *fakeShop) work(w http.ResponseWriter, r *http.Request, user string) bool {
	var body struct{ Place, Work string }
	_ = json.NewDecoder(r.Body).Decode(&body) // an invalid body has no solution
	challenge := "challenge-" + user
	sum := sha256.Sum256([]byte(challenge + ":" + body.Work))
	proves := r.Header.Get("Flashsale-Work") == body.Work // the session, for the limit of an address
	if !s.rejectsWork && (body.Place != "" || proves && body.Work != "" && bits.LeadingZeros32(binary.BigEndian.Uint32(sum[:])) >= s.bits) {
		s.worked.Store(user, body.Work)
		return true
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Flashsale-Layer", "L3")
	w.WriteHeader(403)
	fmt.Fprintf(w, `{"status":403,"layer":"L3","reason":"work_due","challenge":%q,"bits":%d}`, challenge, s.bits)
	return false
}

func (s *fakeShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	call := s.calls.Add(1)
	s.sources.Store(r.Header.Get("X-Forwarded-For"), true)
	if r.Method == "POST" && r.Header.Get("Flashsale-Request") == "" {
		s.refuse(w, 403, "csrf", "")
		return
	}
	if r.URL.Path == "/api/session" {
		http.SetCookie(w, &http.Cookie{Name: "fs_session", Value: fmt.Sprint("guest", call), HttpOnly: true})
		w.WriteHeader(201)
		fmt.Fprint(w, `{"user":"guest"}`)
		return
	}
	c, err := r.Cookie("fs_session")
	if err != nil || c.Value == "" {
		s.refuse(w, 401, "no_session", "")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bits > 0 && r.Method == "POST" && strings.HasSuffix(r.URL.Path, "/ticket") && !s.work(w, r, c.Value) {
		return
	}
	switch path := strings.TrimPrefix(r.URL.Path, "/api"); {
	case path == "/sales/s1/ticket":
		s.queueStatus(w, r, c.Value)
	case path == "/sales/s1/orders":
		s.order(w, r, c.Value)
	case strings.HasSuffix(path, "/pay") || strings.HasSuffix(path, "/cancel"):
		parts := strings.Split(path, "/")
		if _, ok := s.orders[parts[2]]; !ok {
			s.refuse(w, 404, "not_found", "")
			return
		}
		s.orders[parts[2]] = map[string]string{"pay": "paid", "cancel": "cancelled"}[parts[3]]
		fmt.Fprintf(w, `{"receipt":%q,"state":%q}`, parts[2], s.orders[parts[2]])
	case strings.HasPrefix(path, "/orders/"):
		receipt := strings.TrimPrefix(path, "/orders/")
		if s.orders[receipt] == "reserved" {
			s.orders[receipt] = "pending_pay"
			fmt.Fprintf(w, `{"receipt":%q,"state":"reserved"}`, receipt)
			return
		}
		fmt.Fprintf(w, `{"receipt":%q,"state":%q}`, receipt, s.orders[receipt])
	default:
		s.refuse(w, 404, "not_found", "")
	}
}

func (s *fakeShop) queueStatus(w http.ResponseWriter, r *http.Request, user string) {
	if r.Method == "POST" {
		s.joins.Add(1)
	}
	n := s.asked[user]
	s.asked[user]++
	switch {
	case s.clicks && n == 0:
		s.stock--
		s.orders["r-"+user] = "reserved"
		s.clicked[user] = r.Header.Get("Idempotency-Key")
		s.refuse(w, 503, "unavailable", "stock")
	case s.clicks && r.Method == "POST" && (s.clicked[user] == "" || r.Header.Get("Idempotency-Key") != s.clicked[user]):
		s.refuse(w, 409, "per_user", "stock") // a second unit
	case s.clicks:
		fmt.Fprintf(w, `{"state":"spent","held":[{"receipt":"r-%s","at":"2030-01-02T03:04:05.006Z"}],"view":{"phase":"all_taken"}}`, user)
	case s.stock == 0:
		s.refuse(w, 410, "sold_out", "L0")
	case n == 0 && r.Method != "POST":
		fmt.Fprint(w, `{"state":"none","poll_after_ms":1,"view":{"phase":"open"}}`)
	case n == 0:
		w.WriteHeader(201)
		fmt.Fprintf(w, `{"state":"waiting","ahead":3,"poll_after_ms":2,"place":"p-%s","view":{"phase":"open","poll_after_ms":9}}`, user)
	default:
		token := "token-of-" + user + "-AAAAAAAAAAAA"
		s.tokens[token] = user
		fmt.Fprintf(w, `{"state":"admitted","poll_after_ms":2,"place":"p-%s","token":%q,"until":"2030-01-02T03:04:05.006Z","view":{"phase":"open"}}`, user, token)
	}
}

func (s *fakeShop) order(w http.ResponseWriter, r *http.Request, user string) {
	body := struct {
		Token    string
		Quantity int
	}{Quantity: 1}
	json.NewDecoder(r.Body).Decode(&body)
	key := user + "/" + r.Header.Get("Idempotency-Key")
	receipt := s.bought[body.Token]
	if receipt == "" && r.Header.Get("Idempotency-Key") != "" {
		receipt = s.keys[key]
	}
	switch {
	case s.tokens[body.Token] != user && !s.anyToken:
		s.refuse(w, 403, "bad_token", "L3")
		return
	case receipt != "" && !s.duplicates:
	case s.stock == 0:
		s.refuse(w, 409, "all_taken", "stock")
		return
	case s.stock < body.Quantity:
		w.Header().Set("Flashsale-Layer", "stock")
		w.WriteHeader(409)
		fmt.Fprintf(w, `{"status":409,"layer":"stock","reason":"few_left","left":%d}`, s.stock)
		return
	default:
		s.stock -= body.Quantity
		s.units = append(s.units, body.Quantity)
		receipt = fmt.Sprint("r", len(s.orders))
		s.orders[receipt], s.bought[body.Token], s.keys[key] = "reserved", receipt, receipt
	}
	w.WriteHeader(202)
	fmt.Fprintf(w, `{"receipt":%q,"sale":"s1","state":"reserved","at":"2030-01-02T03:04:05.006Z"}`, receipt)
}
