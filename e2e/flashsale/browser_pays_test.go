package flashsale_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/httpform"
	"github.com/floodweir/weir/flashsale/run"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/verify/paytest"
)

// TestBrowserPays follows the pay button to the provider's page and back. One buyer pays in time,
// another when the payment is closed, and sees that the money was returned.
func TestBrowserPays(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	k, err := run.OpenPaymentKeyring(t.Context(), run.Config{Data: data})
	if err != nil {
		t.Fatal(err)
	}
	text, err := k.Add(t.Context(), "default", "")
	if err == nil {
		err = k.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	key, err := signing.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	bank := &paytest.Bank{}
	server := httptest.NewServer(bank.Handler(func() []signing.Secret { return []signing.Secret{key} }))
	t.Cleanup(server.Close)
	bank.URL = server.URL
	system, err := run.Start(t.Context(), run.Config{Data: data, Payments: []string{server.URL}, Shop: "127.0.0.1:0", Office: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		bank.Wait()
		if err := system.Stop(); err != nil {
			t.Error(err)
		}
	})
	bank.Send = func(e payments.Event) error {
		return httpform.Report(context.Background(), http.DefaultClient, system.ShopURL+"/api/payments/notify/default", e, key)
	}
	now := time.Now().Truncate(time.Millisecond)
	exposed := func(sku string, payWithin time.Duration) string {
		return expose(t, system.Merchants, "mei", sale.Draft{SKU: sku, Title: sku, Price: 1900, Currency: "CNY", Stock: 3, PerUser: 1,
			StartsAt: now.Add(100 * time.Millisecond), EndsAt: now.Add(time.Hour), Queue: sale.Fifo, PayWithin: payWithin}).ID
	}
	b := chromium.use(t)
	buys := func(name, id string) *browsertest.Page {
		p := b.Page(t, name, browsertest.Device{Width: 375, Height: 740})
		p.Open(system.ShopURL + "/sales/" + id)
		stage(p, "open")
		p.Click("#join")
		p.WaitText(".receipt h2", "It is yours if you pay in time")
		if p.Text(`document.querySelector('[data-do="late"]') === null`) != "true" {
			t.Error("the page has the buttons of the mock")
		}
		p.Fill(`[name="name"]`, "Li")
		p.Fill(`[name="phone"]`, "12345")
		p.Click(`[data-do="pay"]`)
		p.Await(`location.port === "` + server.URL[len("http://127.0.0.1:"):] + `" && document.querySelector("#pay") !== null`)
		return p
	}
	picture := shots(t)
	ann := buys("ann", exposed("CUP", 15*time.Minute))
	ann.Click("#pay")
	ann.WaitText(".receipt h2", "Paid. It is yours")
	ann.Screenshot(picture("30-paid-375"))

	bank.Set(paytest.Faults{LatePay: true})
	ben := buys("ben", exposed("POT", 10*time.Second))
	ben.AwaitFor(60*time.Second, `performance.now() > 12000`) // after the deadline
	ben.Click("#pay")
	ben.WaitText(".receipt h2", "Not paid in time")
	ben.WaitText("[data-refund]", "Refunded")
	ben.Screenshot(picture("31-refunded-375"))
}
