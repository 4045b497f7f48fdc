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

// session opens the session that r carries.
func (s *Shop) session(r *http.Request, now time.Time) (pass.Session, bool) {
	text := wire.Cookie(r.Header, shopCookie)
	if text == "" {
		return pass.Session{}, false
	}
	session, err := s.c.Keys.OpenSession(text, now)
	return session, err == nil
}

// openSession makes a guest of who has no session.
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
	if c.until.Sub(c.now) < c.s.c.SessionFor/2 {
		text := c.s.c.Keys.Session(pass.Session{User: user, Expires: c.now.Add(c.s.c.SessionFor)})
		http.SetCookie(w, &http.Cookie{
			Name: shopCookie, Value: text, Path: "/", MaxAge: int(c.s.c.SessionFor / time.Second),
			HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: c.s.c.Secure || c.s.c.Layers.TLS(c.r),
		})
	}
	c.write(w, status, func(b []byte) []byte { return append(wire.AppendString(append(b, '{'), "user", user), '}') })
}

// newGuest is an ID that nobody can guess.
func newGuest() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}
