package meminventory

import (
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
)

// Config of an Inventory. Its zero value works.
type Config struct {
	// Journal keeps the streams. NewMemoryJournal() if nil: then a process that dies takes
	// with it what was acknowledged and is no order yet.
	Journal Journal

	// Clock is the time. If nil, it is the wall clock at New plus the monotonic time since
	// then. The Inventory never goes back behind what it has seen of it.
	Clock func() time.Time

	// Redeliver is how long a worker may be busy with an entry before another gets it: 10 s
	// if 0, and not negative.
	Redeliver time.Duration

	// MaxTickets is how many users of one sale may have a ticket or a unit in one epoch, and
	// how many reservations all of them may get before Join is sale.QueueFull. It bounds the
	// memory of a sale. 2,000,000 if 0, and not negative.
	MaxTickets int

	// Crash is called at crashpoint.ReserveDecided and crashpoint.ReserveJournaled.
	Crash crashpoint.Hook
}
