package webtest

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// turn joins, and polls as it is told until it is admitted.
func (b *browser) turn(t *testing.T, id string) answered {
	t.Helper()
	path := "/api/sales/" + id + "/ticket"
	b.until(t, path, http.StatusOK)
	a := b.do(t, "POST", path, "", nil)
	if a.status == http.StatusCreated {
		a.is(t, http.StatusCreated, "")
	} else {
		a.is(t, http.StatusOK, "")
	}
	for end := time.Now().Add(patience); ; {
		switch a.text("state") {
		case "admitted":
			if a.text("token") == "" || a.text("until") == "" || a.text("place") == "" {
				t.Fatalf("admitted without a token, its end or a place: %s", a.body)
			}
			return a
		case "waiting":
		default:
			t.Fatalf("the turn is %s", a.body)
		}
		if time.Now().After(end) {
			t.Fatalf("not admitted: %s", a.body)
		}
		ms, _ := a.json["poll_after_ms"].(float64)
		<-time.After(time.Duration(min(max(ms, 50), 2000)) * time.Millisecond)
		a = b.do(t, "GET", path, "", map[string]string{"Flashsale-Place": a.text("place")})
		a.is(t, http.StatusOK, "")
	}
}

func (s *suite) buys(t *testing.T, id string) {
	orders := "/api/sales/" + id + "/orders"
	one, two := s.guest(t), s.guest(t)
	first := one.turn(t, id)
	token := first.text("token")
	if view, _ := first.json["view"].(map[string]any); view["id"] != id || view["title"] != `A "line" & <more> 队` {
		t.Errorf("the view of a turn is %v", first.json["view"])
	}
	again := one.do(t, "POST", "/api/sales/"+id+"/ticket", object("place", quote(first.text("place"))), nil)
	again.is(t, http.StatusOK, "")
	if again.text("token") != token {
		t.Error("joining again gives another token")
	}

	one.do(t, "POST", orders, "", nil).is(t, http.StatusBadRequest, "invalid")
	two.do(t, "POST", orders, object("token", quote(token)), nil).is(t, http.StatusForbidden, "bad_token")
	two.do(t, "POST", orders, object("token", quote(token[:len(token)-2]+"AA")), nil).is(t, http.StatusForbidden, "bad_token")
	two.do(t, "POST", orders, object("token", quote(strings.Repeat("A", 1025))), nil).is(t, http.StatusBadRequest, "invalid")
	three := s.guest(t)
	for _, key := range []string{strings.Repeat("k", 65), "a\tb", "é"} {
		three.do(t, "POST", orders, object("token", quote(token)), map[string]string{"Idempotency-Key": key}).is(t, http.StatusBadRequest, "invalid")
	}

	key := map[string]string{"Idempotency-Key": "click-1"}
	bought := one.do(t, "POST", orders, object("token", quote(token)), key)
	bought.is(t, http.StatusAccepted, "")
	receipt := bought.text("receipt")
	if receipt == "" || bought.text("state") != "reserved" || bought.text("sale") != id || bought.json["price"] != 1999.0 || bought.json["refunds"] != 0.0 {
		t.Fatalf("the receipt is %s", bought.body)
	}
	for _, fields := range []map[string]string{key, nil, {"Idempotency-Key": "click-2"}} {
		same := one.do(t, "POST", orders, object("token", quote(token)), fields)
		same.is(t, http.StatusAccepted, "")
		if same.body != bought.body {
			t.Errorf("the same question with %v: %s, want %s", fields, same.body, bought.body)
		}
	}

	order := "/api/orders/" + receipt
	two = s.guest(t)
	two.do(t, "GET", order, "", nil).is(t, http.StatusNotFound, "not_found")
	two.do(t, "POST", order+"/cancel", "", nil).is(t, http.StatusNotFound, "not_found")
	two.do(t, "POST", order+"/pay", "", nil).is(t, http.StatusNotFound, "not_found")
	one.state(t, receipt, "pending_pay")
	contacts(t, one, two, order)
	all := one.do(t, "GET", "/api/orders", "", nil)
	all.is(t, http.StatusOK, "")
	if rs, _ := all.json["orders"].([]any); len(rs) != 1 {
		t.Errorf("the orders are %s", all.body)
	}
	full := one.do(t, "POST", "/api/sales/"+id+"/ticket", "", nil)
	full.is(t, http.StatusConflict, "per_user")

	paid := one.do(t, "POST", order+"/pay", `{"payment":"pay-1","after_ms":0}`, nil)
	paid.is(t, http.StatusOK, "")
	if paid.text("state") != "paid" {
		t.Errorf("after the payment: %s", paid.body)
	}
	one.do(t, "POST", order+"/pay", `{"payment":"pay-2"}`, nil).is(t, http.StatusConflict, "refund_due")
	one.do(t, "POST", order+"/cancel", "", nil).is(t, http.StatusConflict, "conflict")
	same := one.do(t, "POST", orders, object("token", quote(token)), key)
	same.is(t, http.StatusAccepted, "")
	if same.body != bought.body {
		t.Errorf("asked again after the payment: %s, want %s", same.body, bought.body)
	}

	// A unit that is cancelled, and one that is paid later.
	b := s.guest(t)
	r := b.do(t, "POST", orders, object("token", quote(b.turn(t, id).text("token"))), nil)
	r.is(t, http.StatusAccepted, "")
	b.state(t, r.text("receipt"), "pending_pay")
	for range 2 {
		gone := b.do(t, "POST", "/api/orders/"+r.text("receipt")+"/cancel", "", nil)
		gone.is(t, http.StatusOK, "")
		if gone.text("state") != "cancelled" {
			t.Errorf("cancelled: %s", gone.body)
		}
	}
	b.do(t, "POST", "/api/orders/"+r.text("receipt")+"/pay", "", nil).is(t, http.StatusConflict, "refund_due")
	b = s.guest(t)
	r = b.do(t, "POST", orders, object("token", quote(b.turn(t, id).text("token"))), nil)
	r.is(t, http.StatusAccepted, "")
	b.state(t, r.text("receipt"), "pending_pay")
	later := b.do(t, "POST", "/api/orders/"+r.text("receipt")+"/pay", `{"after_ms":1500}`, nil)
	later.is(t, http.StatusAccepted, "")
	if later.text("state") != "pending_pay" {
		t.Errorf("paid at once: %s", later.body)
	}
	b.state(t, r.text("receipt"), "paid")
}

// state polls until a receipt is in a state.
func (b *browser) state(t *testing.T, receipt, want string) {
	t.Helper()
	for end := time.Now().Add(patience); ; {
		a := b.do(t, "GET", "/api/orders/"+receipt, "", nil)
		if a.is(t, http.StatusOK, ""); a.text("state") == want {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the receipt is %s, want %s", a.body, want)
		}
		<-time.After(600 * time.Millisecond)
	}
}

// soldOut buys the one unit of a direct sale.
func (s *suite) soldOut(t *testing.T, id string) {
	orders := "/api/sales/" + id + "/orders"
	one := s.guest(t)
	token := one.turn(t, id).text("token")
	bought := one.do(t, "POST", orders, object("token", quote(token)), nil)
	bought.is(t, http.StatusAccepted, "")
	shut := func(phase, reason string, status int, again bool) {
		t.Helper()
		b := s.guest(t)
		for end := time.Now().Add(patience); ; {
			if a := b.do(t, "GET", "/api/sales/"+id, "", nil); a.text("phase") == phase || time.Now().After(end) {
				break
			}
			<-time.After(200 * time.Millisecond)
		}
		b = s.guest(t)
		for _, a := range []answered{
			b.do(t, "POST", "/api/sales/"+id+"/ticket", "", nil),
			b.do(t, "POST", orders, object("token", quote(token)), nil),
			b.do(t, "POST", orders, `{"token":"abc"}`, nil),
		} {
			a.is(t, status, reason)
			a.by(t, "L0")
			a.retries(t, again)
		}
	}
	shut("all_taken", "all_taken", http.StatusConflict, true)
	one.state(t, bought.text("receipt"), "pending_pay")
	one.do(t, "POST", "/api/orders/"+bought.text("receipt")+"/pay", "", nil).is(t, http.StatusOK, "")
	shut("sold_out", "sold_out", http.StatusGone, false)
	same := one.do(t, "POST", orders, object("token", quote(token)), nil)
	same.is(t, http.StatusAccepted, "")
	if same.body != bought.body {
		t.Errorf("the buyer asks again when all is sold: %s, want %s", same.body, bought.body)
	}
}
