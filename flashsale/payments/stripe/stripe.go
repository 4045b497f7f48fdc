package stripe

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
)

// maxBody bounds a response, in bytes.
const maxBody = 1 << 20

// Config configures a Provider. Key, Secrets and Page are required.
type Config struct {
	Key     string          // the secret key, sk_… or rk_…
	Secrets func() []string // the valid signing secrets of the webhook endpoint, whsec_…
	Page    string          // https://…, where the buyer pays

	API    string           // https://api.stripe.com if empty
	Client *http.Client     // with a timeout of 10 s if nil
	Clock  func() time.Time // time.Now if nil
}

// Provider is a payments.Payments. It is safe for concurrent use.
type Provider struct{ c Config }

var _ payments.Payments = (*Provider)(nil)

// New returns a Provider.
func New(c Config) (*Provider, error) {
	if !strings.HasPrefix(c.Key, "sk_") && !strings.HasPrefix(c.Key, "rk_") {
		return nil, errors.New("stripe: Key: want a secret key that begins with sk_ or rk_") // the value is secret
	}
	if c.Secrets == nil {
		return nil, errors.New("stripe: Secrets: want a function")
	}
	if u, err := url.Parse(c.Page); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" {
		return nil, fmt.Errorf("stripe: Page %.200q: want https://… without a fragment", c.Page)
	}
	c.API = strings.TrimRight(cmp.Or(c.API, "https://api.stripe.com"), "/")
	c.Client = cmp.Or(c.Client, &http.Client{Timeout: 10 * time.Second})
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Provider{c}, nil
}

// intent is a payment intent.
type intent struct {
	ID               string            `json:"id"`
	ClientSecret     string            `json:"client_secret"`
	Status           string            `json:"status"`
	Amount           int64             `json:"amount"`
	AmountReceived   int64             `json:"amount_received"`
	Currency         string            `json:"currency"`
	Created          int64             `json:"created"`
	Metadata         map[string]string `json:"metadata"`
	LastPaymentError json.RawMessage   `json:"last_payment_error"`
}

// refund is a refund.
type refund struct {
	ID            string            `json:"id"`
	PaymentIntent string            `json:"payment_intent"`
	Status        string            `json:"status"`
	Amount        int64             `json:"amount"`
	Currency      string            `json:"currency"`
	Metadata      map[string]string `json:"metadata"`
}

// apiError is an error response.
type apiError struct {
	status int
	Err    struct {
		Type          string  `json:"type"`
		Code          string  `json:"code"`
		Message       string  `json:"message"`
		PaymentIntent *intent `json:"payment_intent"`
	} `json:"error"`
}

func (e *apiError) Error() string {
	return fmt.Sprintf("stripe: status %d: %s %s: %.200s", e.status, e.Err.Type, e.Err.Code, e.Err.Message)
}

// call sends a request. form is the body of a POST; it is nil for a GET.
func (p *Provider) call(ctx context.Context, path, key string, form url.Values, out any) error {
	method, body := http.MethodGet, io.Reader(nil)
	if form != nil {
		method, body = http.MethodPost, strings.NewReader(form.Encode())
	}
	r, err := http.NewRequestWithContext(ctx, method, p.c.API+path, body)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+p.c.Key)
	r.Header.Set("Stripe-Version", "2024-06-20")
	if form != nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := p.c.Client.Do(r)
	if err != nil {
		return fmt.Errorf("stripe: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return fmt.Errorf("stripe: %w", err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		if err := json.Unmarshal(text, out); err != nil {
			return fmt.Errorf("stripe: response: %w", err)
		}
		return nil
	}
	e := &apiError{status: res.StatusCode}
	_ = json.Unmarshal(text, e) // a proxy in between sends something else
	if e.status == http.StatusNotFound && e.Err.Code == "resource_missing" {
		return fmt.Errorf("%w: %w", payments.ErrNotFound, e)
	}
	return e
}

// Create implements payments.Payments.
func (p *Provider) Create(ctx context.Context, o payments.Order) (payments.Payment, error) {
	form := url.Values{
		"amount": {strconv.FormatInt(o.Amount, 10)}, "currency": {strings.ToLower(o.Currency)}, "description": {o.Title},
		"metadata[receipt]": {o.Receipt}, "metadata[attempt]": {strconv.Itoa(o.Attempt)}, "automatic_payment_methods[enabled]": {"true"},
	}
	var in intent
	var err error
	for n := range 5 { // see Idempotency
		err = p.call(ctx, "/v1/payment_intents", fmt.Sprintf("create-%s-%d-%d", o.Receipt, o.Attempt, n), form, &in)
		if e, ok := errors.AsType[*apiError](err); !ok || e.status < 500 {
			break
		}
	}
	if err != nil {
		return payments.Payment{}, err
	}
	if in.ID == "" || in.ClientSecret == "" {
		return payments.Payment{}, errors.New("stripe: create: the response has no ID or no client secret")
	}
	at := url.Values{"payment_intent": {in.ID}, "client_secret": {in.ClientSecret}, "return_url": {o.ReturnURL}}
	return payments.Payment{Ref: in.ID, URL: p.c.Page + "#" + at.Encode()}, nil
}

// Query implements payments.Payments.
func (p *Provider) Query(ctx context.Context, ref string) (payments.Event, error) {
	var in intent
	if err := p.call(ctx, "/v1/payment_intents/"+url.PathEscape(ref), "", nil, &in); err != nil {
		return payments.Event{}, err
	}
	return in.event(p.c.Clock()), nil
}

// event returns the state of an intent.
func (in *intent) event(at time.Time) payments.Event {
	e := payments.Event{Ref: in.ID, Receipt: in.Metadata["receipt"], Kind: payments.Pending, Amount: in.AmountReceived, Currency: strings.ToUpper(in.Currency), At: at}
	switch {
	case in.Status == "succeeded":
		e.Kind = payments.Paid
	case in.Status == "canceled":
		e.Kind = payments.Closed
	case in.Status == "requires_payment_method" && len(in.LastPaymentError) > 0 && string(in.LastPaymentError) != "null":
		e.Kind = payments.Failed
	}
	return e
}

// Close implements payments.Payments.
func (p *Provider) Close(ctx context.Context, ref string) error {
	var in intent
	err := p.call(ctx, "/v1/payment_intents/"+url.PathEscape(ref)+"/cancel", "", url.Values{}, &in)
	e, ok := errors.AsType[*apiError](err)
	if !ok || e.Err.PaymentIntent == nil {
		return err
	}
	switch e.Err.PaymentIntent.Status {
	case "succeeded":
		return fmt.Errorf("%w: %w", payments.ErrPaid, err)
	case "canceled":
		return nil
	}
	return err // processing: the outcome is open
}

// Refund implements payments.Payments.
func (p *Provider) Refund(ctx context.Context, ref string, amount int64, key string) (payments.RefundState, error) {
	if r, err := p.findRefund(ctx, ref, key); err != nil || r != nil {
		return r.state(err)
	}
	form := url.Values{"payment_intent": {ref}, "amount": {strconv.FormatInt(amount, 10)}, "metadata[key]": {key}}
	var in intent
	if err := p.call(ctx, "/v1/payment_intents/"+url.PathEscape(ref), "", nil, &in); err != nil {
		return "", err
	}
	form.Set("metadata[receipt]", in.Metadata["receipt"])
	var made refund
	err := p.call(ctx, "/v1/refunds", key, form, &made)
	if err == nil {
		return made.state(nil)
	}
	if r, _ := p.findRefund(ctx, ref, key); r != nil { // the work was done before the error
		return r.state(nil)
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		switch {
		case e.Err.Code == "charge_already_refunded": // in the dashboard
			return payments.RefundDone, nil
		case e.status == http.StatusBadRequest && e.Err.Type == "invalid_request_error":
			return "", fmt.Errorf("%w: %w", payments.ErrRefused, err)
		}
	}
	return "", err
}

// findRefund returns the refund with a key, or nil.
func (p *Provider) findRefund(ctx context.Context, ref, key string) (*refund, error) {
	var list struct {
		Data []refund `json:"data"`
	}
	if err := p.call(ctx, "/v1/refunds?limit=100&payment_intent="+url.QueryEscape(ref), "", nil, &list); err != nil {
		return nil, err
	}
	for i := range list.Data {
		if list.Data[i].Metadata["key"] == key {
			return &list.Data[i], nil
		}
	}
	return nil, nil
}

// state returns the state of a refund, or err.
func (r *refund) state(err error) (payments.RefundState, error) {
	switch {
	case err != nil:
		return "", err
	case r.Status == "succeeded":
		return payments.RefundDone, nil
	case r.Status == "failed" || r.Status == "canceled":
		return "", fmt.Errorf("%w: refund %s is %s", payments.ErrRefused, r.ID, r.Status)
	}
	return payments.RefundPending, nil
}
