package storeconn

import (
	"context"
	"fmt"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share"
)

// Ledger returns the ledger of shares in the server of k. It follows each replacement of the
// connection.
func (k *Conn) Ledger() share.Ledger { return ledger{k} }

type ledger struct{ k *Conn }

func (l ledger) current() (share.Ledger, error) {
	if now := l.k.current.Load(); now != nil {
		return now.ledger, nil
	}
	return nil, fmt.Errorf("ledger: %w: not connected", weir.ErrUnavailable)
}

// Load implements [share.Ledger].
func (l ledger) Load(ctx context.Context, names []string, rows []share.Stored) (time.Time, error) {
	to, err := l.current()
	if err != nil {
		return time.Time{}, err
	}
	return to.Load(ctx, names, rows)
}

// Swap implements [share.Ledger].
func (l ledger) Swap(ctx context.Context, swaps []share.Swap) error {
	to, err := l.current()
	if err != nil {
		return err
	}
	return to.Swap(ctx, swaps)
}
