package shop

import (
	"testing"
	"time"
)

// TestInventoryClock sets the own clock back and ahead of the inventory's.
func TestInventoryClock(t *testing.T) {
	own := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	inventory := own.Add(time.Hour)
	var c inventoryClock
	if got := c.now(own); !got.Equal(own) {
		t.Errorf("before the first reading: %v, want %v", got, own)
	}
	c.set(inventory, own)
	for passed, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: time.Second, -time.Minute: 0, 10 * time.Minute: 10 * time.Minute,
	} {
		if got := c.now(own.Add(passed)).Sub(inventory); got != want {
			t.Errorf("%v later by the own clock: %v later by the inventory's, want %v", passed, got, want)
		}
	}
}
