package rediskey_test

import (
	"testing"

	"github.com/floodweir/weir/internal/rediskey"
)

func TestSlot(t *testing.T) {
	// The first is the check value of CRC-16/XMODEM; the others are replies of CLUSTER
	// KEYSLOT.
	for tag, want := range map[string]uint16{"123456789": 0x31C3 % 16384, "foo": 12182, "user:42": 15880, "": 0} {
		if got := rediskey.Slot(tag); got != want {
			t.Errorf("Slot(%q) = %d, want %d", tag, got, want)
		}
	}
}
