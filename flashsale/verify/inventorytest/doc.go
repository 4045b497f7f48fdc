// Package inventorytest is the conformance suite of sale.Inventory: Run checks the numbered rules,
// and Race checks concurrent calls. Package random compares with a model.
//
// An Inventory under test reads the time from the Clock that it is opened with.
package inventorytest

import (
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Open returns an empty Inventory that reads the time from clock. It is closed when t ends.
type Open func(t *testing.T, clock *Clock) sale.Inventory

// Redeliver is the time after which an Inventory must redeliver an unacknowledged entry, by its
// own clock or by the wall clock.
const Redeliver = time.Second

// Start returns the initial time of a Clock.
func Start() time.Time { return time.Date(2026, 11, 11, 12, 0, 0, 0, time.UTC) }

// A Clock is a manual clock. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a Clock at Start.
func NewClock() *Clock { return &Clock{now: Start()} }

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Move moves the clock by d, which may be negative.
func (c *Clock) Move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set sets the clock.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// InUTC returns r with its times in UTC and its number of units as Quantity.
func InUTC(r sale.Reservation) sale.Reservation {
	r.At, r.PayBy, r.Quantity = r.At.UTC(), r.PayBy.UTC(), int(r.Units())
	return r
}

// StatusInUTC returns st with its times in UTC.
func StatusInUTC(st sale.TicketStatus) sale.TicketStatus {
	st.Until = st.Until.UTC()
	var reserved []sale.Reservation
	for _, r := range st.Reserved {
		reserved = append(reserved, InUTC(r))
	}
	st.Reserved = reserved
	if st.Last != nil {
		last := InUTC(*st.Last)
		st.Last = &last
	}
	return st
}
