package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/payments/httpform"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
)

// TestFlashSale runs the flash sale beside the shop: a customer of the shop buys a unit, pays at
// the shop, and the shop receives the events of the order.
func TestFlashSale(t *testing.T) {
	ctx := t.Context()
	dir, secret, hook := t.TempDir(), []byte(strings.Repeat("s", 40)), signing.New()
	c := run.Config{Data: filepath.Join(dir, "data"), Shop: "127.0.0.1:0", Office: "127.0.0.1:0"}
	ring, err := run.OpenPaymentKeyring(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	text, err := ring.Add(ctx, "default", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := ring.Close(); err != nil {
		t.Fatal(err)
	}
	key, err := signing.Parse(text)
	if err != nil {
		t.Fatal(err)
	}

	// The shop.
	server := httptest.NewUnstartedServer(nil)
	url := "http://" + server.Listener.Addr().String()
	var flashsale string
	bills := newTill(url, func(ctx context.Context, e event) error {
		return httpform.Report(ctx, http.DefaultClient, flashsale+"/api/payments/notify/default", e, key)
	})
	shop := newShop(bills, key, hook.Text(), login{secret, ""})
	received := make(chan string, 10)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/webhooks" {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			answer := httptest.NewRecorder()
			shop.ServeHTTP(answer, r)
			received <- fmt.Sprint(answer.Code, " ", string(body))
			w.WriteHeader(answer.Code)
			return
		}
		shop.ServeHTTP(w, r)
	})
	server.Start()
	defer server.Close()
	log.SetOutput(io.Discard)
	defer log.SetOutput(os.Stderr)

	// The flash sale.
	file := filepath.Join(dir, "token-key")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		t.Fatal(err)
	}
	c.Payments, c.Catalogue = []string{url + "/payments"}, url+"/catalogue"
	c.CatalogueNetworks, c.WebhookNetworks = []string{"127.0.0.1"}, []string{"127.0.0.1"}
	c.Identity = run.Identity{JWTKey: file, JWTAlgorithm: "HS256", JWTIssuer: "shop", JWTCookie: "shop_token"}
	s, err := run.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	flashsale = s.ShopURL
	if err := s.AddMerchant(ctx, "merchant", "correct horse battery"); err != nil {
		t.Fatal(err)
	}
	l, err := run.OpenLedger(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := l.Webhooks().AddEndpoint(ctx, "merchant", url+"/webhooks", hook.Text(), time.Now()); err != nil {
		t.Fatal(err)
	}
	start := time.Now().Truncate(time.Millisecond)
	made, err := s.Merchants.Create(ctx, "merchant", "", sale.Draft{SKU: "keyboard-walnut", Title: "Keyboard", Price: 19900, Stock: 1, StartsAt: start, EndsAt: start.Add(time.Hour), MembersOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Merchants.Expose(ctx, "merchant", made.ID); err != nil {
		t.Fatal(err)
	}

	// A customer.
	cookies := "shop_token=" + login{secret, ""}.token("Alice", time.Now())
	ask := func(method, path, body string, want ...int) map[string]any {
		t.Helper()
		for tries := 0; ; tries++ {
			r, err := http.NewRequestWithContext(ctx, method, flashsale+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Flashsale-Request": {"1"}, "Cookie": {cookies}, "Content-Type": {"application/json"}, "Idempotency-Key": {"one click"}}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			_ = json.NewDecoder(res.Body).Decode(&got)
			res.Body.Close()
			for _, c := range res.Cookies() {
				cookies += "; " + c.Name + "=" + c.Value
			}
			for _, code := range want {
				if res.StatusCode == code {
					return got
				}
			}
			if res.StatusCode != http.StatusServiceUnavailable && res.StatusCode != http.StatusTooManyRequests || tries == 100 {
				t.Fatalf("%s %s: %d %v, want %v", method, path, res.StatusCode, got, want)
			}
			<-time.After(100 * time.Millisecond) // the order is not written yet
		}
	}
	if got := ask("POST", "/api/session", "{}", 201); got["proof"] != "jwt" {
		t.Fatalf("session %v, want one by the shop's token", got)
	}
	product, err := json.Marshal(ask("GET", "/api/sales/"+made.ID+"/product", "", 200))
	if err != nil || !strings.Contains(string(product), `"list_price":39900`) || !strings.Contains(string(product), `"widths":[375,750,1280]`) {
		t.Errorf("product %s, want the copy of the catalogue's", product)
	}
	ticket := ask("POST", "/api/sales/"+made.ID+"/ticket", `{"buy":true}`, 200, 201)
	held, _ := ticket["held"].([]any)
	if len(held) != 1 {
		t.Fatalf("ticket %v, want a unit by one click", ticket)
	}
	receipt := held[0].(map[string]any)["receipt"].(string)
	page, _ := ask("POST", "/api/orders/"+receipt+"/pay", "{}", 200)["checkout"].(string)
	res, err := (&http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Post(page, "", nil)
	if err != nil || res.StatusCode != http.StatusSeeOther {
		t.Fatal(page, res, err)
	}
	res.Body.Close()
	var types []string
	for _, want := range []string{`"order.reserved"`, `"order.paid"`} {
		for found := false; !found; {
			select {
			case got := <-received:
				if !strings.HasPrefix(got, "204 ") {
					t.Fatalf("webhook: %s", got)
				}
				types = append(types, got)
				found = strings.Contains(got, want)
			case <-time.After(time.Minute):
				t.Fatalf("no webhook %s; received %v", want, types)
			}
		}
	}
}
