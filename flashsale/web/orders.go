package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// mocked begins the IDs of the mock provider's payments: none of them is ever that of a
// payment which a real one tells of.
const mocked = "mock-"

// maxAfter is the longest that the mock payment provider takes.
const maxAfter = 10 * time.Minute

func (c *call) orders(w http.ResponseWriter) {
	rs, err := c.s.c.Service.Orders(c.r.Context(), c.user)
	if err != nil {
		c.fail(w, err)
		return
	}
	c.write(w, http.StatusOK, func(b []byte) []byte {
		return append(appendReceipts(wire.AppendName(append(b, '{'), "orders"), rs), '}')
	})
}

func (c *call) order(w http.ResponseWriter) {
	r, err := c.s.c.Service.Order(c.r.Context(), c.user, c.id)
	c.receipt(w, http.StatusOK, &r, err)
}

func (c *call) cancel(w http.ResponseWriter) {
	if f := wire.Decode(wire.OrEmpty(c.body), nil); f != nil {
		f.Refuse(w)
		return
	}
	r, err := c.s.c.Service.Cancel(c.r.Context(), c.user, c.id)
	c.receipt(w, http.StatusOK, &r, err)
}

// contact notes who is to get what is bought.
func (c *call) contact(w http.ResponseWriter) {
	var who sale.Contact
	members := []wire.Member{{Name: "name", Text: &who.Name}, {Name: "phone", Text: &who.Phone}}
	f := wire.Decode(wire.OrEmpty(c.body), members)
	for _, m := range members {
		if f == nil && !m.Present {
			f = &wire.RequestError{Field: m.Name, Detail: m.Name + ": want one, got none"}
		}
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	r, err := c.s.c.Service.SetContact(c.r.Context(), c.user, c.id, who)
	c.receipt(w, http.StatusOK, &r, err)
}

func (c *call) receipt(w http.ResponseWriter, status int, r *sale.Receipt, err error) {
	if err != nil {
		c.fail(w, err)
		return
	}
	c.write(w, status, func(b []byte) []byte { return appendReceipt(b, r) })
}

// pay asks the mock payment provider to take the price.
func (c *call) pay(w http.ResponseWriter) {
	var payment string
	var after int64
	f := wire.Decode(wire.OrEmpty(c.body), []wire.Member{{Name: "payment", Text: &payment}, {Name: "after_ms", Num: &after}})
	switch {
	case f != nil:
	case payment != "" && !isPayment(mocked+payment):
		f = &wire.RequestError{Field: "payment", Detail: fmt.Sprintf("payment: %.70q: want 1 to 59 letters, digits, -", payment)}
	case after < 0 || after > int64(maxAfter/time.Millisecond):
		f = &wire.RequestError{Field: "after_ms", Detail: fmt.Sprintf("after_ms: %d: want 0 to %d", after, maxAfter/time.Millisecond)}
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	if payment == "" {
		payment = newGuest()
	}
	payment = mocked + payment
	r, err := c.s.c.Service.Order(c.r.Context(), c.user, c.id)
	if err != nil {
		c.fail(w, err)
		return
	}
	if after > 0 {
		if !c.s.provider.later(charge{c.user, c.id, payment, r.Sale.Price}, time.Duration(after)*time.Millisecond) {
			layers.Refusal{Layer: sale.L4, Reason: sale.Overloaded, Detail: "too many payments are under way", RetryAfter: 5 * time.Second}.Write(w)
			return
		}
		c.receipt(w, http.StatusAccepted, &r, nil)
		return
	}
	paid, err := c.s.c.Service.Pay(c.r.Context(), c.id, payment, r.Sale.Price)
	switch {
	case errors.Is(err, sale.ErrNotFound):
		layers.Refusal{Reason: layers.Conflict, Detail: "the order is not written yet", RetryAfter: time.Second}.Write(w)
	case err != nil:
		c.fail(w, err)
	case paid.RefundDue:
		wire.RefuseReason(w, layers.RefundDue)
	default:
		r, err = c.s.c.Service.Order(c.r.Context(), c.user, c.id)
		c.receipt(w, http.StatusOK, &r, err)
	}
}

// callback takes what a payment provider says, if it signed it.
func (c *call) callback(w http.ResponseWriter) {
	signature, f := wire.SingleHeader(c.r.Header, "Flashsale-Signature")
	if f != nil {
		f.Refuse(w)
		return
	}
	if !c.s.c.Keys.CallbackOK(c.body, signature) {
		layers.Refusal{Reason: sale.BadToken, Detail: "Flashsale-Signature is not that of the body"}.Write(w)
		return
	}
	var receipt, payment string
	amount := int64(-1)
	f = wire.Decode(wire.OrEmpty(c.body), []wire.Member{{Name: "receipt", Text: &receipt}, {Name: "payment", Text: &payment}, {Name: "amount", Num: &amount}})
	switch {
	case f != nil:
	case !isReceipt(receipt):
		f = &wire.RequestError{Field: "receipt", Detail: fmt.Sprintf("receipt: %.60q: want a receipt", receipt)}
	case !isPayment(payment) || strings.HasPrefix(payment, mocked):
		f = &wire.RequestError{Field: "payment", Detail: fmt.Sprintf("payment: %.70q: want 1 to 64 letters, digits, -, not from "+mocked+" on", payment)}
	case amount < 0:
		f = &wire.RequestError{Field: "amount", Detail: fmt.Sprintf("amount: %d: want 0 at least", amount)}
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	paid, err := c.s.c.Service.Pay(c.r.Context(), receipt, payment, amount)
	switch {
	case err != nil:
		c.fail(w, err)
	case paid.RefundDue:
		wire.RefuseReason(w, layers.RefundDue)
	default:
		c.write(w, http.StatusOK, func(b []byte) []byte {
			b = wire.AppendString(append(b, '{'), "receipt", receipt)
			return append(wire.AppendString(b, "state", string(paid.Order.State)), '}')
		})
	}
}
