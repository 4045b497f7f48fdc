package flashsale_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/auditor"
	"github.com/jackc/pgx/v5"
)

// TestFaultsOfDatabase stops, slows down and fills the PostgreSQL of two processes in the
// middle of a sale. Whoever was granted a unit gets an order of it, the stream is no longer
// than there are units, and payments are told to be said again, which customers do.
func TestFaultsOfDatabase(t *testing.T) {
	t.Parallel()
	away := 3 * time.Second
	if long() {
		away = 30 * time.Second
	}
	for _, f := range []struct {
		name   string
		breaks func(ctx context.Context, t *testing.T, pg *pgtest.Server, db string, resize func(int))
	}{
		{"stopped", func(ctx context.Context, t *testing.T, pg *pgtest.Server, _ string, _ func(int)) {
			pg.Kill()
			until(ctx, time.Now().Add(away))
			pg.Start(t)
		}},
		{"slow", func(ctx context.Context, _ *testing.T, pg *pgtest.Server, _ string, _ func(int)) {
			for end := time.Now().Add(2 * away); time.Now().Before(end); {
				pg.Pause()
				until(ctx, time.Now().Add(2*time.Second))
				pg.Cont()
				until(ctx, time.Now().Add(50*time.Millisecond))
			}
		}},
		{"full", func(ctx context.Context, t *testing.T, pg *pgtest.Server, db string, resize func(int)) {
			fill(t, pg, db, resize != nil)
			until(ctx, time.Now().Add(away))
			if resize != nil {
				resize(64)
			} else {
				pg.Exec(t, db, "DROP TRIGGER full_disk ON orders")
			}
		}},
	} {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			pg, redis := pgtest.Start(t), redistest.Start(t)
			db := pg.NewDB(t)
			var resize func(int)
			if f.name == "full" {
				var real bool
				if resize, real = pg.SmallDisk(t, "small", 16); real {
					pg.Exec(t, "postgres", "ALTER DATABASE "+db+" SET TABLESPACE small")
				}
			}
			y := newTrial(t, sharedConfig(t, pg.DSN(db), "redis://"+redis.Addr), "redis://"+redis.Addr)
			y.pay = 3*away + 2*time.Second
			y.serve(0)
			y.serve(0)
			var longest atomic.Int64
			var broken, whole time.Time
			v := y.sells(func(ctx context.Context) {
				watching, stop := context.WithCancel(ctx)
				var beside sync.WaitGroup
				beside.Go(func() {
					for until(watching, time.Now().Add(20*time.Millisecond)) {
						n, err := y.redis.Do(watching, y.redis.B().Xlen().Key("fs:{"+y.sale+"}:stream").Build()).AsInt64()
						if err == nil {
							longest.Store(max(longest.Load(), n))
						}
					}
				})
				y.pays()
				broken = time.Now()
				f.breaks(ctx, t, pg, db, resize)
				whole = time.Now()
				until(ctx, whole.Add(time.Second))
				stop()
				beside.Wait()
			})
			if longest.Load() > y.units {
				t.Errorf("%d entries in the stream, and %d units", longest.Load(), y.units)
			}
			if v.unpaid == 0 {
				t.Error("no payment was answered 503")
			}
			if n := v.tally.Lost + v.tally.Rejected; n > 0 {
				t.Errorf("%d of what was granted are lost or rejected", n)
			}
			paid, _ := firstPaid(v, whole)
			t.Logf("away for %v: the longest stream %d of %d units, %d payments told to come again, the first payment %v after, %d checks of the auditor",
				whole.Sub(broken).Round(time.Millisecond), longest.Load(), y.units, v.unpaid, paid.Round(time.Millisecond), v.checks)
			y.ends()
		})
	}
}

// firstPaid is how long after an instant the first payment was taken.
func firstPaid(v *verdict, after time.Time) (time.Duration, bool) {
	first := time.Time{}
	for _, o := range v.seen {
		if o.Action == auditor.Pay && o.Status == http.StatusOK && o.At.After(after) && (first.IsZero() || o.At.Before(first)) {
			first = o.At
		}
	}
	return first.Sub(after), !first.IsZero()
}

// fill fills the disk of a database, or has it answer as if its disk were full.
func fill(t *testing.T, pg *pgtest.Server, db string, real bool) {
	t.Helper()
	if !real {
		pg.Exec(t, db, `CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS
			$$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$`,
			"CREATE TRIGGER full_disk BEFORE INSERT ON orders EXECUTE FUNCTION full_disk()")
		return
	}
	c, err := pgx.Connect(t.Context(), pg.DSN(db))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := c.Exec(t.Context(), "CREATE TABLE filler (x text)"); err != nil {
		t.Fatal(err)
	}
	for n := 1000; n > 0; {
		// In smaller and smaller steps, to the last page.
		if _, err := c.Exec(t.Context(), fmt.Sprintf("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, %d)", n)); err != nil {
			n /= 8
		}
	}
}
