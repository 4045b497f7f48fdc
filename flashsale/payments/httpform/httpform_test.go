package httpform_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/payments/httpform"
	"github.com/floodweir/weir/flashsale/signing"
	"github.com/floodweir/weir/flashsale/verify/paytest"
)

func keys(all ...signing.Secret) httpform.Keys { return func() []signing.Secret { return all } }

// TestCalls makes every call over HTTP, with the errors that a provider decides.
func TestCalls(t *testing.T) {
	bank := &paytest.Bank{URL: "https://bank.example"}
	a, b := signing.New(), signing.New()
	server := httptest.NewServer(bank.Handler(keys(a)))
	defer server.Close()
	c, err := httpform.New(httpform.Config{URL: server.URL + "/", Keys: keys(b, a)}) // b is new, and not at the bank yet
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	order := payments.Order{Receipt: "r-1", Attempt: 1, Amount: 8880, Currency: "CNY"}
	p, err := c.Create(ctx, order)
	again, err2 := c.Create(ctx, order)
	if err != nil || err2 != nil || p != again || p.URL != "https://bank.example/pay/"+p.Ref {
		t.Fatalf("Create = %+v, %v; again %+v, %v", p, err, again, err2)
	}
	query := func(want payments.Kind) {
		t.Helper()
		if e, err := c.Query(ctx, p.Ref); err != nil || e.Kind != want || e.Ref != p.Ref || e.Receipt != "r-1" {
			t.Errorf("Query = %+v, %v, want %v", e, err, want)
		}
	}
	query(payments.Pending)
	if _, err := c.Refund(ctx, p.Ref, 1, "k"); !errors.Is(err, payments.ErrRefused) {
		t.Errorf("Refund before it is paid: %v", err)
	}
	if err := bank.Pay(p.Ref); err != nil {
		t.Fatal(err)
	}
	query(payments.Paid)
	if err := c.Close(ctx, p.Ref); !errors.Is(err, payments.ErrPaid) {
		t.Errorf("Close after it is paid: %v", err)
	}
	for range 2 {
		if s, err := c.Refund(ctx, p.Ref, 8880, "k"); err != nil || s != payments.RefundDone {
			t.Errorf("Refund = %v, %v", s, err)
		}
	}
	if _, back := bank.Balance(p.Ref); back != 8880 {
		t.Errorf("%d refunded, want 8880 once", back)
	}
	for _, err := range []error{c.Close(ctx, "none"), second(c.Query(ctx, "none")), second(c.Refund(ctx, "none", 1, "k"))} {
		if !errors.Is(err, payments.ErrNotFound) {
			t.Errorf("an unknown payment: %v", err)
		}
	}
	order.Attempt = 2
	p, err = c.Create(ctx, order)
	if err != nil || c.Close(ctx, p.Ref) != nil || c.Close(ctx, p.Ref) != nil {
		t.Errorf("Close: %v", err)
	}
	query(payments.Closed)
	bank.Set(paytest.Faults{Down: true})
	for _, err := range []error{c.Close(ctx, p.Ref), second(c.Query(ctx, p.Ref)), second(c.Create(ctx, order))} {
		if err == nil || errors.Is(err, payments.ErrNotFound) || errors.Is(err, payments.ErrPaid) {
			t.Errorf("the bank is down: %v", err)
		}
	}
	other, err := httpform.New(httpform.Config{URL: server.URL, Keys: keys(signing.New())})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Create(ctx, order); err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("with another key: %v, want status 403", err)
	}
}

func second[T any](_ T, err error) error { return err }

// TestNotify reports an event, and accepts nothing that is forged, stale or of another key.
func TestNotify(t *testing.T) {
	now := time.Now()
	secret, old := signing.New(), signing.New()
	c, err := httpform.New(httpform.Config{URL: "https://bank.example", Keys: keys(secret, old), Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	var got []payments.Event
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err != nil {
			t.Error(err)
		}
		n, err := c.Notify(r, body.Bytes())
		if err != nil {
			if !errors.Is(err, payments.ErrForged) {
				t.Errorf("Notify: %v", err)
			}
			w.WriteHeader(http.StatusForbidden)
			return
		}
		got = append(got, n.Event)
	}))
	defer server.Close()
	e := payments.Event{ID: "evt-1", Ref: "p", Receipt: "r", Kind: payments.Paid, Amount: 5, Currency: "CNY", At: now.UTC().Round(time.Second)}
	report := func(key signing.Secret) error {
		return httpform.Report(context.Background(), server.Client(), server.URL, e, key)
	}
	if err := errors.Join(report(secret), report(old)); err != nil || len(got) != 2 || got[0] != e {
		t.Errorf("Report: %v, got %+v, want %+v twice", err, got, e)
	}
	if err := report(signing.New()); err == nil {
		t.Error("another key is accepted")
	}
	now = now.Add(signing.Tolerance + 2*time.Second)
	if err := report(secret); err == nil || len(got) != 2 {
		t.Error("a stale report is accepted")
	}
	now = now.Add(-signing.Tolerance)
	text, err := json.Marshal(e)
	if err != nil || !strings.Contains(string(text), `"kind":"paid"`) {
		t.Errorf("JSON %s, %v", text, err)
	}
}

// TestIncompleteEvent refuses signed events without a field that they need, by its name.
func TestIncompleteEvent(t *testing.T) {
	key := signing.New()
	c, err := httpform.New(httpform.Config{URL: "https://bank.example", Keys: keys(key)})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ body, want string }{
		{`{"a":1}`, "kind: got none"},
		{`{"kind":"stolen"}`, `kind: got "stolen"`},
		{`{"kind":"paid","receipt":"r","amount":5,"currency":"CNY"}`, "ref: got none"},
		{`{"kind":"paid","ref":"p","amount":5,"currency":"CNY"}`, "receipt: got none"},
		{`{"kind":"paid","ref":"p","receipt":"r","currency":"CNY"}`, "amount: got 0"},
		{`{"kind":"refunded","ref":"p","amount":-5,"currency":"CNY"}`, "amount: got -5"},
		{`{"kind":"refunded","ref":"p","amount":5}`, "currency: got none"},
		{`{"kind":"closed","ref":"p"}`, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		signing.Sign(r.Header, "msg_1", time.Now(), []byte(test.body), key)
		n, err := c.Notify(r, []byte(test.body))
		if err != nil || !strings.Contains(n.OK.Body, test.want) || (n.OK.Status == http.StatusBadRequest) != (test.want != "") || test.want != "" && n.Event != (payments.Event{}) {
			t.Errorf("Notify(%s) = %+v, %v, want %q", test.body, n, err, test.want)
		}
	}
}

func TestURL(t *testing.T) {
	for _, text := range []string{"", "mock", "ftp://h/x", "https://", "https://u:p@h/x", "https://h/x?y=1", "https://h/x#y"} {
		if _, err := httpform.New(httpform.Config{URL: text, Keys: keys()}); err == nil {
			t.Errorf("New accepts %q", text)
		}
	}
}
