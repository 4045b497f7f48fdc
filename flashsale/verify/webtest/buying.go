package webtest

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// awaitAdmission joins, and polls at the returned interval until the user is admitted.
func (b *browser) awaitAdmission(t *testing.T, id string) response {
	t.Helper()
	path := "/api/sales/" + id + "/ticket"
	b.awaitStatus(t, path, http.StatusOK)
	a := b.do(t, "POST", path, "", nil)
	if a.status == http.StatusCreated {
		a.want(t, http.StatusCreated, "")
	} else {
		a.want(t, http.StatusOK, "")
	}
	for end := time.Now().Add(timeout); ; {
		switch a.text("state") {
		case "admitted":
			if a.text("token") == "" || a.text("until") == "" || a.text("place") == "" {
				t.Fatalf("admitted without a token, its expiry or a queue position: %s", a.body)
			}
			return a
		case "waiting":
		default:
			t.Fatalf("the queue status is %s", a.body)
		}
		if time.Now().After(end) {
			t.Fatalf("not admitted: %s", a.body)
		}
		ms, _ := a.json["poll_after_ms"].(float64)
		<-time.After(time.Duration(min(max(ms, 50), 2000)) * time.Millisecond)
		a = b.do(t, "GET", path, "", map[string]string{"Flashsale-Place": a.text("place")})
		a.want(t, http.StatusOK, "")
	}
}

func (s *suite) buy(t *testing.T, id string) {
	orders := "/api/sales/" + id + "/orders"
	one, two := s.guest(t), s.guest(t)
	first := one.awaitAdmission(t, id)
	token := first.text("token")
	if view, _ := first.json["view"].(map[string]any); view["id"] != id || view["title"] != `A "line" & <more> 队` {
		t.Errorf("the view of a queue status is %v", first.json["view"])
	}
	again := one.do(t, "POST", "/api/sales/"+id+"/ticket", object("place", quote(first.text("place"))), nil)
	again.want(t, http.StatusOK, "")
	if again.text("token") != token {
		t.Error("joining again returns another token")
	}

	one.do(t, "POST", orders, "", nil).want(t, http.StatusBadRequest, "invalid")
	two.do(t, "POST", orders, object("token", quote(token)), nil).want(t, http.StatusForbidden, "bad_token")
	two.do(t, "POST", orders, object("token", quote(token[:len(token)-2]+"AA")), nil).want(t, http.StatusForbidden, "bad_token")
	two.do(t, "POST", orders, object("token", quote(strings.Repeat("A", 1025))), nil).want(t, http.StatusBadRequest, "invalid")
	three := s.guest(t)
	for _, key := range []string{strings.Repeat("k", 65), "a\tb", "é"} {
		three.do(t, "POST", orders, object("token", quote(token)), map[string]string{"Idempotency-Key": key}).want(t, http.StatusBadRequest, "invalid")
	}

	key := map[string]string{"Idempotency-Key": "click-1"}
	bought := one.do(t, "POST", orders, object("token", quote(token)), key)
	bought.want(t, http.StatusAccepted, "")
	receipt := bought.text("receipt")
	if receipt == "" || bought.text("state") != "reserved" || bought.text("sale") != id || bought.json["price"] != 1999.0 || bought.json["refunds"] != 0.0 {
		t.Fatalf("the receipt is %s", bought.body)
	}
	for _, fields := range []map[string]string{key, nil, {"Idempotency-Key": "click-2"}} {
		same := one.do(t, "POST", orders, object("token", quote(token)), fields)
		same.want(t, http.StatusAccepted, "")
		if same.body != bought.body {
			t.Errorf("repeated with %v: %s, want %s", fields, same.body, bought.body)
		}
	}

	order := "/api/orders/" + receipt
	two = s.guest(t)
	two.do(t, "GET", order, "", nil).want(t, http.StatusNotFound, "not_found")
	two.do(t, "POST", order+"/cancel", "", nil).want(t, http.StatusNotFound, "not_found")
	two.do(t, "POST", order+"/pay", "", nil).want(t, http.StatusNotFound, "not_found")
	one.awaitState(t, receipt, "pending_pay")
	contacts(t, one, two, order)
	all := one.do(t, "GET", "/api/orders", "", nil)
	all.want(t, http.StatusOK, "")
	if rs, _ := all.json["orders"].([]any); len(rs) != 1 {
		t.Errorf("the orders are %s", all.body)
	}
	full := one.do(t, "POST", "/api/sales/"+id+"/ticket", "", nil)
	full.want(t, http.StatusConflict, "per_user")

	paid := one.do(t, "POST", order+"/pay", `{"payment":"pay-1","after_ms":0}`, nil)
	paid.want(t, http.StatusOK, "")
	if paid.text("state") != "paid" {
		t.Errorf("after the payment: %s", paid.body)
	}
	one.do(t, "POST", order+"/pay", `{"payment":"pay-2"}`, nil).want(t, http.StatusConflict, "refund_due")
	one.do(t, "POST", order+"/cancel", "", nil).want(t, http.StatusConflict, "conflict")
	one.do(t, "PUT", order+"/contact", `{"name":"B","phone":"12345"}`, nil).want(t, http.StatusOK, "")
	one.do(t, "PUT", order+"/contact", `{"name":"B","phone":"12345","country":"CN","city":"A","street":"B"}`, nil).want(t, http.StatusConflict, "conflict")
	same := one.do(t, "POST", orders, object("token", quote(token)), key)
	same.want(t, http.StatusAccepted, "")
	if same.body != bought.body {
		t.Errorf("repeated after the payment: %s, want %s", same.body, bought.body)
	}

	// A cancelled order, and one that is paid later.
	b := s.guest(t)
	r := b.do(t, "POST", orders, object("token", quote(b.awaitAdmission(t, id).text("token"))), nil)
	r.want(t, http.StatusAccepted, "")
	b.awaitState(t, r.text("receipt"), "pending_pay")
	for range 2 {
		cancelled := b.do(t, "POST", "/api/orders/"+r.text("receipt")+"/cancel", "", nil)
		cancelled.want(t, http.StatusOK, "")
		if cancelled.text("state") != "cancelled" {
			t.Errorf("cancelled: %s", cancelled.body)
		}
	}
	b.do(t, "POST", "/api/orders/"+r.text("receipt")+"/pay", "", nil).want(t, http.StatusConflict, "refund_due")
	b = s.guest(t)
	r = b.do(t, "POST", orders, object("token", quote(b.awaitAdmission(t, id).text("token"))), nil)
	r.want(t, http.StatusAccepted, "")
	b.awaitState(t, r.text("receipt"), "pending_pay")
	later := b.do(t, "POST", "/api/orders/"+r.text("receipt")+"/pay", `{"after_ms":1500}`, nil)
	later.want(t, http.StatusAccepted, "")
	if later.text("state") != "pending_pay" {
		t.Errorf("paid at once: %s", later.body)
	}
	b.awaitState(t, r.text("receipt"), "paid")
}

// awaitState polls until an order has a state.
func (b *browser) awaitState(t *testing.T, receipt, want string) {
	t.Helper()
	var a response
	if !poll(600*time.Millisecond, func() bool {
		a = b.do(t, "GET", "/api/orders/"+receipt, "", nil)
		a.want(t, http.StatusOK, "")
		return a.text("state") == want
	}) {
		t.Fatalf("the receipt is %s, want %s", a.body, want)
	}
}

// soldOut buys the one unit of a direct sale.
func (s *suite) soldOut(t *testing.T, id string) {
	orders := "/api/sales/" + id + "/orders"
	one := s.guest(t)
	token := one.awaitAdmission(t, id).text("token")
	bought := one.do(t, "POST", orders, object("token", quote(token)), nil)
	bought.want(t, http.StatusAccepted, "")
	closed := func(phase, reason string, status int, again bool) {
		t.Helper()
		b := s.guest(t)
		poll(200*time.Millisecond, func() bool { return b.do(t, "GET", "/api/sales/"+id, "", nil).text("phase") == phase })
		b = s.guest(t)
		for _, a := range []response{
			b.do(t, "POST", "/api/sales/"+id+"/ticket", "", nil),
			b.do(t, "POST", orders, object("token", quote(token)), nil),
			b.do(t, "POST", orders, `{"token":"abc"}`, nil),
		} {
			a.want(t, status, reason)
			a.wantLayer(t, "L0")
			a.wantRetryAfter(t, again)
		}
	}
	closed("all_taken", "all_taken", http.StatusConflict, true)
	one.awaitState(t, bought.text("receipt"), "pending_pay")
	one.do(t, "POST", "/api/orders/"+bought.text("receipt")+"/pay", "", nil).want(t, http.StatusOK, "")
	closed("sold_out", "sold_out", http.StatusGone, false)
	same := one.do(t, "POST", orders, object("token", quote(token)), nil)
	same.want(t, http.StatusAccepted, "")
	if same.body != bought.body {
		t.Errorf("repeated by the buyer after the sale is sold out: %s, want %s", same.body, bought.body)
	}
}
