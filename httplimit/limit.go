package httplimit

import (
	"net/http"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// Limit returns a middleware that limits the requests of each key:
//
//	handler = httplimit.Limit(store, "10/s burst 20", httplimit.ByIP)(handler)
//
// Key may read what an authentication middleware in front has put into the context. Requests
// with an empty key share one bucket. It is short for a [Middleware] of one policy, called
// "limit", with the default Config: responses, denials and degraded mode are the same. Two
// middlewares share the buckets of equal keys if store and limit are equal; include a name in
// the key to separate them. Limit panics if store is nil or the limit is invalid.
func Limit(store weir.Store, limit string, key func(*http.Request) string) func(http.Handler) http.Handler {
	return MustKeyed(store, limit, KeyFunc(key)).Wrap
}

// LimitFunc returns a middleware like that of Limit, with a limit for each key from code, such
// as the limit of a tenant from a database. It may change at any time; keys keep their state.
// Return a default limit for unknown keys and for the empty key: requests without a limit, and
// with an error, are admitted with the field Weir-Degraded.
func LimitFunc(store weir.Store, limit weir.LimitFunc, key func(*http.Request) string) func(http.Handler) http.Handler {
	return MustKeyedFunc(store, limit, KeyFunc(key)).Wrap
}

// MustKeyed returns the Middleware of Limit for a part of a key. Adapters use it.
func MustKeyed(store weir.Store, limit string, key policy.KeyPart) *Middleware {
	return mustNew(store, enforce.OneLimit(limit, key), Config{})
}

// MustKeyedFunc returns the Middleware of LimitFunc for a part of a key. Adapters use it.
func MustKeyedFunc(store weir.Store, limit weir.LimitFunc, key policy.KeyPart) *Middleware {
	return mustNew(store, enforce.OneLimit("1/s", key), Config{Options: enforce.Options{LimitFunc: limit}})
}

func mustNew(store weir.Store, set *policy.Set, c Config) *Middleware {
	m, err := New(store, set, c)
	if err != nil {
		panic(err)
	}
	return m
}

// KeyFunc returns a part of a policy's key that key computes from a request, for example from
// the user that an authentication middleware has put into its context. Requests with an empty
// text share one bucket.
func KeyFunc(key func(*http.Request) string) policy.KeyPart {
	return enforce.KeyFunc(func(a *attributes) string { return key(a.r) })
}

// WriterKeyFunc is KeyFunc for adapters: key gets the ResponseWriter that the adapter passed to
// the handler of Wrap, in which it finds the context of its framework.
func WriterKeyFunc(key func(http.ResponseWriter) string) policy.KeyPart {
	return enforce.KeyFunc(func(a *attributes) string { return key(a.w) })
}

// ByIP is a key function that returns the address of the peer, of IPv6 its first 64 bits.
// Behind a proxy, use the method Key of a [ClientAddress].
func ByIP(r *http.Request) string {
	var c ClientAddress
	return c.Key(r)
}

// Key is a key function that returns the address of the client, of IPv6 its first 64 bits. It
// returns an empty key if there is no address.
func (c *ClientAddress) Key(r *http.Request) string {
	addr := c.Addr(r)
	if !addr.IsValid() {
		return ""
	}
	if addr.Is4() {
		return addr.String()
	}
	network, _ := addr.Prefix(64) // 64 is a valid number of bits
	return network.String()
}
