package shop

import (
	"testing"
	"time"
)

// TestGateTime sets the shop's clock back and ahead of the Inventory's.
func TestGateTime(t *testing.T) {
	own := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	gate := own.Add(time.Hour)
	var c gateTime
	if got := c.now(own); !got.Equal(own) {
		t.Errorf("before the Gate has said anything: %v, want %v", got, own)
	}
	c.note(gate, own)
	for passed, want := range map[time.Duration]time.Duration{
		0: 0, time.Second: time.Second, -time.Minute: 0, 10 * time.Minute: 10 * time.Minute,
	} {
		if got := c.now(own.Add(passed)).Sub(gate); got != want {
			t.Errorf("%v later by the own clock: %v later by the Gate's, want %v", passed, got, want)
		}
	}
}
