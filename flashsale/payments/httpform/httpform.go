// Package httpform is the HTTP form of a payment provider, for shops in other languages: JSON
// POSTs, signed as Standard Webhooks (package signing). A Client calls such a shop, a Handler
// makes one of a payments.Payments.
//
//	POST URL/create  {receipt, attempt, amount, currency, title, merchant, sale, pay_by, return_url}  200 {ref, url}
//	POST URL/query   {ref}                 200 an event
//	POST URL/close   {ref}                 200 {}; 409 {"error":"paid"}
//	POST URL/refund  {ref, amount, key}    200 {state: pending|done}; 422 {"error":"refused"}
//
// An unknown ref is 404. The shop reports an event in the same way, signed with the same key, to
// /api/payments/notify/NAME of the flash sale: {id, ref, receipt, refund_key, kind, amount,
// currency, at}. It sends it again until the response is 200.
package httpform

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/signing"
)

// maxBody bounds a request or a response, in bytes.
const maxBody = 64 << 10

// Keys returns the secrets that are valid now, the newest first. The newest signs. It is called
// concurrently.
type Keys func() []signing.Secret

// Config configures a Client. URL and Keys are required.
type Config struct {
	URL    string // https://…, or http to this machine or a private network
	Keys   Keys
	Client *http.Client     // without redirects and a timeout of 10 s if nil
	Clock  func() time.Time // time.Now if nil
}

// Client is a payments.Payments over HTTP. It is safe for concurrent use.
type Client struct{ c Config }

var _ payments.Payments = (*Client)(nil)

// New returns a Client.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("payments: URL %.200q: want https://HOST/PATH without a user, a query and a fragment", c.URL)
	}
	if c.Keys == nil {
		return nil, errors.New("payments: Keys: want a function")
	}
	c.URL = strings.TrimRight(c.URL, "/")
	if c.Client == nil {
		c.Client = &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	return &Client{c}, nil
}

type refJSON struct {
	Ref string `json:"ref"`
}

type refundJSON struct {
	Ref    string `json:"ref"`
	Amount int64  `json:"amount"`
	Key    string `json:"key"`
}

type stateJSON struct {
	State payments.RefundState `json:"state"`
}

type errorJSON struct {
	Error string `json:"error"`
}

// Create implements payments.Payments.
func (c *Client) Create(ctx context.Context, o payments.Order) (p payments.Payment, err error) {
	err = c.call(ctx, "create", o, &p)
	return p, err
}

// Query implements payments.Payments.
func (c *Client) Query(ctx context.Context, ref string) (e payments.Event, err error) {
	err = c.call(ctx, "query", refJSON{ref}, &e)
	return e, err
}

// Close implements payments.Payments.
func (c *Client) Close(ctx context.Context, ref string) error {
	return c.call(ctx, "close", refJSON{ref}, &struct{}{})
}

// Refund implements payments.Payments.
func (c *Client) Refund(ctx context.Context, ref string, amount int64, key string) (payments.RefundState, error) {
	var s stateJSON
	if err := c.call(ctx, "refund", refundJSON{ref, amount, key}, &s); err != nil {
		return "", err
	}
	if s.State != payments.RefundPending && s.State != payments.RefundDone {
		return "", fmt.Errorf("payments: refund: state: got %.40q, want pending or done", s.State)
	}
	return s.State, nil
}

// Notify implements payments.Payments.
func (c *Client) Notify(r *http.Request, body []byte) (payments.Notice, error) {
	if _, err := signing.Verify(r.Header, body, c.c.Clock(), c.c.Keys()...); err != nil {
		return payments.Notice{}, fmt.Errorf("%w: %w", payments.ErrForged, err)
	}
	e, err := parseEvent(body)
	if err != nil {
		return payments.Notice{OK: payments.Reply{Status: http.StatusBadRequest, Body: "want an event: " + err.Error() + "\n"}}, nil
	}
	return payments.Notice{Event: e}, nil
}

// parseEvent parses an event. A missing field is an error: an event without a kind would be stored as
// pending, and its money would be forgotten.
func parseEvent(body []byte) (payments.Event, error) {
	var in struct {
		payments.Event
		Kind *payments.Kind `json:"kind"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return payments.Event{}, err
	}
	e := in.Event
	if in.Kind == nil {
		return e, errors.New("kind: got none, want pending, failed, closed, paid, refunded or refund_failed")
	}
	e.Kind = *in.Kind
	switch money := e.Kind == payments.Paid || e.Kind == payments.Refunded; {
	case e.Ref == "":
		return e, errors.New("ref: got none, want the ref that create returned")
	case e.Kind == payments.Paid && e.Receipt == "":
		return e, errors.New("receipt: got none, want the receipt of create")
	case money && e.Amount <= 0:
		return e, fmt.Errorf("amount: got %d, want more than 0", e.Amount)
	case money && e.Currency == "":
		return e, errors.New("currency: got none, want an ISO 4217 code")
	}
	return e, nil
}

// call sends one signed request.
func (c *Client) call(ctx context.Context, name string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.c.URL+"/"+name, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	keys := c.c.Keys()
	if len(keys) == 0 {
		return fmt.Errorf("payments: %s: no key", name)
	}
	signing.Sign(r.Header, "msg_"+rand.Text(), c.c.Clock(), body, keys...)
	res, err := c.c.Client.Do(r)
	if err != nil {
		return fmt.Errorf("payments: %s: %w", name, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return fmt.Errorf("payments: %s: %w", name, err)
	}
	if res.StatusCode == http.StatusOK {
		if err := json.Unmarshal(text, out); err != nil {
			return fmt.Errorf("payments: %s: response: %w", name, err)
		}
		return nil
	}
	var said errorJSON
	_ = json.Unmarshal(text, &said) // a proxy in between sends something else
	switch {
	case res.StatusCode == http.StatusNotFound && said.Error == "not_found":
		return fmt.Errorf("payments: %s: %w", name, payments.ErrNotFound)
	case res.StatusCode == http.StatusConflict && said.Error == "paid":
		return fmt.Errorf("payments: %s: %w", name, payments.ErrPaid)
	case res.StatusCode == http.StatusUnprocessableEntity && said.Error == "refused":
		return fmt.Errorf("payments: %s: %w", name, payments.ErrRefused)
	}
	return fmt.Errorf("payments: %s: status %d: %.200q", name, res.StatusCode, text)
}
