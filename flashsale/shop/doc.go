// Package shop runs a flash sale: it implements what buyers and merchants can do on an
// inventory and a ledger.
//
//	s, err := shop.New(shop.Config{Inventory: inventory, Ledger: ledger, Limits: store, Keys: keys, Worker: "a"})
//	…
//	err = s.Start(ctx)
//	defer s.Stop()
//	…
//	status, err := s.Join(ctx, user, sale, "")
//
// Any number of processes can each run a Shop on the same inventory and ledger.
//
// # Background work
//
// For each busy sale, a Shop reads the inventory's counts every 100 ms, or more rarely if many
// are busy, and keeps a snapshot from which it answers. A sale is busy for two seconds after a
// request about it, while tickets wait, and while its stream has entries or the inventory differs
// from the ledger. For quiet sales a Shop makes no calls, apart from one query a second of the
// ledger for all of them. The same goroutine makes the inventory follow the ledger (pause, stock,
// end) and recovers an inventory that has lost its state. An admitter per sale admits waiting
// tickets. A fixed number of order writers read the streams in which this Shop reserved units, and
// those with a backlog, and create orders in the ledger. A sweeper expires unpaid orders and
// returns their units. Every Shop reports to the inventory that it works; when one stops, another
// checks every sale once. Stop ends all of them and waits for the work in progress.
//
// # Degraded modes
//
// While the ledger is unavailable, users can still join, wait and reserve. Reservations stay
// in the inventory's stream, which cannot hold more of them than there are units. Payments,
// cancellations and merchant calls fail with sale.ErrUnavailable. While the inventory is
// unavailable, so do the calls of buyers. Every call to either has a deadline.
//
// # Admission
//
// Each outstanding admission token holds a slot of a Weir concurrency limit of
// Headroom × Stock slots, at most 10,000. Using a token or its expiry frees the slot. The
// rate of admission is a token bucket per process; its rate follows the orders per second
// that the order writers have written.
package shop
