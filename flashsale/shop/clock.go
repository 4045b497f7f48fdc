package shop

import (
	"sync"
	"time"
)

// A gateTime goes by the Inventory's, so that shops whose own clocks differ, or are set,
// judge alike whether it is too late to pay.
type gateTime struct {
	mu       sync.Mutex
	gate, at time.Time // what the Inventory's clock said last, and the shop's own then
}

// note keeps what the Inventory's clock says when the shop's own says at.
func (c *gateTime) note(gate, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gate, c.at = gate, at
}

// now is the Inventory's time when the shop's own clock says own: what that said last, and what
// has passed since by the own clock, which runs on, and whose steps back count for nothing.
// Before the Inventory has said anything it is own.
func (c *gateTime) now(own time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gate.IsZero() {
		return own
	}
	return c.gate.Add(max(0, own.Sub(c.at)))
}

// now is the time by which orders are judged.
func (s *Shop) now() time.Time { return s.gateTime.now(s.Clock()) }

// Now implements sale.BuyerService.
func (s *Shop) Now() time.Time { return s.now() }
