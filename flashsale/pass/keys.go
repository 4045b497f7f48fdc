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
	// SecretSize is the minimum length of a secret, in bytes.
	SecretSize = 32

	// MaxText is the maximum length of a signed string.
	MaxText = 1024

	// MaxField is the maximum length of a text in a signed string, in bytes.
	MaxField = 128

	version = 1
)

var (
	// ErrBad means that a string is not a signed string of its kind: it is forged, damaged or
	// misspelled.
	ErrBad = errors.New("pass: not signed here")

	// ErrExpired means that a string is signed and has expired.
	ErrExpired = errors.New("pass: expired")
)

// kind is a kind of signed string. Its subkey is the HMAC-SHA-256 of its label with the secret.
type kind int

const (
	session kind = iota
	office
	ticket
	token
	receipt
	paymentKey
	csrf
	password
	work
	login
	proof
	kinds
)

func (k kind) label() string {
	return "flashsale v1 " + [kinds]string{"session", "office", "ticket", "token", "receipt", "payment key", "csrf", "password", "work", "login", "proof"}[k]
}

// Keys signs with one secret, and accepts signatures of it and of an older one.
type Keys struct {
	current [kinds]subkey
	older   *[kinds]subkey
}

// subkey caches HMAC states, whose setup costs as much as a signature.
type subkey struct{ states *sync.Pool }

// NewKeys returns Keys for a secret of at least 32 bytes. While a secret is replaced,
// signatures of the older one are still accepted; an empty older secret is ignored.
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

// seal signs a message and encodes both. It returns an empty string if the message is too long
// to be opened.
func (k *Keys) seal(kd kind, message []byte, ok bool) string {
	if !ok {
		return ""
	}
	signed := k.current[kd].sum(message, message)
	return base64.RawURLEncoding.EncodeToString(signed)
}

// open returns the message of text, if it is signed for the kind.
func (k *Keys) open(kd kind, text string) (fields, error) {
	// The decoder ignores line breaks, so a string would have several spellings.
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

// CSRF returns the value that proves that a request comes from a page of the session. session
// is the text of the cookie.
func (k *Keys) CSRF(session string) string {
	return hex.EncodeToString(k.current[csrf].sum(nil, []byte(session)))
}

// CSRFOK reports whether value is [Keys.CSRF] of the session.
func (k *Keys) CSRFOK(session, value string) bool {
	return k.proves(csrf, []byte(session), value)
}

// Password returns the value that binds a merchant's session to a password. session is the text
// that [Keys.Office] returned, and hash the hash of the password.
func (k *Keys) Password(session, hash string) string {
	return hex.EncodeToString(k.current[password].sum(nil, bound(session, hash)))
}

// PasswordOK reports whether value is [Keys.Password] of session and hash.
func (k *Keys) PasswordOK(session, hash, value string) bool {
	return k.proves(password, bound(session, hash), value)
}

// bound joins both. A signed string has no line break.
func bound(session, hash string) []byte { return []byte(session + "\n" + hash) }

func (k *Keys) proves(kd kind, message []byte, signature string) bool {
	if len(signature) != 2*sha256.Size || signature != strings.ToLower(signature) {
		return false
	}
	mac, err := hex.DecodeString(signature)
	return err == nil && k.signed(kd, message, mac)
}
