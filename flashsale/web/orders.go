package web

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// maxAfter is the longest that the mock payment provider takes.
const maxAfter = 10 * time.Minute

func (c *call) orders(w http.ResponseWriter) {
	rs, err := c.s.c.Desk.Orders(c.r.Context(), c.user)
	if err != nil {
		c.fail(w, err)
		return
	}
	c.write(w, http.StatusOK, func(b []byte) []byte {
		return append(appendReceipts(appendName(append(b, '{'), "orders"), rs), '}')
	})
}

func (c *call) order(w http.ResponseWriter) {
	r, err := c.s.c.Desk.Order(c.r.Context(), c.user, c.id)
	c.receipt(w, http.StatusOK, &r, err)
}

func (c *call) cancel(w http.ResponseWriter) {
	if f := decode(orEmpty(c.body), nil); f != nil {
		f.refuse(w)
		return
	}
	r, err := c.s.c.Desk.Cancel(c.r.Context(), c.user, c.id)
	c.receipt(w, http.StatusOK, &r, err)
}

// contact notes who is to get what is bought.
func (c *call) contact(w http.ResponseWriter) {
	var who sale.Contact
	members := []member{{name: "name", text: &who.Name}, {name: "phone", text: &who.Phone}}
	f := decode(orEmpty(c.body), members)
	for _, m := range members {
		if f == nil && !m.seen {
			f = &fault{field: m.name, detail: m.name + ": want one, got none"}
		}
	}
	if f != nil {
		f.refuse(w)
		return
	}
	r, err := c.s.c.Desk.SetContact(c.r.Context(), c.user, c.id, who)
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
	f := decode(orEmpty(c.body), []member{{name: "payment", text: &payment}, {name: "after_ms", num: &after}})
	switch {
	case f != nil:
	case payment != "" && !isPayment(payment):
		f = &fault{field: "payment", detail: fmt.Sprintf("payment: %.70q: want 1 to 64 letters, digits, -", payment)}
	case after < 0 || after > int64(maxAfter/time.Millisecond):
		f = &fault{field: "after_ms", detail: fmt.Sprintf("after_ms: %d: want 0 to %d", after, maxAfter/time.Millisecond)}
	}
	if f != nil {
		f.refuse(w)
		return
	}
	if payment == "" {
		payment = newGuest()
	}
	r, err := c.s.c.Desk.Order(c.r.Context(), c.user, c.id)
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
	paid, err := c.s.c.Desk.Pay(c.r.Context(), c.id, payment, r.Sale.Price)
	switch {
	case errors.Is(err, sale.ErrNotFound):
		layers.Refusal{Reason: layers.Conflict, Detail: "the order is not written yet", RetryAfter: time.Second}.Write(w)
	case err != nil:
		c.fail(w, err)
	case paid.RefundDue:
		say(w, layers.RefundDue)
	default:
		r, err = c.s.c.Desk.Order(c.r.Context(), c.user, c.id)
		c.receipt(w, http.StatusOK, &r, err)
	}
}

// callback takes what a payment provider says, if it signed it.
func (c *call) callback(w http.ResponseWriter) {
	signature, f := one(c.r.Header, "Flashsale-Signature")
	if f != nil {
		f.refuse(w)
		return
	}
	if !c.s.c.Keys.CallbackOK(c.body, signature) {
		layers.Refusal{Reason: sale.BadToken, Detail: "Flashsale-Signature is not that of the body"}.Write(w)
		return
	}
	var receipt, payment string
	amount := int64(-1)
	f = decode(orEmpty(c.body), []member{{name: "receipt", text: &receipt}, {name: "payment", text: &payment}, {name: "amount", num: &amount}})
	switch {
	case f != nil:
	case !isReceipt(receipt):
		f = &fault{field: "receipt", detail: fmt.Sprintf("receipt: %.60q: want a receipt", receipt)}
	case !isPayment(payment):
		f = &fault{field: "payment", detail: fmt.Sprintf("payment: %.70q: want 1 to 64 letters, digits, -", payment)}
	case amount < 0:
		f = &fault{field: "amount", detail: fmt.Sprintf("amount: %d: want 0 at least", amount)}
	}
	if f != nil {
		f.refuse(w)
		return
	}
	paid, err := c.s.c.Desk.Pay(c.r.Context(), receipt, payment, amount)
	switch {
	case err != nil:
		c.fail(w, err)
	case paid.RefundDue:
		say(w, layers.RefundDue)
	default:
		c.write(w, http.StatusOK, func(b []byte) []byte {
			b = textOf(append(b, '{'), "receipt", receipt)
			return append(textOf(b, "state", string(paid.Order.State)), '}')
		})
	}
}
