// Package meminventory implements sale.Inventory in this process, with its stream in a Journal
// on disk.
//
// Each sale is a shard with one goroutine, which alone reads and writes its state. Callers send
// commands to its inbox. The goroutine executes all that are queued and appends their
// reservations to the Journal together. Free units therefore need no lock, and concurrent
// reservations share one sync of the disk. A call whose result includes a reservation that is
// being appended returns when that is done.
//
// # Guarantees
//
// A reservation is acknowledged and visible only after Journal.Append has returned. If Append
// fails, the content of the disk is unknown. The epoch is then closed at once, and calls
// return sale.ErrStale until the sale is opened at its next epoch. Next of the old epoch reads
// the Journal again, and so delivers every reservation that was written.
//
// A new Inventory has no state, and its methods return sale.ErrStale. Next and Ack deliver what
// an earlier process left in the Journal.
//
// # Time
//
// The clock is the wall clock at New plus the monotonic time since. Steps of the wall clock do
// not change it.
package meminventory
