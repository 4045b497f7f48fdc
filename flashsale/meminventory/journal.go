package meminventory

import (
	"context"

	"github.com/floodweir/weir/flashsale/sale"
)

// Journal stores the streams of an Inventory on disk: the reservations that are not
// acknowledged by a worker. It must be safe for concurrent use. An Inventory calls one Append
// per sale at a time; a Journal may commit those of several sales together.
type Journal interface {
	// Append appends reservations to the stream of a sale at an epoch, in this order. They are
	// durable when it returns nil. If it returns an error, it has added all of them or none,
	// and adds none later. A reservation whose ID is in the journal already moves to the end of
	// the stream of this epoch; its own Epoch can be an earlier one.
	Append(ctx context.Context, sale string, epoch int64, rs []sale.Reservation) error

	// Pending returns the stream of a sale at an epoch, the oldest first: what was appended and
	// not removed. An entry's ID is that of its reservation, and is unique in the sale. An
	// entry that cannot be decoded has Corrupt set. Deliveries is 0.
	Pending(ctx context.Context, sale string, epoch int64) ([]sale.Entry, error)

	// Remove removes entries from a sale's streams by their IDs and ignores unknown IDs. It need
	// not be durable when it returns, because reading an entry twice is harmless.
	Remove(ctx context.Context, sale string, ids ...string) error
}
