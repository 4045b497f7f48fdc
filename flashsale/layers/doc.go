// Package layers is the limits before a flash sale, built of Weir's public packages alone,
// and the account of what every layer refused.
//
//	l, err := layers.New(layers.Config{Store: store})
//	…
//	l.Serve(w, r, func(w http.ResponseWriter, r *http.Request) { … })
//
// L0 is what the caller refuses itself, before it asks: see [Refusal] and Refuse. L4 bounds how
// many requests are under way and how many wait for that, in this process; it stands before
// what asks a store, so that a crowd cannot make the store slow. L1 for each address and L2
// for each user are policies of a file; those that a request falls under are asked together,
// in one round trip. L3 is the admission of the shop.
//
// # The account
//
// Every request is counted once: as refused, by layer and reason, or as admitted, which is
// any that no layer refused, whatever it was answered.
//
// # The policy file
//
// [Default] is the file that is used if there is no other. The policies of a file are those
// of the address and of the user: each names its layer by the field Flashsale-Layer of its
// on_denied. Under functions it has to have the rule "shop" with a bulkhead, which is L4, and
// may have "login" (a name at an address), "login-address" and "login-name", which count
// failures. [Layers.Follow] keeps to
// a file that changes; one that is broken leaves the one before in force.
package layers
