// Package engine is a sale.Inventory in this process, with its stream in a Journal on disk.
//
// Each sale has one goroutine that alone reads and writes its state. Callers put commands
// into its mailbox; it takes all that wait, decides them one after the other, and gives what
// was reserved to the Journal at once. So the free units need no lock, and a disk's sync is
// shared by all who reserve meanwhile. Whoever asks about a reservation that is on its way to
// the disk is answered when it is there.
//
// # Guarantees
//
// A reservation is acknowledged, and seen by anybody, only after Journal.Append returned.
// If that fails, nobody knows what is on the disk: the epoch is closed at once, and
// everything is sale.ErrStale until the sale is opened at its next one. Next of the old
// epoch reads the Journal again, and so delivers each reservation that is there.
//
// A new Inventory has no state. Every method is sale.ErrStale then, but Next and Done, which
// deliver what an earlier process left in the Journal.
//
// # Time
//
// The clock is the wall clock of the moment at which the Inventory was made, plus the time
// since then by the monotonic clock. Steps of the wall clock do not change it.
package meminventory
