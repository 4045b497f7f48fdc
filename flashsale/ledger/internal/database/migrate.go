package database

import (
	"context"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
	goosedb "github.com/pressly/goose/v3/database"
	"github.com/pressly/goose/v3/lock"
)

// oldTable held the versions of the schema before goose did. migrate takes it over.
const oldTable = "migrations"

// lockTries bounds the tries to get the lock of the migrations, one a second. An index of a large
// table takes minutes.
const lockTries = 3600

// migrate applies the migrations that are missing, each in a transaction of its own. It
// refuses a schema newer than this program. With only set it changes nothing and refuses an
// older schema too.
//
// Several processes may migrate one database at once. In PostgreSQL one applies all migrations and
// the others wait for its lock. Goose has no lock for SQLite and before its first migration, so a
// process can fail because another one has just applied the same migration. Then the version
// has risen, and migrate tries again. See initVersions.
func (db *DB) migrate(ctx context.Context, only bool) error {
	store, err := goosedb.NewStore(db.d.goose, goose.DefaultTablename)
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{goose.WithStore(store), goose.WithDisableGlobalRegistry(true)}
	if db.d.postgres {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, lockTries))
		if err != nil {
			return err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	provider, err := goose.NewProvider(goose.DialectCustom, db.w, db.d.files(), options...)
	if err != nil {
		return err
	}
	sources := provider.ListSources()
	want := sources[len(sources)-1].Version
	return db.Do(ctx, WriteOne, func(x *Tx) error {
		ctx := x.ctx
		for {
			at, err := db.version(ctx, store)
			switch {
			case err != nil || at.version == want && at.table == goose.DefaultTablename:
				return err
			case at.version > want:
				return fmt.Errorf("the schema has version %d and this program knows %d: use a newer program", at.version, want)
			case at.version < want && only:
				return fmt.Errorf("the schema has version %d and this program needs %d: migrate it", at.version, want)
			case only:
				return nil
			}
			if at.table != goose.DefaultTablename {
				err = db.initVersions(ctx, store)
			} else {
				_, err = provider.Up(ctx)
			}
			if err == nil {
				continue
			}
			if now, readErr := db.version(ctx, store); readErr != nil || now == at {
				return errors.Join(err, readErr)
			}
		}
	})
}

// schemaVersion is the version of the schema and the table that holds it: goose's, oldTable
// or none.
type schemaVersion struct {
	version int64
	table   string
}

// version reads the version of the schema. It changes nothing.
func (db *DB) version(ctx context.Context, store goosedb.Store) (schemaVersion, error) {
	for _, table := range []string{goose.DefaultTablename, oldTable} {
		exists, err := db.hasTable(ctx, db.w, table)
		if err != nil {
			return schemaVersion{}, err
		}
		if !exists {
			continue
		}
		v := schemaVersion{table: table}
		if table == oldTable {
			err = db.w.QueryRowContext(ctx, "SELECT coalesce(max(version), 0) FROM "+oldTable).Scan(&v.version)
		} else {
			v.version, err = store.GetLatestVersion(ctx, db.w)
		}
		return v, err
	}
	return schemaVersion{}, nil
}

// initVersions creates goose's version table with a unique index, so that of two processes that
// apply the same migration one is rolled back. It moves the versions of oldTable, if there is
// one.
func (db *DB) initVersions(ctx context.Context, store goosedb.Store) error {
	return db.Do(ctx, Write, func(x *Tx) error {
		versions := []int64{0} // goose begins its table with version 0
		old, err := db.hasTable(ctx, x.q, oldTable)
		if err != nil {
			return err
		}
		if old {
			applied, err := List(x, func(scan func(...any) error) (v int64, err error) { return v, scan(&v) },
				"SELECT version FROM "+oldTable+" ORDER BY version")
			if err != nil {
				return err
			}
			versions = append(versions, applied...)
			if _, err := x.Exec("DROP TABLE " + oldTable); err != nil {
				return err
			}
		}
		if err := store.CreateVersionTable(ctx, x.q); err != nil {
			return err
		}
		for _, v := range versions {
			if err := store.Insert(ctx, x.q, goosedb.InsertRequest{Version: v}); err != nil {
				return err
			}
		}
		_, err = x.Exec("CREATE UNIQUE INDEX goose_db_version_once ON goose_db_version (version_id)")
		return err
	})
}

func (db *DB) hasTable(ctx context.Context, q querier, name string) (bool, error) {
	find := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = $1"
	if db.d.postgres {
		find = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema() AND tablename = $1"
	}
	var n int
	err := q.QueryRowContext(ctx, find, name).Scan(&n)
	return n > 0, err
}
