package share

import (
	"context"
	"time"
)

// A Ledger stores rows: for each limit of a key, the part that is granted to each holder, and
// the remainder. Package share encodes rows and does all arithmetic. A ledger loads bytes, swaps
// them by version and reports its time, so every engine with compare-and-swap on one row
// can implement it. Package ledgertest checks these rules under the same numbers:
//
//  1. Load returns for each name the row that the last effective Swap wrote: reads are
//     linearizable. It returns the zero Stored for a row that does not exist.
//  2. Swap writes a row only if its version is still Swap.Version, in one step. Version 0
//     means that the row does not exist. Each row of a call is independent: one may be
//     written and the next one not.
//  3. A write gives the row a version that the name never had before, also if the row was
//     deleted in between. An engine without such a counter uses the larger of its time in µs and
//     the former version + 1.
//  4. Load reads the time after the call begins, and not after any later call: times of one
//     ledger never go back by more than 1 s. All callers see one clock. Remainders
//     refill by it.
//  5. A row may be deleted from Swap.Keep after its last write on, and not earlier. Keep is 0
//     for a row that may be deleted at once.
//  6. After an error the caller does not know which rows were written. It loads them again: a
//     row states the holder, its epoch and the sequence number of its last change, so the caller
//     finds out. A ledger therefore never repeats a Swap whose reply is lost. A Swap that
//     arrives late has no effect if the version has changed.
//  7. An error of an engine that cannot be reached, or whose reply was lost, wraps
//     weir.ErrUnavailable. A version that has changed is no error.
//  8. Swap may report a row that has another version, which saves a Load. It then sets Swap.Found and
//     Swap.At in the step that compares, as Load returns them.
//  9. The methods are safe for concurrent use and return when ctx ends.
//
// Names have 1 to MaxName bytes, of any value. A row has at most MaxRow bytes. A call has 1 to
// MaxBatch rows with different names. Nothing is kept across calls, so a ledger
// needs no goroutine and no closing.
//
// # Clocks
//
// The rates of the clocks of a ledger and of a holder may differ by Config.Drift. An engine without
// a clock may return the time of the caller's computer if all of them are synchronized within 1 s.
// A lease does not depend on this clock. It ends for its holder by the monotonic clock of the
// holder, and for others after they have watched an unchanged row for as long.
type Ledger interface {
	// Load reads rows. It writes the row of names[i] to rows[i], which has the length of names,
	// and returns the ledger's time, in whole µs.
	Load(ctx context.Context, names []string, rows []Stored) (now time.Time, err error)

	// Swap writes rows whose versions are as expected, and sets Done in those.
	Swap(ctx context.Context, swaps []Swap) error
}

// A Stored is a row in a ledger.
type Stored struct {
	Version uint64 // 0 if there is none
	Data    []byte // the caller may keep it
}

// A Swap is a conditional write of one row.
type Swap struct {
	Name    string
	Version uint64        // that the row has; 0 if it does not exist
	Data    []byte        // the new content, which the ledger must not keep or change
	Keep    time.Duration // for which the row is kept at least

	Done bool // set by the ledger: the row was written

	// Found and At are set by a ledger that reports the row of a Swap that is not Done, and its time.
	Found Stored
	At    time.Time
}

// Sizes in calls of a Ledger.
const (
	MaxName  = 600
	MaxRow   = 32 << 10
	MaxBatch = 128
)
