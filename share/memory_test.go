package share_test

import (
	"testing"
	"time"

	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/ledgertest"
)

func TestMemoryLedger(t *testing.T) {
	ledgertest.Run(t, func(testing.TB) share.Ledger { return share.NewMemory(nil) })
}

// TestMemoryDeletes writes many rows that need not be kept: the ledger does not grow.
func TestMemoryDeletes(t *testing.T) {
	now := time.UnixMicro(1)
	m := share.NewMemory(func() time.Time { return now })
	for i := range 10_000 {
		name := string(rune('a'+i%26)) + time.Duration(i).String()
		if err := m.Swap(t.Context(), []share.Swap{{Name: name, Keep: time.Second}}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(100 * time.Millisecond)
	}
	if n := m.Len(); n > 200 {
		t.Errorf("Len = %d after 10,000 rows that are kept for 10 writes each, want at most 200", n)
	}
}
