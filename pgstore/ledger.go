package pgstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/share"
)

type ledger struct {
	db     *sql.DB
	prefix string
}

// NewLedger returns a ledger in a database that has the schema of [Migrations]. It uses the Prefix of
// the Config, and sends nothing. An error wraps weir.ErrInvalid.
func NewLedger(db *sql.DB, c Config) (share.Ledger, error) {
	if db == nil {
		return nil, fmt.Errorf("pgstore: db: %w: got nil, want an open database", weir.ErrInvalid)
	}
	if err := c.normalize(); err != nil {
		return nil, err
	}
	return &ledger{db: db, prefix: c.Prefix + ":"}, nil
}

// Load implements [share.Ledger].
func (l *ledger) Load(ctx context.Context, names []string, rows []share.Stored) (now time.Time, err error) {
	var list array
	for _, name := range names {
		list.bytes(l.prefix + name)
	}
	found, err := l.db.QueryContext(ctx, "SELECT * FROM weir_load_shares($1)", list.String())
	if err != nil {
		return now, unavailable(err)
	}
	defer found.Close()
	i := 0
	for ; found.Next() && i < len(rows); i++ {
		var us int64
		var version sql.NullInt64
		var data []byte
		if err := found.Scan(&us, &version, &data); err != nil {
			return now, unavailable(err)
		}
		if i == 0 {
			now = time.UnixMicro(us)
		}
		rows[i] = share.Stored{Version: uint64(version.Int64), Data: data}
	}
	if err := found.Err(); err != nil {
		return now, unavailable(err)
	}
	if i != len(rows) {
		return now, unavailable(fmt.Errorf("weir_load_shares: got %d rows, want %d", i, len(rows)))
	}
	return now, nil
}

// Swap implements [share.Ledger]. PostgreSQL rolls back what it reports as a conflict of
// transactions, so that is repeated.
func (l *ledger) Swap(ctx context.Context, swaps []share.Swap) error {
	order := make([]*share.Swap, len(swaps)) // transactions lock rows in one order
	for i := range swaps {
		order[i] = &swaps[i]
		order[i].Done = false
	}
	slices.SortFunc(order, func(a, b *share.Swap) int { return cmp.Compare(a.Name, b.Name) })
	var names, versions, data, keeps array
	for _, s := range order {
		names.bytes(l.prefix + s.Name)
		versions.number(int64(s.Version))
		data.bytes(string(s.Data))
		keeps.number(max(0, s.Keep.Microseconds()))
	}
	var done string
	err := call(ctx, func() error {
		return l.db.QueryRowContext(ctx, "SELECT weir_swap_shares($1, $2, $3, $4)::text", names.String(), versions.String(), data.String(), keeps.String()).Scan(&done)
	})
	if err != nil {
		return unavailable(err)
	}
	all := strings.Split(strings.Trim(done, "{}"), ",")
	if len(all) != len(swaps) {
		return unavailable(fmt.Errorf("weir_swap_shares: got %d values, want %d", len(all), len(swaps)))
	}
	for i, s := range order {
		s.Done = all[i] == "t" || all[i] == "true"
	}
	return nil
}

// bytes adds a text of any bytes.
func (a *array) bytes(s string) { a.text(`\x` + hex.EncodeToString([]byte(s))) }
