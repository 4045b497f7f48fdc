package shop

import (
	"sync"
	"time"
)

// inventoryClock extrapolates the inventory's clock. All processes judge by it whether a
// payment is too late, even if their own clocks differ or are set.
type inventoryClock struct {
	mu            sync.Mutex
	inventory, at time.Time // the last reading of the inventory's clock, and the own clock then
}

// set records a reading of the inventory's clock at the time at of the own clock.
func (c *inventoryClock) set(inventory, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inventory, c.at = inventory, at
}

// now returns the inventory's time at the time own of the own clock: the last reading plus
// the time since. A step back of the own clock counts as zero. Before the first reading, now
// returns own.
func (c *inventoryClock) now(own time.Time) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inventory.IsZero() {
		return own
	}
	return c.inventory.Add(max(0, own.Sub(c.at)))
}
