package office

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

const cookieName = "fs_office"

// maxName is the maximum length of an account's name, in bytes, as in the ledger.
const maxName = 128

// sessions logs accounts in and out. A session names an account and is bound to its password.
type sessions struct{ office *Office }

// login logs an account in. An unknown name, a disabled account and a wrong password have the
// same response, after the same work.
func (s sessions) login(w http.ResponseWriter, r *http.Request) {
	if wire.CrossOrigin(r) {
		wire.RefuseReason(w, layers.CSRF)
		return
	}
	body, room, f := s.office.bodies.Read(r)
	defer s.office.bodies.Release(room)
	var name, password string
	if f == nil {
		f = wire.Decode(wire.OrEmpty(body), []wire.Member{{Name: "name", Text: &name, Min: 1, Max: maxName}, {Name: "password", Text: &password, Min: 1, Max: account.MaxPassword}})
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	a, right, ok := s.authenticate(w, r, name, password)
	switch {
	case !ok:
	case !right:
		layers.Refusal{Reason: layers.NoSession, Detail: "the name or the password is wrong"}.Write(w)
	default:
		s.begin(w, r, &a)
	}
}

// errBusy means that too many passwords are being hashed.
var errBusy = errors.New("office: too many passwords at a time")

// authenticate reports whether the password is that of an enabled account, within the limits of
// failed logins. If it cannot decide, it refuses and ok is false.
func (s sessions) authenticate(w http.ResponseWriter, r *http.Request, name, password string) (a account.Account, right, ok bool) {
	done, retry, ok := s.office.c.Layers.Login(r.Context(), r, name)
	if !ok {
		layers.Refusal{Layer: sale.L1, Reason: layers.TooMany, Detail: "too many failed logins", RetryAfter: retry}.Write(w)
		return account.Account{}, false, false
	}
	a, err := s.office.c.Accounts.Account(r.Context(), name)
	if errors.Is(err, sale.ErrNotFound) {
		a, err = account.Account{}, nil
	}
	if err == nil {
		err = s.hashing(r, func() (err error) {
			right, err = account.IsPassword(a.Hash, password)
			return err
		})
	}
	right = right && err == nil && !a.Disabled
	done(err == nil && !right)
	if err != nil {
		s.office.fail(w, r, err)
	}
	return a, right, err == nil
}

// hashing calls f, which hashes a password. Few are hashed at once, because each needs memory.
func (s sessions) hashing(r *http.Request, f func() error) error {
	entry, busy := s.office.hashes.Enter(r.Context(), "")
	if busy != nil {
		return errBusy
	}
	defer entry.Exit(nil)
	return f()
}

// newHash returns the hash of a new password.
func (s sessions) newHash(r *http.Request, password string) (hash string, err error) {
	err = s.hashing(r, func() (err error) {
		if hash, err = account.HashPassword(password); err != nil {
			err = &sale.FieldError{Field: "password", Value: fmt.Sprintf("%d bytes", len(password)), Want: "8 to 256 bytes of UTF-8", Code: sale.WrongLength, Min: 8, Max: 256}
		}
		return err
	})
	return hash, err
}

// begin begins a session.
func (s sessions) begin(w http.ResponseWriter, r *http.Request, a *account.Account) {
	c := &s.office.c
	signed := c.Keys.Office(pass.Session{User: a.Name, Expires: c.Clock().Add(c.SessionFor)})
	text := signed + "." + c.Keys.Password(signed, a.Hash)
	http.SetCookie(w, s.cookie(r, text, int(c.SessionFor/time.Second)))
	s.who(w, a, text)
}

// account returns the account of r's session and its text; ok is false without a valid session.
// It reads the account each time, so that a new password or role and a disabled account take
// effect at the next request.
func (s sessions) account(r *http.Request) (a account.Account, text string, ok bool, err error) {
	c := &s.office.c
	text = wire.Cookie(r.Header, cookieName)
	signed, mark, _ := strings.Cut(text, ".")
	session, err := c.Keys.OpenOffice(signed, c.Clock())
	if err != nil {
		return account.Account{}, "", false, nil
	}
	a, err = c.Accounts.Account(r.Context(), session.User)
	switch {
	case errors.Is(err, sale.ErrNotFound):
		return account.Account{}, "", false, nil
	case err != nil:
		return account.Account{}, "", false, err
	}
	return a, text, !a.Disabled && c.Keys.PasswordOK(signed, a.Hash, mark), nil
}

func (s sessions) cookie(r *http.Request, text string, age int) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: text, Path: "/", MaxAge: age,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.office.c.Secure || s.office.c.Layers.TLS(r),
	}
}

// who writes the account and the CSRF value.
func (s sessions) who(w http.ResponseWriter, a *account.Account, session string) {
	b := wire.AppendString([]byte{'{'}, "name", a.Name)
	b = wire.AppendString(b, "csrf", s.office.c.Keys.CSRF(session))
	b = wire.AppendString(b, "merchant", a.Merchant)
	b = wire.AppendString(b, "role", string(a.Role))
	wire.WriteJSON(w, http.StatusOK, append(b, '}', '\n'))
}

func (s sessions) me(v *visit) { s.who(v.w, &v.account, wire.Cookie(v.r.Header, cookieName)) }

func (s sessions) logout(v *visit) {
	http.SetCookie(v.w, s.cookie(v.r, "", -1))
	v.w.WriteHeader(http.StatusNoContent)
}

// ownPassword replaces the password of the account that asks, which must know the current one.
// It ends the account's other sessions.
func (s sessions) ownPassword(v *visit) {
	var current, password string
	if !v.decode(wire.Member{Name: "current", Text: &current}, wire.Member{Name: "password", Text: &password}) {
		return
	}
	_, right, ok := s.authenticate(v.w, v.r, v.account.Name, current[:min(len(current), account.MaxPassword+1)])
	if !ok {
		return
	}
	if !right {
		(&wire.RequestError{Field: "current", Code: sale.WrongSecret, Detail: "current: the password is wrong"}).Refuse(v.w)
		return
	}
	hash, err := s.newHash(v.r, password)
	var a account.Account
	if err == nil {
		a, err = s.office.c.Accounts.SetHash(v.r.Context(), v.account.Name, v.merchant, v.account.Name, hash, s.office.c.Clock())
	}
	if err != nil {
		s.office.fail(v.w, v.r, err)
		return
	}
	s.begin(v.w, v.r, &a)
}
