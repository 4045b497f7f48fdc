package stripe

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/payments"
)

// tolerance bounds the difference between the time of a signature and now.
const tolerance = 300 * time.Second

// Notify implements payments.Payments.
func (p *Provider) Notify(r *http.Request, body []byte) (payments.Notice, error) {
	header := r.Header.Values("Stripe-Signature")
	if len(header) != 1 || !p.signed(header[0], body) {
		return payments.Notice{}, payments.ErrForged
	}
	var e struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Created  int64  `json:"created"`
		Livemode bool   `json:"livemode"`
		Data     struct {
			Object json.RawMessage `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return payments.Notice{}, fmt.Errorf("%w: %w", payments.ErrForged, err)
	}
	if e.Livemode != strings.HasPrefix(p.c.Key[2:], "_live_") {
		return payments.Notice{}, fmt.Errorf("%w: livemode %v", payments.ErrForged, e.Livemode)
	}
	var event payments.Event
	at := time.Unix(e.Created, 0)
	switch {
	case strings.HasPrefix(e.Type, "payment_intent."):
		var in intent
		if err := json.Unmarshal(e.Data.Object, &in); err != nil {
			return payments.Notice{}, fmt.Errorf("%w: %w", payments.ErrForged, err)
		}
		event = in.event(at)
		if e.Type == "payment_intent.payment_failed" && event.Kind == payments.Pending {
			event.Kind = payments.Failed
		}
	case strings.HasPrefix(e.Type, "refund."), e.Type == "charge.refund.updated": // the name in older versions of the API
		var f refund
		if err := json.Unmarshal(e.Data.Object, &f); err != nil {
			return payments.Notice{}, fmt.Errorf("%w: %w", payments.ErrForged, err)
		}
		event = payments.Event{Ref: f.PaymentIntent, Receipt: f.Metadata["receipt"], RefundKey: cmp.Or(f.Metadata["key"], f.ID), Amount: f.Amount,
			Currency: strings.ToUpper(f.Currency), At: at}
		switch f.Status {
		case "succeeded":
			event.Kind = payments.Refunded
		case "failed", "canceled":
			event.Kind = payments.RefundFailed
		default: // it is not decided yet
			return payments.Notice{}, nil
		}
		event.ID = e.ID
		return payments.Notice{Event: event}, nil // a refund of the dashboard has no receipt
	}
	if event.Receipt == "" { // not of the flash sale
		return payments.Notice{}, nil
	}
	event.ID = e.ID
	return payments.Notice{Event: event}, nil
}

// signed reports whether a valid secret has signed body within the tolerance. Schemes other
// than v1 are ignored.
func (p *Provider) signed(header string, body []byte) bool {
	var stamp string
	var macs [][]byte
	for part := range strings.SplitSeq(header, ",") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "t":
			stamp = value
		case "v1":
			if mac, err := hex.DecodeString(value); err == nil {
				macs = append(macs, mac)
			}
		}
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return false
	}
	if age := p.c.Clock().Sub(time.Unix(seconds, 0)); age > tolerance || age < -tolerance {
		return false
	}
	for _, secret := range p.c.Secrets() {
		sum := hmac.New(sha256.New, []byte(secret))
		sum.Write([]byte(stamp + "."))
		sum.Write(body)
		want := sum.Sum(nil)
		for _, mac := range macs {
			if hmac.Equal(mac, want) {
				return true
			}
		}
	}
	return false
}
