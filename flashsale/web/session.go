package web

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"

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

// openSession returns the user, and makes a guest if there is no session.
func (c *call) openSession(w http.ResponseWriter) {
	if wire.CrossOrigin(c.r) {
		wire.RefuseReason(w, layers.CSRF)
		return
	}
	if f := wire.Decode(wire.OrEmpty(c.body), nil); f != nil {
		f.Refuse(w)
		return
	}
	user, status := c.user, http.StatusOK
	if user == "" {
		user, status = newGuest(), http.StatusCreated
	}
	if c.until.Sub(c.now) < c.config.SessionFor/2 {
		text := c.config.Keys.Session(pass.Session{User: user, Expires: c.now.Add(c.config.SessionFor)})
		http.SetCookie(w, &http.Cookie{
			Name: shopCookie, Value: text, Path: "/", MaxAge: int(c.config.SessionFor / time.Second),
			HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.config.Secure || c.config.Layers.TLS(c.r),
		})
	}
	c.write(w, status, func(b []byte) []byte { return append(wire.AppendString(append(b, '{'), "user", user), '}') })
}

// newGuest returns a random ID.
func newGuest() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
