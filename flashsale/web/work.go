package web

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// work returns the proof of work that a ticket requires. It never changes, so a user can do
// the work before the sale starts.
func (c *call) work(w http.ResponseWriter) {
	v, err := c.config.Service.View(c.r.Context(), c.id)
	if err != nil {
		c.fail(w, err)
		return
	}
	c.write(w, http.StatusOK, func(b []byte) []byte {
		b = wire.AppendString(append(b, '{'), "challenge", c.config.Keys.Work(c.id, c.user))
		return append(wire.AppendInt(b, "bits", int64(v.Sale.Work)), '}')
	})
}

// hasWorked reports whether the user has solved the captcha and done the work that a ticket
// requires, and refuses if not. A user with a ticket of this sale, of any epoch, has done it.
func (c *call) hasWorked(w http.ResponseWriter, ticket, nonce, solved string) bool {
	v, err := c.config.Service.View(c.r.Context(), c.id)
	if err != nil {
		c.fail(w, err)
		return false
	}
	if c.hasTicket(ticket) {
		return true
	}
	// Work costs no call, and a token is valid once, so the captcha is verified last.
	if !c.worked(w, nonce, v.Sale.Work) {
		return false
	}
	if c.config.Challenge == nil {
		return true
	}
	err = c.config.Challenge.Verify(c.r.Context(), c.id, c.user, solved, c.config.Layers.Address(c.r))
	if errors.Is(err, captcha.ErrRejected) {
		layers.Refusal{Layer: sale.L3, Reason: sale.CaptchaRequired, Field: "captcha"}.Write(w)
		return false
	}
	if err != nil { // the provider did not decide
		c.config.Log.Warn("captcha not verified, requiring work", "sale", c.id, "error", err)
		return c.worked(w, nonce, max(v.Sale.Work, proofWork))
	}
	return true
}

// worked reports whether nonce is work of so many bits, and refuses if not.
func (c *call) worked(w http.ResponseWriter, nonce string, bits int) bool {
	if bits == 0 {
		return true
	}
	detail := ""
	switch {
	case nonce == "":
		detail = fmt.Sprintf("work: got none, want a nonce for which the SHA-256 of challenge:nonce begins with %d zero bits", bits)
	case !pass.IsNonce(nonce):
		detail = fmt.Sprintf("work: got %.40q, want 1 to %d letters, digits, - and _", nonce, pass.MaxNonce)
	default:
		got := c.config.Keys.WorkDone(c.id, c.user, nonce)
		if got >= bits {
			return true
		}
		detail = fmt.Sprintf("work: got %s, the SHA-256 of challenge:%s begins with %d zero bits, want %d", nonce, nonce, got, bits)
	}
	layers.Refusal{
		Layer: sale.L3, Reason: sale.WorkRequired, Field: "work", Detail: detail,
		Challenge: c.config.Keys.Work(c.id, c.user), Bits: bits,
	}.Write(w)
	return false
}

// hasTicket reports whether ticket is signed for the user and this sale.
func (c *call) hasTicket(ticket string) bool {
	if ticket == "" {
		return false
	}
	t, err := c.config.Keys.OpenTicket(ticket)
	return err == nil && t.User == c.user && t.Sale == c.id
}
