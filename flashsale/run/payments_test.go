package run_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/run"
)

// TestProviders starts shops with the payment providers that serve can have: each has the routes
// of its providers, and none has the mock's.
func TestProviders(t *testing.T) {
	stripe := run.StripeConfig{Key: "sk_test_1", Page: "https://shop.example/pay"}
	for name, c := range map[string]struct {
		config run.Config
		keys   []string
		routes map[string]int // of a notification that is not signed
	}{
		"none":         {run.Config{}, nil, map[string]int{"default": 404}},
		"explicitly":   {run.Config{Payments: []string{run.NoPayments}}, nil, map[string]int{"default": 404}},
		"one":          {run.Config{Payments: []string{"https://bank.example/pay"}}, []string{"default"}, map[string]int{"default": 403, "alice": 404}},
		"stripe":       {run.Config{Payments: []string{run.StripePayments}, Stripe: stripe}, []string{"default"}, map[string]int{"default": 403}},
		"of merchants": {run.Config{Payments: []string{"alice=https://bank.example", "bob=stripe"}, Stripe: stripe}, []string{"alice", "bob"}, map[string]int{"alice": 403, "bob": 403, "default": 404}},
	} {
		c.config.Data = t.TempDir()
		k, err := run.OpenPaymentKeyring(t.Context(), run.Config{Data: c.config.Data})
		if err != nil {
			t.Fatal(err)
		}
		for _, provider := range c.keys {
			if _, err := k.Add(t.Context(), provider, ""); err != nil {
				t.Fatal(err)
			}
		}
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		s := start(t, c.config)
		for provider, want := range c.routes {
			res, err := http.Post(s.ShopURL+"/api/payments/notify/"+provider, "application/json", strings.NewReader(`{"ref":"x","kind":"paid"}`))
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != want {
				t.Errorf("%s: a notification of %s: %d, want %d", name, provider, res.StatusCode, want)
			}
		}
		page, err := http.Get(s.ShopURL + "/")
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		if err := page.Write(&text); err != nil {
			t.Fatal(err)
		}
		page.Body.Close()
		if strings.Contains(text.String(), "data-mock") {
			t.Errorf("%s: the page has the buttons of the mock", name)
		}
	}
}
