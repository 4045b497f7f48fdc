package main

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/httpform"
	"github.com/floodweir/weir/flashsale/signing"
)

// TestShop opens, pays, refunds and closes bills as the flash sale does, and receives a webhook.
func TestShop(t *testing.T) {
	key, hook := signing.New(), signing.New()
	events := make(chan event, 1)
	till := newTill("https://shop.example", func(_ context.Context, e event) error { events <- e; return nil })
	server := httptest.NewServer(newShop(till, key, hook.Text(), login{[]byte("a secret"), "https://sale.example"}))
	defer server.Close()
	c, err := httpform.New(httpform.Config{URL: server.URL + "/payments", Keys: func() []signing.Secret { return []signing.Secret{key} }})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	order := payments.Order{Receipt: "0123456789abcdef", Attempt: 1, Amount: 1999, Currency: "CNY", Title: "<Tea>", ReturnURL: "https://sale.example/orders"}
	p, err := c.Create(ctx, order)
	if err != nil {
		t.Fatal(err)
	}
	path := strings.TrimPrefix(p.URL, "https://shop.example")
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Post(server.URL+path, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if e := <-events; res.Header.Get("Location") != order.ReturnURL || e.Kind != payments.Paid || e.Amount != 1999 || e.Receipt != order.Receipt {
		t.Errorf("paid: %d to %s, event %+v", res.StatusCode, res.Header.Get("Location"), e)
	}
	if err := c.Close(ctx, p.Ref); !errors.Is(err, payments.ErrPaid) {
		t.Errorf("Close after it is paid: %v", err)
	}
	if s, err := c.Refund(ctx, p.Ref, 1999, "k"); err != nil || s != payments.RefundDone {
		t.Errorf("Refund: %v, %v", s, err)
	}
	order.Attempt = 2
	p, err = c.Create(ctx, order)
	if err != nil || c.Close(ctx, p.Ref) != nil {
		t.Errorf("Close: %v", err)
	}
	if e, err := c.Query(ctx, p.Ref); err != nil || e.Kind != payments.Closed {
		t.Errorf("Query: %+v, %v", e, err)
	}

	res, err = client.PostForm(server.URL+"/login", url.Values{"name": {"Alice"}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if cookies := res.Cookies(); len(cookies) != 1 || cookies[0].Name != "shop_token" || strings.Count(cookies[0].Value, ".") != 2 || res.Header.Get("Location") != "https://sale.example" {
		t.Errorf("login: %d, %v", res.StatusCode, res.Header)
	}

	for secret, want := range map[*signing.Secret]int{&hook: http.StatusNoContent, &key: http.StatusForbidden} {
		body := `{"type":"order.paid","data":{}}`
		r, err := http.NewRequest(http.MethodPost, server.URL+"/webhooks", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		signing.Sign(r.Header, "evt-1", time.Now(), []byte(body), *secret)
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("webhook: %d, want %d", res.StatusCode, want)
		}
	}
}
