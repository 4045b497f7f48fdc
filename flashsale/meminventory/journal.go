package meminventory

import (
	"context"

	"github.com/floodweir/weir/flashsale/sale"
)

// A Journal keeps the streams of an Inventory on a disk: what was reserved and is not done. It
// is safe for concurrent use; it is asked for one Append of a sale at a time, and may commit
// those of several sales together.
type Journal interface {
	// Append adds reservations to the stream of a sale at an epoch, in this order, behind
	// what is there. It is durable when it returns nil. When it returns an error, either
	// nothing was added or all of it, and nothing is added later. A reservation that is in
	// the journal already, by its ID, moves to this epoch and to the end of its stream; its
	// own Epoch can be an earlier one.
	Append(ctx context.Context, sale string, epoch int64, rs []sale.Reservation) error

	// Pending returns the stream of a sale at an epoch, the oldest first: what was appended
	// and not removed. An entry's ID is that of its reservation, and is unique in the
	// sale; what cannot be read has Damaged set. Deliveries is 0.
	Pending(ctx context.Context, sale string, epoch int64) ([]sale.Entry, error)

	// Remove removes entries from a sale's streams by their IDs. Those that are not there
	// are no error. It need not be durable when it returns: who reads an entry twice does
	// no harm.
	Remove(ctx context.Context, sale string, ids ...string) error
}
