package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/payments"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// A Cashier takes payments. Package cashier implements it.
type Cashier interface {
	// Checkout returns the URL at which the buyer pays an order; empty if it is paid.
	Checkout(ctx context.Context, user, receipt, returnURL string) (sale.Receipt, string, error)

	// Returned reports that the buyer is back from that URL.
	Returned(ctx context.Context, user, receipt string) error

	// Notify handles a notification of a payment provider and returns the response.
	Notify(provider string, r *http.Request, body []byte) payments.Reply
}

const (
	maxNotice  = 64 << 10 // bytes of a notification
	maxNotices = 256      // notifications in progress
)

// checkout opens a payment at the provider.
func (c *call) checkout(w http.ResponseWriter) {
	if f := wire.Decode(wire.OrEmpty(c.body), nil); f != nil {
		f.Refuse(w)
		return
	}
	back := url.URL{Scheme: "http", Host: c.r.Host, Path: "/orders"}
	if c.config.Secure || c.config.Layers.TLS(c.r) {
		back.Scheme = "https"
	}
	r, page, err := c.config.Cashier.Checkout(c.r.Context(), c.user, c.id, back.String())
	if err != nil {
		c.fail(w, err)
		return
	}
	c.write(w, http.StatusOK, func(b []byte) []byte {
		b = appendReceipt(b, &r)
		if page != "" {
			b = append(wire.AppendString(b[:len(b)-1], "checkout", page), '}')
		}
		return b
	})
}

// returned has the provider asked about the payment of a buyer who is back from its page.
func returned(c *call, w http.ResponseWriter) {
	if err := c.config.Cashier.Returned(c.r.Context(), c.user, c.id); err != nil {
		c.fail(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// notify passes a notification of a payment provider to the cashier, before all limits: a
// provider has one address, and its signature is checked first.
func notify(c *call, w http.ResponseWriter) {
	select {
	case c.shop.notices <- struct{}{}:
		defer func() { <-c.shop.notices }()
	default:
		layers.Refusal{Layer: sale.L4, Reason: sale.Overloaded}.Write(w)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, c.r.Body, maxNotice))
	if err != nil {
		f := wire.RequestError{Detail: "body: not complete"}
		if errors.As(err, new(*http.MaxBytesError)) {
			f = wire.RequestError{Status: http.StatusRequestEntityTooLarge, Detail: "body: want at most 64 KiB"}
		}
		f.Refuse(w)
		return
	}
	reply := c.config.Cashier.Notify(c.id, c.r, body)
	if reply.ContentType == "" {
		reply.ContentType = "text/plain; charset=utf-8"
	}
	w.Header().Set("Content-Type", reply.ContentType)
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(reply.Status)
	_, _ = io.WriteString(w, reply.Body) // the provider may have disconnected
}
