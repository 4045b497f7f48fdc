package flashsale_test

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/floodweir/weir/e2e/browsertest"
	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/jackc/pgx/v5"
)

// A shared value is used by several tests: the first one creates it, and the last one closes it.
type shared[T any] struct {
	mu    sync.Mutex
	users int
	it    T
	made  func(t testing.TB) T
	ends  func()
}

// use returns the value until the test ends.
func (c *shared[T]) use(t testing.TB) T {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		l := &longLived{TB: t}
		ready := false
		defer func() {
			if !ready { // the test has failed
				l.end()
			}
		}()
		c.it, c.ends = c.made(l), l.end
		ready = true
	}
	c.users++
	t.Cleanup(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.users--; c.users == 0 {
			c.ends()
		}
	})
	return c.it
}

// A longLived is a test whose files and servers outlive it.
type longLived struct {
	testing.TB
	cleanups []func()
}

func (l *longLived) Cleanup(f func()) { l.cleanups = append(l.cleanups, f) }

func (l *longLived) TempDir() string {
	dir, err := os.MkdirTemp("", "flashsale")
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (l *longLived) end() {
	for i := len(l.cleanups) - 1; i >= 0; i-- {
		l.cleanups[i]()
	}
}

// A postgresServer has a database with the schema of a ledger. A copy of it costs less than the
// migrations.
type postgresServer struct {
	*pgtest.Server
	schema string
}

// startPostgres starts a server that no test stops or fills.
func startPostgres(t testing.TB) postgresServer {
	s := postgresServer{Server: pgtest.StartVolatile(t, "max_connections=500")}
	s.schema = s.NewDB(t)
	l, err := ledger.Open(t.Context(), s.DSN(s.schema), ledger.Config{Timeout: longTimeout})
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The shared values: a PostgreSQL, one for ledgers without a shop, and a browser.
var (
	postgres = shared[postgresServer]{made: startPostgres}
	ledgers  = shared[postgresServer]{made: startPostgres}
	chromium = shared[*browsertest.Browser]{made: func(t testing.TB) *browsertest.Browser { return browsertest.Start(t) }}
)

// execute runs a statement in a database.
func execute(t testing.TB, dsn, statement string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(t.Context()))
	if _, err := c.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

// newDatabase returns a database with the schema of a ledger.
func newDatabase(t testing.TB, of *shared[postgresServer]) (dsn string) {
	t.Helper()
	return databaseOf(t, of, func(s postgresServer) string { return s.CopyDB(t, s.schema) })
}

// measuredDatabase returns a database with the schema of a ledger, and the process of its server. At
// full counts, when tests measure, it is a server of its own that writes through to the disk.
func measuredDatabase(t testing.TB) (dsn string, pid int) {
	t.Helper()
	if !long() {
		return newDatabase(t, &postgres), postgres.it.PID()
	}
	s := pgtest.Start(t)
	return s.DSN(s.NewDB(t)), s.PID()
}

// emptyDatabase returns a database without a schema.
func emptyDatabase(t testing.TB, of *shared[postgresServer]) (dsn string) {
	t.Helper()
	return databaseOf(t, of, func(s postgresServer) string { return s.NewDB(t) })
}

// databaseOf makes a database on a shared server. At full counts it is dropped when the test ends:
// the databases of many rounds would fill a disk.
func databaseOf(t testing.TB, of *shared[postgresServer], makes func(postgresServer) string) (dsn string) {
	t.Helper()
	s := of.use(t)
	of.mu.Lock() // the server is not safe for concurrent use
	defer of.mu.Unlock()
	name := makes(s)
	if !long() {
		return s.DSN(name)
	}
	t.Cleanup(func() {
		of.mu.Lock()
		defer of.mu.Unlock()
		s.Exec(t, "postgres", "DROP DATABASE "+name+" WITH (FORCE)")
	})
	return s.DSN(name)
}
