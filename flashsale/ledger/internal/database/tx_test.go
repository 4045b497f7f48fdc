package database

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// TestTimeoutBeforeCommit checks that a transaction that was rolled back when its context ended,
// just before Commit, is reported as unavailable.
func TestTimeoutBeforeCommit(t *testing.T) {
	db, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"), Config{Conns: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	err = db.Do(ctx, Write, func(x *Tx) error {
		cancel()
		for err := error(nil); !errors.Is(err, sql.ErrTxDone); _, err = x.q.ExecContext(t.Context(), "SELECT 1") {
		}
		return nil
	})
	if !errors.Is(err, sale.ErrUnavailable) {
		t.Errorf("Do = %v, want ErrUnavailable", err)
	}
}
