package web

import (
	"fmt"
	"net/http"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// work answers with what the user has to do for a ticket: long before one is to be had, if
// the user likes, as nothing of it changes.
func (c *call) work(w http.ResponseWriter) {
	v, err := c.s.c.Service.View(c.r.Context(), c.id)
	if err != nil {
		c.fail(w, err)
		return
	}
	c.write(w, http.StatusOK, func(b []byte) []byte {
		b = wire.AppendString(append(b, '{'), "challenge", c.s.c.Keys.Work(c.id, c.user))
		return append(wire.AppendInt(b, "bits", int64(v.Sale.Work)), '}')
	})
}

// worked reports whether the user did what a ticket costs, and answers if not. Who has a
// place in the line of this sale, of whatever epoch, did it for that.
func (c *call) worked(w http.ResponseWriter, place, nonce string) bool {
	v, err := c.s.c.Service.View(c.r.Context(), c.id)
	if err != nil {
		c.fail(w, err)
		return false
	}
	bits := v.Sale.Work
	if bits == 0 || c.hasPlace(place) {
		return true
	}
	detail := ""
	switch {
	case nonce == "":
		detail = fmt.Sprintf("work: none: want a nonce with which the SHA-256 of challenge:nonce begins with %d zero bits", bits)
	case !pass.IsNonce(nonce):
		detail = fmt.Sprintf("work: %.40q: want 1 to %d letters, digits, - and _", nonce, pass.MaxNonce)
	default:
		got := c.s.c.Keys.WorkDone(c.id, c.user, nonce)
		if got >= bits {
			return true
		}
		detail = fmt.Sprintf("work: %s: the SHA-256 of challenge:%s begins with %d zero bits, want %d", nonce, nonce, got, bits)
	}
	layers.Refusal{
		Layer: sale.L3, Reason: sale.WorkRequired, Field: "work", Detail: detail,
		Challenge: c.s.c.Keys.Work(c.id, c.user), Bits: bits,
	}.Write(w)
	return false
}

// hasPlace reports whether place is signed for the user and this sale.
func (c *call) hasPlace(place string) bool {
	if place == "" {
		return false
	}
	t, err := c.s.c.Keys.OpenTicket(place)
	return err == nil && t.User == c.user && t.Sale == c.id
}
