package storeconn

import (
	"errors"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share"
)

// TestLedgerWithoutConnection checks that a ledger without a connection is unavailable.
func TestLedgerWithoutConnection(t *testing.T) {
	l := new(Conn).Ledger()
	if _, err := l.Load(t.Context(), []string{"a"}, make([]share.Stored, 1)); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Load = %v, want ErrUnavailable", err)
	}
	if err := l.Swap(t.Context(), []share.Swap{{Name: "a"}}); !errors.Is(err, weir.ErrUnavailable) {
		t.Errorf("Swap = %v, want ErrUnavailable", err)
	}
}
