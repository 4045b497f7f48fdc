package web

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// MockPrefix begins the IDs of the mock provider's payments, so that none has the ID of a real
// one. The ledger returns their money at once: see ledger.Config.
const MockPrefix = "mock-"

// maxAfter bounds the delay of the mock payment provider.
const maxAfter = 10 * time.Minute

func (c *call) orders(w http.ResponseWriter) {
	rs, err := c.config.Service.Orders(c.r.Context(), c.user)
	if err != nil {
		c.fail(w, err)
		return
	}
	prover{c}.paid(w, rs...)
	c.write(w, http.StatusOK, func(b []byte) []byte {
		return append(appendReceipts(wire.AppendName(append(b, '{'), "orders"), rs), '}')
	})
}

func (c *call) order(w http.ResponseWriter) {
	r, err := c.config.Service.Order(c.r.Context(), c.user, c.id)
	c.receipt(w, http.StatusOK, &r, err)
}

func (c *call) cancel(w http.ResponseWriter) {
	if f := wire.Decode(wire.OrEmpty(c.body), nil); f != nil {
		f.Refuse(w)
		return
	}
	r, err := c.config.Service.Cancel(c.r.Context(), c.user, c.id)
	c.receipt(w, http.StatusOK, &r, err)
}

// contact sets the contact of an order.
func (c *call) contact(w http.ResponseWriter) {
	var who sale.Contact
	a := &who.Address
	members := []wire.Member{{Name: "name", Text: &who.Name}, {Name: "phone", Text: &who.Phone},
		{Name: "country", Text: &a.Country}, {Name: "city", Text: &a.City}, {Name: "street", Text: &a.Street}, {Name: "street2", Text: &a.Street2}, {Name: "postal", Text: &a.Postal}}
	f := wire.Decode(wire.OrEmpty(c.body), members)
	for _, m := range members[:2] {
		if f == nil && !m.Present {
			f = &wire.RequestError{Field: m.Name, Detail: m.Name + ": got none, want one"}
		}
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	r, err := c.config.Service.SetContact(c.r.Context(), c.user, c.id, who)
	c.receipt(w, http.StatusOK, &r, err)
}

func (c *call) receipt(w http.ResponseWriter, status int, r *sale.Receipt, err error) {
	if err != nil {
		c.fail(w, err)
		return
	}
	prover{c}.paid(w, *r)
	c.write(w, status, func(b []byte) []byte { return appendReceipt(b, r) })
}

// pay makes the mock payment provider charge the price.
func (c *call) pay(w http.ResponseWriter) {
	var payment string
	var after int64
	f := wire.Decode(wire.OrEmpty(c.body), []wire.Member{{Name: "payment", Text: &payment}, {Name: "after_ms", Num: &after}})
	switch {
	case f != nil:
	case payment != "" && !isPayment(MockPrefix+payment):
		f = &wire.RequestError{Field: "payment", Detail: fmt.Sprintf("payment: got %.70q, want 1 to 59 letters, digits, -", payment)}
	case after < 0 || after > int64(maxAfter/time.Millisecond):
		f = &wire.RequestError{Field: "after_ms", Detail: fmt.Sprintf("after_ms: got %d, want 0 to %d", after, maxAfter/time.Millisecond)}
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	if payment == "" {
		payment = fmt.Sprintf("%011x-%s", c.now.UnixMilli(), newGuest()) // in the order of time, as those of providers
	}
	payment = MockPrefix + payment
	r, err := c.payable(after)
	if err != nil {
		c.fail(w, err)
		return
	}
	if after > 0 {
		if !c.shop.provider.later(charge{c.user, c.id, payment, r.Price}, time.Duration(after)*time.Millisecond) {
			layers.Refusal{Layer: sale.L4, Reason: sale.Overloaded, Detail: "too many payments are in progress", RetryAfter: 5 * time.Second}.Write(w)
			return
		}
		c.receipt(w, http.StatusAccepted, &r, nil)
		return
	}
	paid, err := c.config.Service.Pay(c.r.Context(), c.id, payment, r.Price)
	switch {
	case errors.Is(err, sale.ErrNotFound):
		layers.Refusal{Reason: layers.Conflict, Detail: "the order is not written yet", RetryAfter: time.Second}.Write(w)
	case err != nil:
		c.fail(w, err)
	case paid.RefundDue:
		wire.RefuseReason(w, layers.RefundDue)
	default: // the order as the ledger returned it with the payment
		r.At, r.PayBy = paid.Order.At, paid.Order.PayBy
		r.State, r.Refunds, r.Refunded, r.Contact = paid.Order.State, paid.Order.Refunds, paid.Order.Refunded, paid.Order.Contact
		c.receipt(w, http.StatusOK, &r, nil)
	}
}

// payable returns what the mock payment provider charges for. It reads the order only if the
// payment depends on it: the ledger returns the order with a payment, and the sale has the price.
func (c *call) payable(after int64) (sale.Receipt, error) {
	if c.reserved != nil && after == 0 {
		v, err := c.config.Service.View(c.r.Context(), c.reserved.Sale)
		if err == nil && v.Sale.CheckAddress(sale.Address{}) == nil {
			return sale.Receipt{Receipt: c.id, Order: c.reserved.ID, Sale: v.Sale, Quantity: c.reserved.Quantity, Price: v.Sale.Price * c.reserved.Units()}, nil
		}
	}
	r, err := c.config.Service.Order(c.r.Context(), c.user, c.id)
	if err == nil && (r.State == sale.Reserved || r.State == sale.PendingPay) {
		err = r.Sale.CheckAddress(r.Contact.Address)
	}
	return r, err
}
