package web

import (
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/identity"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

const (
	proofCookie = "fs_proof"
	workField   = "Flashsale-Work"

	// proofWork is the number of bits of work that prove a session.
	proofWork = 18

	// proofFor is the lifetime of a proof.
	proofFor = 24 * time.Hour
)

// prover decides what a call proves about its user.
type prover struct{ c *call }

// prove sets the headers by which policies know what the request proves: a valid receipt, the
// list of own orders, or a proven session.
func (p prover) prove(w http.ResponseWriter) {
	c := p.c
	if c.user == "" {
		c.forged = c.config.Layers.Front() && wire.Cookie(c.r.Header, proofCookie) != ""
		return
	}
	if c.route.receipt {
		r, err := c.config.Keys.OpenReceipt(c.id)
		if err == nil && r.User == c.user {
			c.reserved = &r
			c.r.Header[layers.ReceiptHeader] = []string{r.ID}
			c.r.Header[layers.ProofHeader] = []string{"receipt"}
			return
		}
	}
	if c.route.own || p.proven(w) {
		c.r.Header[layers.ProofHeader] = []string{"session"}
	}
}

// proven reports whether the session is proven. It is by an identity of the shop, by the cookie of
// a paid order or of work for this sale, or by that work itself. Work sets the cookie.
func (p prover) proven(w http.ResponseWriter) bool {
	c := p.c
	if c.proof != identity.None {
		return true
	}
	ofSale := ""
	if c.route.sale {
		ofSale = c.id
	}
	if text := wire.Cookie(c.r.Header, proofCookie); text != "" {
		got, err := c.config.Keys.OpenProof(text, c.now)
		if err == nil && got.User == c.user && (got.Sale == "" || ofSale == "" || got.Sale == ofSale) {
			return true
		}
	}
	c.forged = c.config.Layers.Front() && wire.Cookie(c.r.Header, proofCookie) != ""
	nonce := c.r.Header.Get(workField)
	if nonce == "" || ofSale == "" || c.config.Keys.WorkDone(ofSale, c.user, nonce) < proofWork {
		return false
	}
	c.forged = false
	p.setProof(w, ofSale)
	return true
}

// refuseForged refuses a request whose proof is not valid, if a proxy in front has let it pass
// for that proof, and removes the cookie.
func (p prover) refuseForged(w http.ResponseWriter) bool {
	c := p.c
	if !c.forged {
		return false
	}
	http.SetCookie(w, &http.Cookie{Name: proofCookie, Path: "/", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteLaxMode})
	f, can := p.challenge()
	if !can {
		f = layers.Refusal{Layer: sale.L1, Reason: layers.TooMany}
	}
	f.Write(w)
	return true
}

// setProof sets the cookie of a proof for a sale, or for every sale if it is empty.
func (p prover) setProof(w http.ResponseWriter, ofSale string) {
	c := p.c
	http.SetCookie(w, &http.Cookie{
		Name: proofCookie, Value: c.config.Keys.Proof(pass.Proof{User: c.user, Sale: ofSale, Expires: c.now.Add(proofFor)}),
		Path: "/", MaxAge: int(proofFor / time.Second),
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.config.Secure || c.config.Layers.TLS(c.r),
	})
}

// paid sets the cookie of a proof if one of the user's orders is paid.
func (p prover) paid(w http.ResponseWriter, rs ...sale.Receipt) {
	c := p.c
	for i := range rs {
		if rs[i].State != sale.Paid {
			continue
		}
		got, err := c.config.Keys.OpenProof(wire.Cookie(c.r.Header, proofCookie), c.now)
		if err != nil || got.User != c.user || got.Sale != "" || got.Expires.Sub(c.now) < proofFor/2 {
			p.setProof(w, "")
		}
		return
	}
}

// challenge returns the work that proves the session to a sale, instead of a wait.
func (p prover) challenge() (layers.Refusal, bool) {
	c := p.c
	if c.user == "" || !c.route.sale {
		return layers.Refusal{}, false
	}
	return layers.Refusal{
		Layer: sale.L1, Reason: sale.WorkRequired, Field: "work",
		Detail:    "too many requests of this address: send " + workField + " with a nonce",
		Challenge: c.config.Keys.Work(c.id, c.user), Bits: proofWork,
	}, true
}
