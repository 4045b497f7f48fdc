// Package keyid names the keys of clients for actors that must not see them.
//
//	names := keyid.New()
//	id := names.ID(charge.Key) // such as Tq3fK0c-Zl9x
//
// A key is often an address, and a hash without a secret could be reversed by hashing all
// addresses. So an ID depends on a secret, which the nodes of a store have in common (see
// nodes.Config). A process without such a store has its own.
package keyid

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"sync/atomic"

	"github.com/floodweir/weir/policy"
)

// Names returns the IDs of keys. It is safe for concurrent use.
type Names struct{ secret atomic.Pointer[string] }

// New returns Names with a random secret of 128 bits.
func New() *Names {
	n := &Names{}
	n.Use(rand.Text())
	return n
}

// Secret returns the secret in use.
func (n *Names) Secret() string { return *n.secret.Load() }

// Use replaces the secret. All IDs change.
func (n *Names) Use(secret string) { n.secret.Store(&secret) }

// ID returns the ID of a key, such as policy.Charge.Key: 12 letters, digits, '-' and '_'. Keys
// with the same values have the same ID under every policy.
func (n *Names) ID(key string) string { return n.FromHash(policy.KeyID(key)) }

// FromHash returns the ID of the key with a policy.KeyID; "" if that is "".
func (n *Names) FromHash(hash string) string {
	if hash == "" {
		return ""
	}
	mac := hmac.New(sha256.New, []byte(n.Secret()))
	mac.Write([]byte(hash))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:9])
}
