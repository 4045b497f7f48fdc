// Package ledger keeps the truth about flash sales in a database: PostgreSQL, for several
// processes, or SQLite in a file, for one.
//
//	l, err := ledger.Open(ctx, "sqlite:sale.db", ledger.Config{})
//	l, err := ledger.Open(ctx, "postgres://shop@db/shop", ledger.Config{})
//
// It implements sale.Ledger; on SQLite it also keeps the journal of an inventory in the process
// (Journal). SCHEMA.md describes the tables.
//
// # Guarantees
//
// What a method changes is durable when it returns: SQLite writes with synchronous=FULL,
// PostgreSQL is asked for synchronous_commit=on. The rules of sale.Ledger stand as
// constraints in the database, so that a fault of this program is an error there and never
// an order too many.
//
// Whoever places orders, expires or cancels them holds the row of their sale; orders of one
// sale are therefore placed one batch after the other, and Place is told how many units are
// left. Paying, cancelling and expiring an order are each one compare and set of its state.
// Payments of a process that come while others are made durable are taken together, and looks
// at orders are answered together; each statement of SQLite is prepared once per connection.
//
// # Recovery and what merchants do meanwhile
//
// NextEpoch of an exposed sale pauses it with the reason sale.Recovering, and Recovered
// exposes it again. A sale that its merchant has paused stays paused for that reason; that
// it recovers is noted beside. Meanwhile SetState treats a sale that is paused for recovery
// as what it was, exposed: it can be paused by its merchant, and then stays so when it has
// recovered; it can be ended, and stays ended; resumed while its gate is not there yet, it
// is paused for recovery, and reopens by itself.
//
// # Errors
//
// A database that cannot be reached, is shutting down, read-only, out of space or too slow
// is an error that wraps sale.ErrUnavailable, with its cause. Deadlocks and serialization
// failures are tried again a few times before.
package ledger
