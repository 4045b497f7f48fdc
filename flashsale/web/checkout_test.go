package web_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/webtest"
	"github.com/floodweir/weir/flashsale/web"
	"github.com/floodweir/weir/memstore"
)

// A counter is a Cashier of a test.
type counter struct {
	checkout func(user, receipt, back string) (sale.Receipt, string, error)
	notices  []string
	returned []string
}

func (c *counter) Returned(_ context.Context, user, receipt string) error {
	c.returned = append(c.returned, user+" "+receipt)
	if receipt == "down" {
		return sale.ErrUnavailable
	}
	return nil
}

func (c *counter) Checkout(_ context.Context, user, receipt, back string) (sale.Receipt, string, error) {
	return c.checkout(user, receipt, back)
}

func (c *counter) Notify(provider string, _ *http.Request, body []byte) payments.Reply {
	c.notices = append(c.notices, fmt.Sprintf("%s %.20s %d", provider, body, len(body)))
	return payments.Reply{Status: http.StatusOK, Body: "success"}
}

// TestNoMock checks that a shop without the mock has none of its routes: no buyer can mark an
// order as paid.
func TestNoMock(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	l, err := layers.New(layers.Config{Store: store, Policies: wide()})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pass.NewKeys(make([]byte, pass.SecretSize))
	if err != nil {
		t.Fatal(err)
	}
	k := &counter{}
	d := &desk{pay: func(string, string, int64) (sale.PayResult, error) {
		t.Error("an order is paid")
		return sale.PayResult{}, nil
	}}
	c := web.ShopConfig{Service: d, Keys: keys, Layers: l, Cashier: k}
	for _, mock := range []bool{true, false} {
		wrong := c
		if wrong.Mock = mock; !mock {
			wrong.Cashier = nil
		}
		if _, err := web.NewShop(wrong); err == nil {
			t.Errorf("NewShop with Mock %v and Cashier %v succeeds", mock, wrong.Cashier)
		}
	}
	s := &shop{keys: keys, layers: l, now: webtest.Start()}
	if s.Shop, err = web.NewShop(c); err != nil {
		t.Fatal(err)
	}
	s.now = s.now.AddDate(10, 0, 0)
	k.checkout = func(user, receipt, back string) (sale.Receipt, string, error) {
		switch receipt {
		case "done":
			return sale.Receipt{Receipt: receipt, State: sale.Paid}, "", nil
		case "late":
			return sale.Receipt{}, "", fmt.Errorf("x: %w: the time to pay is over", sale.ErrConflict)
		case "down":
			return sale.Receipt{}, "", errors.Join(sale.ErrUnavailable)
		}
		return sale.Receipt{Receipt: receipt, State: sale.PendingPay}, "https://bank.example/" + user + "?back=" + back, nil
	}
	for _, test := range []struct{ path, body, want string }{
		{"/api/orders/ofu/pay", `{"after_ms":0}`, "400  invalid"},
		{"/api/orders/ofu/pay", `{"payment":"p-1"}`, "400  invalid"},
		{"/api/payments/callback", `{"receipt":"ofu","payment":"p-1","amount":1999}`, "404  not_found"},
		{"/api/orders/ofu/pay", "", "200"},
		{"/api/orders/done/pay", "{}", "200"},
		{"/api/orders/late/pay", "{}", "409  conflict"},
		{"/api/orders/down/pay", "{}", "503  unavailable"},
		{"/api/orders/ofu/returned", "", "204"},
		{"/api/orders/down/returned", "", "503  unavailable"},
	} {
		w := s.ask("POST", test.path, "u", test.body)
		if got := webtest.Summary(w); got != test.want {
			t.Errorf("%s %s: %q, want %q", test.path, test.body, got, test.want)
		}
		if link := `"checkout":"https://bank.example/u?back=http://example.com/orders"`; strings.Contains(w.Body.String(), link) != (test.path == "/api/orders/ofu/pay" && w.Code == 200) {
			t.Errorf("%s: %s", test.path, w.Body)
		}
	}
	if w := s.ask("POST", "/api/orders/ofu/pay", "", "{}"); w.Code != http.StatusUnauthorized {
		t.Errorf("without a session: %d", w.Code)
	}

	if got := fmt.Sprint(k.returned); got != "[u ofu u down]" {
		t.Errorf("buyers who are back: %s", got)
	}

	// Notifications pass all limits: 200 of one address at once.
	for range 200 {
		r := httptest.NewRequest("POST", "/api/payments/notify/default", strings.NewReader("a=b&sign=c"))
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != 200 || w.Body.String() != "success" {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	}
	if len(k.notices) != 200 || k.notices[0] != "default a=b&sign=c 10" {
		t.Errorf("%d notices, the first %v", len(k.notices), k.notices[:1])
	}
	r := httptest.NewRequest("POST", "/api/payments/notify/default", strings.NewReader(strings.Repeat("x", 64<<10+1)))
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusRequestEntityTooLarge || len(k.notices) != 200 {
		t.Errorf("a large notification: %d", w.Code)
	}
}
