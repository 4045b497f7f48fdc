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
// For each sale that buyers see, a Shop reads the inventory's counts every 100 ms and keeps a
// snapshot from which it answers. The same goroutine makes the inventory follow the ledger
// (pause, stock, end) and recovers an inventory that has lost its state. An admitter per sale
// admits waiting tickets. A fixed number of order writers read reservations from the
// inventory's stream and create orders in the ledger. A sweeper expires unpaid orders and
// returns their units. Stop ends all of them and waits for the work in progress.
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
