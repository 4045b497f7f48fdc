// Package webhook delivers the events of a flash sale to the endpoints of its merchants, as
// Standard Webhooks. The ledger stores events in the transaction that changes an order; a
// Deliverer sends them.
//
//	d, err := webhook.New(webhook.Config{Store: ledger.Webhooks()})
//	…
//	d.Start()
//	defer d.Stop()
//
// # Guarantees
//
// An event is sent at least once, until the endpoint returns a 2xx status. Its ID, in the header
// webhook-id, is the same for each attempt, so that a receiver can ignore repeated ones. The
// events of an order are sent to an endpoint in order: an event waits while an earlier one of its
// order is pending or a dead letter. Events of different orders do not wait for each other.
//
// After the last failed attempt an event is a dead letter. It holds the later events of its order
// until the merchant replays or skips it.
//
// # Addresses
//
// A Deliverer connects only to public addresses and to Config.Networks. It checks the address of
// each connection after the name is resolved. It follows no redirect and uses no proxy.
//
// # Concurrency
//
// Several processes can deliver from one ledger. Each leases events for LeaseFor and sends them
// outside any transaction.
package webhook
