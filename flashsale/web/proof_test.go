package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
)

// send sends a request of a user from one address with more header fields.
func (s *shop) send(method, path, user string, fields map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = "192.0.2.77:1"
	r.Header.Set("Flashsale-Request", "1")
	if user != "" {
		r.AddCookie(&http.Cookie{Name: "fs_session", Value: s.keys.Session(pass.Session{User: user, Expires: s.now.Add(time.Hour)})})
	}
	for name, value := range fields {
		if name == "Cookie" {
			r.Header.Set(name, strings.TrimPrefix(r.Header.Get(name)+"; "+value, "; "))
		} else {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// proofOf returns the fs_proof cookie that a response sets, as a request field.
func proofOf(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		if c.Name == "fs_proof" {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

// TestSharedAddress uses up the limit of an address. Users with a proof are not limited by it,
// and others receive the work that proves their session.
func TestSharedAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := selling()
		state := sale.PendingPay
		d.order = func(string, string) (sale.Receipt, error) { return sale.Receipt{State: state}, nil }
		s := open(t, d, layers.Config{})
		const path = "/api/sales/a1/ticket"
		for i := range 100 {
			s.send("GET", "/api/time", "", map[string]string{"X": fmt.Sprint(i)})
		}
		if got := webtest.Summary(s.send("GET", "/api/time", "", nil)); got != "429 L1" {
			t.Fatalf("without a session: %q, want 429 of L1", got)
		}
		w := s.send("GET", path, "ann", nil)
		if got := webtest.Summary(w); got != "403 L1 work_due" {
			t.Fatalf("with a session: %q, want work", got)
		}
		var due struct {
			Challenge string
			Bits      int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &due); err != nil || due.Bits != 18 || due.Challenge != s.keys.Work("a1", "ann") {
			t.Fatalf("%s, %v, want a challenge of 18 bits", w.Body, err)
		}
		if w.Header().Get("Retry-After") != "" {
			t.Error("Retry-After with a challenge: work is enough")
		}
		nonce, err := pass.Solve(t.Context(), due.Challenge, 18)
		if err != nil {
			t.Fatal(err)
		}
		weak, err := pass.Solve(t.Context(), due.Challenge, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name, path, user, nonce string
		}{
			{"no bits", path, "ann", weak}, {"another user's work", path, "bob", nonce}, {"work for another sale", "/api/sales/a2/ticket", "ann", nonce},
		} {
			if got := webtest.Summary(s.send("GET", c.path, c.user, map[string]string{"Flashsale-Work": c.nonce})); got != "403 L1 work_due" {
				t.Errorf("%s: %q, want work", c.name, got)
			}
		}
		w = s.send("GET", path, "ann", map[string]string{"Flashsale-Work": nonce})
		proof := proofOf(w)
		if w.Code != http.StatusOK || proof == "" {
			t.Fatalf("with work: %d, cookie %q", w.Code, proof)
		}
		for _, c := range []struct {
			name, path, user, cookie, want string
		}{
			{"the cookie of work", path, "ann", proof, "200"},
			{"the clock", "/api/time", "ann", proof, "200"},
			{"another sale", "/api/sales/a2/ticket", "ann", proof, "403 L1 work_due"},
			{"another user", path, "bob", proof, "403 L1 work_due"},
			{"a forged cookie", path, "ann", proof + "x", "403 L1 work_due"},
			{"a session as a proof", path, "ann", "fs_proof=" + s.keys.Session(pass.Session{User: "ann", Expires: s.now.Add(time.Hour)}), "403 L1 work_due"},
		} {
			if got := webtest.Summary(s.send("GET", c.path, c.user, map[string]string{"Cookie": c.cookie})); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
		// An identity of the shop is a proof.
		member := "fs_session=" + s.keys.Session(pass.Session{User: "mia", Expires: s.now.Add(time.Hour), Proof: "jwt"})
		if got := webtest.Summary(s.send("GET", path, "", map[string]string{"Cookie": member})); got != "200" {
			t.Errorf("with an identity of the shop: %q, want 200", got)
		}
		// Headers that the shop sets are removed from requests.
		for _, name := range []string{layers.ProofHeader, layers.ReceiptHeader} {
			if got := webtest.Summary(s.send("GET", path, "eve", map[string]string{name: "x"})); got != "403 L1 work_due" {
				t.Errorf("with %s of the client: %q, want work", name, got)
			}
		}
		// A receipt with a valid signature has its own limit, and no limit of the address.
		receipt := func(user, id string) string {
			return "/api/orders/" + s.keys.Receipt(sale.Reservation{ID: id, Sale: "a1", Epoch: 1, User: user, Slot: 1, Ticket: "0123456789abcdef"})
		}
		for i := range 7 {
			want := "200"
			if i >= 5 {
				want = "429 L2"
			}
			if got := webtest.Summary(s.send("GET", receipt("ann", "one"), "ann", nil)); got != want {
				t.Errorf("order, request %d: %q, want %q", i, got, want)
			}
		}
		if got := webtest.Summary(s.send("GET", receipt("ann", "two"), "ann", nil)); got != "200" {
			t.Errorf("another order: %q, want 200", got)
		}
		if got := webtest.Summary(s.send("GET", receipt("ann", "one"), "bob", nil)); got != "429 L1" {
			t.Errorf("another user's order: %q, want 429 of L1", got)
		}
		if got := webtest.Summary(s.send("GET", receipt("ann", "one")+"x", "eve", nil)); got != "429 L1" {
			t.Errorf("a forged receipt: %q, want 429 of L1", got)
		}
		// A paid order proves the session at every sale.
		if proofOf(s.send("GET", receipt("cat", "three"), "cat", nil)) != "" {
			t.Error("a pending order is a proof")
		}
		state = sale.Paid
		paid := proofOf(s.send("GET", receipt("cat", "three"), "cat", nil))
		for _, id := range []string{"a1", "a2"} {
			if got := webtest.Summary(s.send("GET", "/api/sales/"+id+"/ticket", "cat", map[string]string{"Cookie": paid})); got != "200" {
				t.Errorf("sale %s with a paid order: %q, want 200", id, got)
			}
		}
	})
}

// TestFlood checks that a proof does not lift the highest limit of an address.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, selling(), layers.Config{})
		passed := 0
		for i := range 1200 {
			user := fmt.Sprint("u", i)
			proof := "fs_proof=" + s.keys.Proof(pass.Proof{User: user, Expires: s.now.Add(time.Hour)})
			if s.send("GET", "/api/sales/a1/ticket", user, map[string]string{"Cookie": proof}).Code == http.StatusOK {
				passed++
			}
		}
		if passed != 1000 {
			t.Errorf("%d of 1200 requests with a proof passed, want 1000", passed)
		}
	})
}

// TestForgedProof checks that a shop behind a proxy refuses a proof that the proxy trusts.
func TestForgedProof(t *testing.T) {
	s := open(t, selling(), layers.Config{Front: true})
	for _, c := range []struct{ path, user, want string }{
		{"/api/sales/a1/ticket", "ann", "403 L1 work_due"}, {"/api/time", "ann", "429 L1 too_many"}, {"/api/time", "", "429 L1 too_many"},
	} {
		w := s.send("GET", c.path, c.user, map[string]string{"Cookie": "fs_proof=forged"})
		if got := webtest.Summary(w); got != c.want || proofOf(w) != "fs_proof=" {
			t.Errorf("%s of %q: %q, cookie %q, want %q and no cookie", c.path, c.user, got, proofOf(w), c.want)
		}
	}
	if got := webtest.Summary(s.send("GET", "/api/sales/a1/ticket", "ann", nil)); got != "200" {
		t.Errorf("without a proof: %q, want 200", got)
	}
}
