package office

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

const cookieName = "fs_office"

// login logs a merchant in. An unknown name and a wrong password have the same response, after
// the same work.
func (o *Office) login(w http.ResponseWriter, r *http.Request) {
	if wire.CrossOrigin(r) {
		wire.RefuseReason(w, layers.CSRF)
		return
	}
	body, room, f := o.bodies.Read(r)
	defer o.bodies.Release(room)
	var name, password string
	if f == nil {
		f = wire.Decode(wire.OrEmpty(body), []wire.Member{{Name: "name", Text: &name}, {Name: "password", Text: &password}})
	}
	if f == nil && (name == "" || len(name) > maxName || password == "" || len(password) > maxPassword) {
		f = &wire.RequestError{Detail: fmt.Sprintf("name, password: want 1 to %d and 1 to %d bytes", maxName, maxPassword)}
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	done, retry, ok := o.c.Layers.Login(r.Context(), r, name)
	if !ok {
		layers.Refusal{Layer: sale.L1, Reason: layers.TooMany, Detail: "too many failed logins", RetryAfter: retry}.Write(w)
		return
	}
	hash, right, err := o.verify(r, name, password)
	done(err == nil && !right)
	if errors.Is(err, errBusy) {
		layers.Refusal{Layer: sale.L4, Reason: sale.Overloaded, RetryAfter: 2 * time.Second}.Write(w)
		return
	}
	if err != nil {
		o.fail(w, r, err)
		return
	}
	if !right {
		layers.Refusal{Reason: layers.NoSession, Detail: "the name or the password is wrong"}.Write(w)
		return
	}
	text := o.bind(o.c.Keys.Office(pass.Session{User: name, Expires: o.c.Clock().Add(o.c.SessionFor)}), hash)
	http.SetCookie(w, o.cookie(r, text, int(o.c.SessionFor/time.Second)))
	o.who(w, name, text)
}

// errBusy means that too many passwords are being hashed.
var errBusy = errors.New("office: too many logins at a time")

// verify reports whether the password belongs to the name, and returns its hash.
func (o *Office) verify(r *http.Request, name, password string) (hash string, right bool, err error) {
	known := noPassword()
	hash, err = o.c.Merchants.MerchantHash(r.Context(), name)
	switch {
	case errors.Is(err, sale.ErrNotFound):
	case err != nil:
		return "", false, err
	default:
		if known, err = parsePHC(hash); err != nil {
			return "", false, err
		}
	}
	entry, busy := o.hashes.Enter(r.Context(), "")
	if busy != nil {
		return "", false, errBusy
	}
	defer entry.Exit(nil)
	return hash, known.is(password) && err == nil, nil
}

// bind binds a session to the hash of the merchant's password.
func (o *Office) bind(session, hash string) string {
	return session + "." + o.c.Keys.Password(session, hash)
}

// session returns the merchant of r's session and its text, or an empty name without a valid
// session. It reads the password hash each time, so that a new password ends all earlier
// sessions.
func (o *Office) session(r *http.Request) (name, text string, err error) {
	text = wire.Cookie(r.Header, cookieName)
	signed, mark, _ := strings.Cut(text, ".")
	s, err := o.c.Keys.OpenOffice(signed, o.c.Clock())
	if err != nil {
		return "", "", nil
	}
	hash, err := o.c.Merchants.MerchantHash(r.Context(), s.User)
	switch {
	case errors.Is(err, sale.ErrNotFound):
		return "", "", nil
	case err != nil:
		return "", "", err
	case !o.c.Keys.PasswordOK(signed, hash, mark):
		return "", "", nil
	}
	return s.User, text, nil
}

func (o *Office) cookie(r *http.Request, text string, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: text, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: o.c.Secure || o.c.Layers.TLS(r),
	}
}

// who writes the name of the merchant and the CSRF value.
func (o *Office) who(w http.ResponseWriter, name, session string) {
	b := wire.AppendString([]byte{'{'}, "name", name)
	b = wire.AppendString(b, "csrf", o.c.Keys.CSRF(session))
	wire.WriteJSON(w, http.StatusOK, append(b, '}', '\n'))
}

func (o *Office) me(v *visit) { o.who(v.w, v.merchant, wire.Cookie(v.r.Header, cookieName)) }

func (o *Office) logout(v *visit) {
	http.SetCookie(v.w, o.cookie(v.r, "", -1))
	v.w.WriteHeader(http.StatusNoContent)
}
