// Package shop is the heart of the flash sale: it joins an Inventory and a Ledger into what buyers
// and merchants can do.
//
//	s, err := shop.New(shop.Config{Inventory: gate, Ledger: ledger, Limits: store, Keys: keys, Worker: "a"})
//	…
//	err = s.Start(ctx)
//	defer s.Stop()
//	…
//	turn, err := s.Join(ctx, user, sale, "")
//
// Any number of shops, each in a process of its own, may stand over one Inventory and one Ledger.
//
// # What it runs
//
// For each sale that buyers see, a keeper counts the Inventory every 100 ms and makes of it the
// snapshot that every answer is made from; it also pauses, stocks and rebuilds the Inventory as
// the Ledger says. An usher admits from the line. Clerks, a fixed number of them, write what
// was reserved into the Ledger. A sweeper expires orders and gives units back. All of them
// end with Stop, which lets them finish what they have in hand.
//
// # When a part is away
//
// Without the Ledger one may still join, wait and reserve: reservations stand in the Inventory's
// stream, which cannot hold more than there are units. Payments, cancellations and
// merchants are answered with an error that wraps sale.ErrUnavailable. Without the Inventory
// that is so of buyers. Every question to either has a deadline.
//
// # Admission
//
// Tokens that are out are slots of a concurrency limit of Weir, of Headroom × Stock but at
// most 10,000, which come free when a token is used or its time is over. How fast they are
// given is a token bucket for each process, of what its clerks have shown to drain.
package shop
