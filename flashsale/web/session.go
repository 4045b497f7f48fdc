package web

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/identity"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/wire"
)

const shopCookie = "fs_session"

// session returns the session of the request's cookie.
func (c *call) session() (pass.Session, bool) {
	text := wire.Cookie(c.r.Header, shopCookie)
	if text == "" {
		return pass.Session{}, false
	}
	session, err := c.config.Keys.OpenSession(text, c.now)
	return session, err == nil
}

// visitor is a call by which a buyer signs in or out, or is asked for an identity.
type visitor struct{ *call }

// as returns the handler of a visitor.
func as(f func(visitor, http.ResponseWriter)) func(*call, http.ResponseWriter) {
	return func(c *call, w http.ResponseWriter) { f(visitor{c}, w) }
}

// openSession returns the user. It takes the identity of the request, if there is one, then the
// session, and otherwise makes a guest.
func (c visitor) openSession(w http.ResponseWriter) {
	if wire.CrossOrigin(c.r) {
		wire.RefuseReason(w, layers.CSRF)
		return
	}
	if f := wire.Decode(wire.OrEmpty(c.body), nil); f != nil {
		f.Refuse(w)
		return
	}
	status := http.StatusOK
	buyer, err := c.buyer()
	switch {
	case err == nil:
		if c.user != buyer.ID || c.proof != buyer.Proof {
			c.user, c.proof, c.until, status = buyer.ID, buyer.Proof, time.Time{}, http.StatusCreated
		}
	case errors.Is(err, identity.ErrInvalid):
		layers.Refusal{Reason: layers.NoSession, Detail: fmt.Sprintf("%.200s", err)}.Write(w)
		return
	case !errors.Is(err, identity.ErrNone):
		c.config.Log.Error("identity unavailable", "error", err)
		layers.Refusal{Reason: layers.Unavailable, RetryAfter: time.Second}.Write(w)
		return
	case c.user == "":
		c.user, status = newGuest(), http.StatusCreated
	}
	// A session of a member ends, unless the buyer proves the identity again.
	if lifetime := c.lifetime(); c.until.Sub(c.now) < lifetime/2 && (err == nil || c.proof == identity.None) {
		c.setSession(w, lifetime)
	}
	c.write(w, status, func(b []byte) []byte {
		b = wire.AppendString(append(b, '{'), "user", c.user)
		b = wire.AppendString(b, "proof", string(c.proof))
		b = wire.AppendString(b, "sign_in", c.config.SignIn)
		if c.proof == identity.None && c.shop.guests != nil {
			b = append(b, `,"max_units":1`...)
		}
		return append(b, '}')
	})
}

// buyer returns the buyer that the request proves.
func (c visitor) buyer() (identity.Buyer, error) {
	if c.config.Buyers == nil {
		return identity.Buyer{}, identity.ErrNone
	}
	b, err := c.config.Buyers.Buyer(c.r)
	switch {
	case err != nil:
		return identity.Buyer{}, err
	case b.Guest != (b.Proof == identity.None) || b.ID == "" || len(b.ID) > identity.MaxID || !utf8.ValidString(b.ID) || strings.ContainsFunc(b.ID, unicode.IsControl):
		return identity.Buyer{}, fmt.Errorf("web: Buyers returned %+q with proof %q: want an ID of 1 to %d bytes, and a proof unless it is a guest", b.ID, b.Proof, identity.MaxID)
	}
	return b, nil
}

// lifetime returns that of the user's session.
func (c visitor) lifetime() time.Duration {
	if c.proof == identity.None {
		return c.config.SessionFor
	}
	return c.config.MemberFor
}

// setSession sets the cookie of the user's session.
func (c visitor) setSession(w http.ResponseWriter, lifetime time.Duration) {
	c.until = c.now.Add(lifetime)
	c.setCookie(w, shopCookie, "/", c.config.Keys.Session(pass.Session{User: c.user, Expires: c.until, Proof: string(c.proof)}), lifetime)
}

// setCookie sets a cookie, or removes it if text is empty.
func (c visitor) setCookie(w http.ResponseWriter, name, path, text string, lifetime time.Duration) {
	age := int(lifetime / time.Second)
	if text == "" {
		age = -1
	}
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: text, Path: path, MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.config.Secure || c.config.Layers.TLS(c.r),
	})
}

// logout removes the session from the browser.
func (c visitor) logout(w http.ResponseWriter) {
	c.setCookie(w, shopCookie, "/", "", 0)
	w.WriteHeader(http.StatusNoContent)
}

// newGuest returns a random ID.
func newGuest() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
