package meminventory

import (
	"time"

	"github.com/floodweir/weir/flashsale/crashpoint"
)

// Config configures an Inventory. The zero value works.
type Config struct {
	// Journal stores the streams. If nil, it is NewMemoryJournal(), and acknowledged
	// reservations without an order are lost when the process ends.
	Journal Journal

	// Clock returns the time. If nil, it is the wall clock at New plus the monotonic time since
	// then. The Inventory ignores steps back.
	Clock func() time.Time

	// Redeliver is the time after which an unacknowledged entry is delivered again: 10 s if 0,
	// and not negative.
	Redeliver time.Duration

	// MaxTickets bounds the memory of a sale in one epoch: the users with a ticket or a unit,
	// and the reservations. Above it Join refuses with sale.QueueFull. 2,000,000 if 0, and not
	// negative.
	MaxTickets int

	// Crash is called at crashpoint.ReserveDecided and crashpoint.ReserveJournaled.
	Crash crashpoint.Hook
}
