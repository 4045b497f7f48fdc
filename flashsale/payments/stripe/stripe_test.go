package stripe_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/stripe"
	"github.com/floodweir/weir/flashsale/verify/paytest"
)

func provider(t *testing.T, c stripe.Config) (*stripe.Provider, *paytest.Stripe) {
	t.Helper()
	fake := &paytest.Stripe{Key: "sk_test_1"}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	c.API, c.Page = server.URL, "https://shop.example/pay"
	if c.Key == "" {
		c.Key = "sk_test_1"
	}
	if c.Secrets == nil {
		c.Secrets = func() []string { return nil }
	}
	p, err := stripe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p, fake
}

var order = payments.Order{Receipt: "0123456789abcdef", Attempt: 1, Amount: 500, Currency: "JPY", Title: "A thing", ReturnURL: "https://shop.example/orders"}

// TestCalls makes every call, repeated, in each state of an intent, and after errors.
func TestCalls(t *testing.T) {
	p, fake := provider(t, stripe.Config{})
	ctx := t.Context()
	made, err := p.Create(ctx, order)
	other := order
	other.ReturnURL = "https://elsewhere.example" // not a parameter of the intent
	again, err2 := p.Create(ctx, other)
	if err != nil || err2 != nil || made.Ref != again.Ref || fake.Calls("create") != 1 {
		t.Fatalf("Create = %+v, %v; again %+v, %v", made, err, again, err2)
	}
	page, err := url.Parse(made.URL)
	if err != nil || page.RawQuery != "" || !strings.Contains(page.Fragment, "client_secret="+made.Ref+"_secret") {
		t.Errorf("URL %s, %v: want the client secret in the fragment alone", made.URL, err)
	}
	is := func(want payments.Kind) {
		t.Helper()
		if e, err := p.Query(ctx, made.Ref); err != nil || e.Kind != want || e.Receipt != order.Receipt || e.Currency != "JPY" || want == payments.Paid && e.Amount != 500 {
			t.Errorf("Query = %+v, %v, want %v", e, err, want)
		}
	}
	is(payments.Pending)
	if _, err := p.Refund(ctx, made.Ref, 500, "k"); !errors.Is(err, payments.ErrRefused) {
		t.Errorf("Refund before it is paid: %v", err)
	}
	if err := fake.Pay(made.Ref); err != nil {
		t.Fatal(err)
	}
	is(payments.Paid)
	if err := p.Close(ctx, made.Ref); !errors.Is(err, payments.ErrPaid) {
		t.Errorf("Close after it is paid: %v", err)
	}
	fake.Set(paytest.Faults{After: true})
	for range 3 { // the error 500 of the first is replayed
		if s, err := p.Refund(ctx, made.Ref, 500, "refund-1"); err != nil || s != payments.RefundDone {
			t.Errorf("Refund = %q, %v", s, err)
		}
	}
	fake.Set(paytest.Faults{})
	if s, err := p.Refund(ctx, made.Ref, 500, "another"); err != nil || s != payments.RefundDone {
		t.Errorf("Refund of what is refunded: %q, %v", s, err)
	}
	if _, back := fake.Balance(made.Ref); back != 500 {
		t.Errorf("%d refunded, want 500", back)
	}

	fake.Set(paytest.Faults{After: true})
	order := order
	order.Attempt = 2
	if _, err := p.Create(ctx, order); err == nil {
		t.Error("Create succeeds although each response is 500")
	}
	order.Attempt = 3
	fake.Set(paytest.Faults{})
	if made, err = p.Create(ctx, order); err != nil {
		t.Fatal(err)
	}
	fake.Set(paytest.Faults{After: true})
	if err := p.Close(ctx, made.Ref); err == nil {
		t.Error("Close succeeds although the response is 500")
	}
	for range 2 {
		if err := p.Close(ctx, made.Ref); err != nil {
			t.Errorf("Close of a closed intent: %v", err)
		}
	}
	fake.Set(paytest.Faults{})
	is(payments.Closed)
	_, err = p.Query(ctx, "pi_none")
	if err2 := p.Close(ctx, "pi_none"); !errors.Is(err, payments.ErrNotFound) || !errors.Is(err2, payments.ErrNotFound) {
		t.Errorf("an unknown intent: %v, %v", err, err2)
	}
	fake.Set(paytest.Faults{Down: true})
	if err := p.Close(ctx, made.Ref); err == nil || errors.Is(err, payments.ErrNotFound) || errors.Is(err, payments.ErrPaid) {
		t.Errorf("Close while Stripe is down: %v", err)
	}
}

// TestSignature checks which notifications are accepted.
func TestSignature(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	p, _ := provider(t, stripe.Config{Secrets: func() []string { return []string{"whsec_new", "whsec_old"} }, Clock: func() time.Time { return now }})
	body := []byte(`{"id":"evt_1","type":"payment_intent.succeeded","created":1799999999,"livemode":false,"data":{"object":{"id":"pi_1","status":"succeeded","amount_received":500,"currency":"jpy","metadata":{"receipt":"r"}}}}`)
	sign := paytest.Signature
	for name, c := range map[string]struct {
		header string
		body   []byte
		ok     bool
	}{
		"new secret":       {sign(now, body, "whsec_new"), body, true},
		"old secret":       {sign(now, body, "whsec_old"), body, true},
		"two signatures":   {sign(now, body, "whsec_other", "whsec_old"), body, true},
		"300 s old":        {sign(now.Add(-300*time.Second), body, "whsec_new"), body, true},
		"301 s old":        {sign(now.Add(-301*time.Second), body, "whsec_new"), body, false},
		"from the future":  {sign(now.Add(301*time.Second), body, "whsec_new"), body, false},
		"another secret":   {sign(now, body, "whsec_other"), body, false},
		"another body":     {sign(now, body, "whsec_new"), append([]byte(" "), body...), false},
		"no signature":     {"t=1800000000", body, false},
		"no time":          {strings.TrimPrefix(sign(now, body, "whsec_new"), "t=1800000000,"), body, false},
		"another time":     {strings.Replace(sign(now, body, "whsec_new"), "1800000000", "1800000001", 1), body, false},
		"v0":               {strings.ReplaceAll(sign(now, body, "whsec_new"), "v1=", "v2="), body, false},
		"empty":            {"", body, false},
		"live in test":     {sign(now, []byte(strings.Replace(string(body), "false", "true", 1)), "whsec_new"), []byte(strings.Replace(string(body), "false", "true", 1)), false},
		"signed, not JSON": {sign(now, []byte("x"), "whsec_new"), []byte("x"), false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Stripe-Signature", c.header)
		n, err := p.Notify(r, c.body)
		if c.ok && (err != nil || n.Event.Kind != payments.Paid || n.Event.Amount != 500 || n.Event.Currency != "JPY" || n.Event.Ref != "pi_1" || n.Event.Receipt != "r") ||
			!c.ok && (!errors.Is(err, payments.ErrForged) || n.Event != payments.Event{}) {
			t.Errorf("%s: %+v, %v", name, n, err)
		}
	}
	for body, want := range map[string]payments.Event{
		`{"id":"e","type":"charge.succeeded","data":{"object":{"id":"ch_1"}}}`:                                                    {},
		`{"id":"e","type":"payment_intent.succeeded","data":{"object":{"id":"pi_1","status":"succeeded"}}}`:                       {}, // of another system
		`{"id":"e","type":"payment_intent.canceled","data":{"object":{"id":"p","status":"canceled","metadata":{"receipt":"r"}}}}`: {ID: "e", Ref: "p", Receipt: "r", Kind: payments.Closed},
		`{"id":"e","type":"payment_intent.payment_failed","data":{"object":{"id":"p","status":"requires_payment_method","last_payment_error":{},"metadata":{"receipt":"r"}}}}`: {
			ID: "e", Ref: "p", Receipt: "r", Kind: payments.Failed},
		`{"id":"e","type":"refund.updated","data":{"object":{"id":"re","payment_intent":"p","status":"failed","amount":5,"currency":"jpy","metadata":{"receipt":"r","key":"k"}}}}`: {
			ID: "e", Ref: "p", Receipt: "r", RefundKey: "k", Kind: payments.RefundFailed, Amount: 5, Currency: "JPY"},
		`{"id":"e","type":"refund.updated","data":{"object":{"id":"re","payment_intent":"p","status":"succeeded","amount":5,"currency":"jpy"}}}`: { // in the dashboard
			ID: "e", Ref: "p", RefundKey: "re", Kind: payments.Refunded, Amount: 5, Currency: "JPY"},
		`{"id":"e","type":"refund.created","data":{"object":{"id":"re","payment_intent":"p","status":"pending","amount":5,"currency":"jpy"}}}`: {},
		`{"id":"e","type":"refund.created","data":{"object":{"id":"re","status":"succeeded","amount":5,"currency":"jpy"}}}`:                    {ID: "e", RefundKey: "re", Kind: payments.Refunded, Amount: 5, Currency: "JPY"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Stripe-Signature", sign(now, []byte(body), "whsec_new"))
		n, err := p.Notify(r, []byte(body))
		n.Event.At = time.Time{}
		if err != nil || n.Event != want {
			t.Errorf("%s: %+v, %v, want %+v", body, n.Event, err, want)
		}
	}
}

func TestConfig(t *testing.T) {
	secrets := func() []string { return nil }
	for _, c := range []stripe.Config{{}, {Key: "pk_live_1", Secrets: secrets, Page: "https://h/x"}, {Key: "sk_1", Page: "https://h/x"}, {Key: "sk_1", Secrets: secrets, Page: "h"}, {Key: "sk_1", Secrets: secrets, Page: "https://h/x#y"}} {
		if _, err := stripe.New(c); err == nil {
			t.Errorf("New(%+v) succeeds", c.Page)
		}
	}
}
