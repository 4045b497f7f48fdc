package pass

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strings"
	"sync"
)

const (
	// SecretSize is how many bytes a secret has at least.
	SecretSize = 32

	// MaxText is the longest signed string that is looked at.
	MaxText = 1024

	// MaxField is the longest text in a signed string, in bytes.
	MaxField = 128

	version = 1
)

var (
	// ErrBad is a string that is no signed one of its kind: forged, damaged or misspelled.
	ErrBad = errors.New("pass: not signed here")

	// ErrExpired is a string that is signed, but whose time is over.
	ErrExpired = errors.New("pass: expired")
)

// A kind names what is signed; its subkey is HMAC-SHA-256 of its label under the secret.
type kind int

const (
	session kind = iota
	office
	ticket
	token
	receipt
	callback
	csrf
	password
	work
	kinds
)

func (k kind) label() string {
	return "flashsale v1 " + [kinds]string{"session", "office", "ticket", "token", "receipt", "callback", "csrf", "password", "work"}[k]
}

// Keys sign with one secret and accept the signatures of it and of an older one.
type Keys struct {
	current [kinds]subkey
	older   *[kinds]subkey
}

// A subkey keeps states of its HMAC, whose setup costs as much as a signature.
type subkey struct{ states *sync.Pool }

// NewKeys makes keys from a secret of at least 32 bytes, and for the time of a change of secrets
// the older one, whose signatures are still accepted; an empty one is none.
func NewKeys(secret []byte, older ...[]byte) (*Keys, error) {
	older = slices.DeleteFunc(slices.Clone(older), func(s []byte) bool { return len(s) == 0 })
	if len(older) > 1 {
		return nil, fmt.Errorf("pass: %d older secrets, want at most 1", len(older))
	}
	for i, s := range append([][]byte{secret}, older...) {
		if len(s) < SecretSize {
			return nil, fmt.Errorf("pass: secret %d has %d bytes, want at least %d", i, len(s), SecretSize)
		}
	}
	k := &Keys{current: subkeys(secret)}
	if len(older) == 1 {
		o := subkeys(older[0])
		k.older = &o
	}
	return k, nil
}

func subkeys(secret []byte) (ks [kinds]subkey) {
	for k := range kinds {
		h := hmac.New(sha256.New, secret)
		h.Write([]byte(k.label()))
		sub := h.Sum(nil)
		ks[k] = subkey{&sync.Pool{New: func() any { return hmac.New(sha256.New, sub) }}}
	}
	return ks
}

func (s subkey) sum(to, message []byte) []byte {
	h := s.states.Get().(hash.Hash)
	h.Reset()
	h.Write(message)
	to = h.Sum(to)
	s.states.Put(h)
	return to
}

// seal signs the message and spells both. A message that could not be opened is "".
func (k *Keys) seal(kd kind, message []byte, ok bool) string {
	if !ok {
		return ""
	}
	signed := k.current[kd].sum(message, message)
	return base64.RawURLEncoding.EncodeToString(signed)
}

// open returns the message that text spells, if it is signed for the kind.
func (k *Keys) open(kd kind, text string) (fields, error) {
	// The decoder would skip line breaks, and there would be two spellings.
	if len(text) > MaxText || strings.ContainsAny(text, "\r\n") {
		return nil, ErrBad
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < 1+sha256.Size {
		return nil, ErrBad
	}
	message, mac := raw[:len(raw)-sha256.Size], raw[len(raw)-sha256.Size:]
	if !k.signed(kd, message, mac) || message[0] != version {
		return nil, ErrBad
	}
	return fields(message[1:]), nil
}

func (k *Keys) signed(kd kind, message, mac []byte) bool {
	var sum [sha256.Size]byte
	if hmac.Equal(k.current[kd].sum(sum[:0], message), mac) {
		return true
	}
	return k.older != nil && hmac.Equal(k.older[kd].sum(sum[:0], message), mac)
}

// Callback is the signature of a payment provider's callback with this body, in lower-case
// hex.
func (k *Keys) Callback(body []byte) string {
	return hex.EncodeToString(k.current[callback].sum(nil, body))
}

// CallbackOK reports whether signature is [Keys.Callback] of the body.
func (k *Keys) CallbackOK(body []byte, signature string) bool {
	return k.proves(callback, body, signature)
}

// CSRF is the value that proves that a request comes from a page that was given to the
// session. session is the cookie's text.
func (k *Keys) CSRF(session string) string {
	return hex.EncodeToString(k.current[csrf].sum(nil, []byte(session)))
}

// CSRFOK reports whether value is [Keys.CSRF] of the session.
func (k *Keys) CSRFOK(session, value string) bool {
	return k.proves(csrf, []byte(session), value)
}

// Password is the value that binds a merchant's session to a password. session is what
// [Keys.Office] signed, and hash that of the password.
func (k *Keys) Password(session, hash string) string {
	return hex.EncodeToString(k.current[password].sum(nil, bound(session, hash)))
}

// PasswordOK reports whether value is [Keys.Password] of session and hash.
func (k *Keys) PasswordOK(session, hash, value string) bool {
	return k.proves(password, bound(session, hash), value)
}

// bound is both in one text. A signed string has no line break.
func bound(session, hash string) []byte { return []byte(session + "\n" + hash) }

func (k *Keys) proves(kd kind, message []byte, signature string) bool {
	if len(signature) != 2*sha256.Size || signature != strings.ToLower(signature) {
		return false
	}
	mac, err := hex.DecodeString(signature)
	return err == nil && k.signed(kd, message, mac)
}
