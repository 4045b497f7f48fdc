package ledger

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// migrationLock is the advisory lock of PostgreSQL under which the schema changes.
const migrationLock = 0x666c617368 // "flash"

// migrate applies what is missing of the schema, all in one transaction. A schema that is
// newer than this program is refused, and with only, one that is older.
func (l *Ledger) migrate(ctx context.Context, only bool) error {
	have, err := steps(l.d.files())
	if err != nil {
		return err
	}
	return l.write(ctx, "migrate", "", func(x *tx) error {
		at, err := l.version(x, only)
		switch {
		case err != nil:
			return err
		case at > len(have):
			return fmt.Errorf("the schema has version %d and this program knows %d: use a newer program", at, len(have))
		case at < len(have) && only:
			return fmt.Errorf("the schema has version %d and this program needs %d: migrate it", at, len(have))
		}
		for i := at; i < len(have); i++ {
			if _, err := x.q.ExecContext(x.ctx, have[i]); err != nil {
				return fmt.Errorf("version %d: %w", i+1, err)
			}
			if _, err := x.exec("INSERT INTO migrations (version, at) VALUES ($1, $2)", i+1, milli(time.Now())); err != nil {
				return err
			}
		}
		return nil
	})
}

// version is that of the schema, 0 of an empty database.
func (l *Ledger) version(x *tx, only bool) (int, error) {
	find := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'migrations'"
	if l.d.postgres {
		find = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = 'migrations'"
		if _, err := x.exec("SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
			return 0, err
		}
	}
	var n int
	if err := x.row(find).Scan(&n); err != nil {
		return 0, err
	}
	if n == 0 {
		if only {
			return 0, nil
		}
		_, err := x.exec("CREATE TABLE migrations (version int PRIMARY KEY, at bigint NOT NULL)")
		return 0, err
	}
	var at sql.NullInt64
	err := x.row("SELECT max(version) FROM migrations").Scan(&at)
	return int(at.Int64), err
}

// steps are the texts of the migrations in their order: 0001_name.sql and so on, with no
// gap.
func steps(files fs.FS) ([]string, error) {
	entries, err := fs.ReadDir(files, ".") // sorted by name
	if err != nil {
		return nil, fmt.Errorf("ledger: migrations: %w", err)
	}
	var texts []string
	for i, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 || len(number) != 4 {
			return nil, fmt.Errorf("ledger: migration %q: want number %04d", e.Name(), i+1)
		}
		text, err := fs.ReadFile(files, e.Name())
		if err != nil {
			return nil, fmt.Errorf("ledger: migrations: %w", err)
		}
		texts = append(texts, string(text))
	}
	return texts, nil
}
