// Package ledger implements sale.Ledger in a database: PostgreSQL for several processes, or
// SQLite in a file for one.
//
//	l, err := ledger.Open(ctx, "sqlite:sale.db", ledger.Config{})
//	l, err := ledger.Open(ctx, "postgres://shop@db/shop", ledger.Config{})
//
// On SQLite it also stores the journal of an inventory in the same process (Journal). SCHEMA.md
// describes the tables.
//
// # Guarantees
//
// A change is durable when the method returns, and so is what a method has read. PostgreSQL commits
// with synchronous_commit=on. The write-ahead log of SQLite is synced after each commit, while the
// next transaction runs. The rules of sale.Ledger are constraints of the
// database, so that a bug in this program causes an error and not an extra order.
//
// A transaction that creates, expires or cancels orders locks the row of their sale. Batches of
// one sale are therefore written one after the other, and CreateOrders knows how many units
// are left. Paying, cancelling and expiring an order are each one compare and set of its
// state. Concurrent payments of a process share a transaction, and concurrent reads of orders
// share a statement. SQLite statements are prepared once per connection.
//
// # Recovery and changes by merchants
//
// An epoch begins with a transaction that locks the row of the sale. A reservation in the
// stream of an earlier epoch, which a process may have kept, is fenced: CreateOrders compares
// the epochs under the same lock. In PostgreSQL a process that stops in a transaction loses its
// session after 5 s, and others wait for its locks for up to 2 s at a time.
//
// NextEpoch pauses an exposed sale with the reason sale.Recovering, and MarkRecovered exposes
// it again. A sale that its merchant has paused keeps that reason; the recovery is recorded in
// another column. During a recovery SetState treats a sale that is paused for it as exposed:
//
//   - paused by its merchant, it stays paused after the recovery;
//   - ended, it stays ended;
//   - resumed before the recovery is complete, it is paused for the recovery, and reopens
//     after it.
//
// # Errors
//
// A database that is unreachable, shutting down, read-only, out of space or too slow causes an
// error that wraps sale.ErrUnavailable and the cause. Deadlocks and serialization failures are
// retried a few times before. After a failed sync of SQLite's log the content of the disk is unknown:
// the ledger is unavailable until the process restarts.
package ledger
