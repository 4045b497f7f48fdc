package web

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
)

const (
	shopCookie   = "fs_session"
	officeCookie = "fs_office"
)

// maxCookies is how many cookies are looked at. Browsers keep some 200 of a site; what stands
// in front and counts by the session may read none where there are thousands.
const maxCookies = 400

// cookie is the value of the cookie of this name. Without one, of several that are not the
// same, and among more than maxCookies, it is empty: which of them is the browser's own, or
// is seen by what stands in front, cannot be told.
func cookie(h http.Header, name string) string {
	found, seen, n := "", false, 0
	for _, line := range h["Cookie"] {
		for line != "" {
			var pair string
			pair, line, _ = strings.Cut(line, ";")
			if n++; n > maxCookies {
				return ""
			}
			k, v, ok := strings.Cut(strings.TrimLeft(pair, " "), "=")
			if !ok || k != name {
				continue
			}
			if seen && found != v {
				return ""
			}
			found, seen = v, true
		}
	}
	return found
}

// session opens the session that r carries.
func (s *Shop) session(r *http.Request, now time.Time) (pass.Session, bool) {
	text := cookie(r.Header, shopCookie)
	if text == "" {
		return pass.Session{}, false
	}
	session, err := s.c.Keys.OpenSession(text, now)
	return session, err == nil
}

// openSession makes a guest of who has no session.
func (c *call) openSession(w http.ResponseWriter) {
	if foreign(c.r) {
		say(w, layers.CSRF)
		return
	}
	if f := decode(orEmpty(c.body), nil); f != nil {
		f.refuse(w)
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
	c.write(w, status, func(b []byte) []byte { return append(textOf(append(b, '{'), "user", user), '}') })
}

// foreign reports whether a browser says that a page of another site asks. A session from
// there would take the place of the browser's own.
func foreign(r *http.Request) bool {
	if ownPage(r.Header) {
		return false
	}
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site != "none"
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || u.Host != r.Host
}

// newGuest is an ID that nobody can guess.
func newGuest() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// orEmpty is a body, or that of none.
func orEmpty(body []byte) []byte {
	if len(body) == 0 {
		return []byte("{}")
	}
	return body
}
