package ledger

import (
	"context"
	"fmt"
)

// Bound bounds the file of a ledger on SQLite to so many pages, for the connection that
// writes.
func (l *Ledger) Bound(ctx context.Context, pages int) error {
	return l.db.Exec(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", pages))
}
