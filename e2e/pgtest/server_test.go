//go:build unix

package pgtest_test

import (
	"context"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/jackc/pgx/v5"
)

// TestServer stops a server in every way and reads its data again.
func TestServer(t *testing.T) {
	s := pgtest.Start(t, "max_connections=20")
	db := s.NewDB(t)
	s.Exec(t, db, "CREATE TABLE kept (n int)")
	for i, end := range []func(){s.Stop, s.Kill} {
		s.Exec(t, db, "INSERT INTO kept VALUES (1)")
		end()
		end() // does nothing
		if err := ask(s, db, time.Second, nil); err == nil {
			t.Fatal("the server responds after it ended")
		}
		s.Start(t)
		var n int
		if err := ask(s, db, 10*time.Second, &n); err != nil || n != i+1 {
			t.Fatalf("%d rows, %v after an end, want %d", n, err, i+1)
		}
	}
	s.Pause()
	if err := ask(s, db, 300*time.Millisecond, nil); err == nil {
		t.Fatal("the server responds while it is paused")
	}
	s.Cont()
	if err := ask(s, db, 10*time.Second, nil); err != nil {
		t.Fatalf("after a pause: %v", err)
	}
}

func ask(s *pgtest.Server, db string, wait time.Duration, n *int) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	c, err := pgx.Connect(ctx, s.DSN(db))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	var count int
	if n == nil {
		n = &count
	}
	return c.QueryRow(ctx, "SELECT count(*) FROM kept").Scan(n)
}
