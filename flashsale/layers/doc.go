// Package layers applies the limits in front of a flash sale, with Weir's public packages only,
// and counts what every layer refuses.
//
//	l, err := layers.New(layers.Config{Store: store})
//	…
//	l.Serve(w, r, func(w http.ResponseWriter, r *http.Request) { … })
//
// The caller is layer L0: it refuses requests from memory with [Layers.Refuse]. L4 bounds the
// requests in progress and those that wait, per process. It comes before the layers that call
// a store, so that many requests cannot slow the store down. L1 (per address) and L2 (per
// user) are policies of a file; all that match a request are decided in one round trip. L3
// is the admission by the shop.
//
// # Counters
//
// Every request is counted once: as refused, by layer and reason, or as admitted, whatever its
// status.
//
// # The policy file
//
// [Default] is the built-in file. Each policy of a file limits an address or a user, and names
// its layer in the header Flashsale-Layer of its on_denied. Under functions, the rule "shop"
// with a bulkhead is required; it is L4. The rules "login" (a name at an address),
// "login-address" and "login-name" are optional and count failed logins. [Layers.Watch]
// reloads a file that changes; an invalid file leaves the previous one in force.
package layers
