package flashsale_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/jackc/pgx/v5"
)

// A brokenDatabase is a PostgreSQL with a fault.
type brokenDatabase struct {
	*pgtest.Server
	t        *testing.T
	db       string
	resize   func(megabytes int) // of its disk; nil if that is not possible
	away     time.Duration       // approximate duration of the fault
	onBroken func()              // called when the fault begins
	repaired time.Time           // just before the repair
	stream   func() int64        // returns the length of the stream of the sale
	left     int64               // in the stream just before the repair
}

// waitBroken waits while the database is broken, and until the stream has an entry: customers are
// slow on a busy machine.
func (d *brokenDatabase) waitBroken(ctx context.Context) {
	began := time.Now()
	for at := began.Add(d.away); until(ctx, at); at = time.Now().Add(20 * time.Millisecond) {
		if d.left = d.stream(); d.left > 0 || time.Since(began) > d.away+30*time.Second {
			break
		}
	}
	d.repaired = time.Now()
}

// A databaseFault breaks a database and repairs it. It returns the time until which the database
// did nothing, or zero.
type databaseFault struct {
	name   string
	silent bool // a transaction may take longer than a customer waits for a response
	breaks func(ctx context.Context, d *brokenDatabase) (nothing time.Time)
}

func databaseFaults() []databaseFault {
	return []databaseFault{
		{"stopped", false, func(ctx context.Context, d *brokenDatabase) time.Time {
			d.Kill()
			d.onBroken()
			d.waitBroken(ctx)
			d.Start(d.t)
			return d.repaired
		}},
		{"slow", true, func(ctx context.Context, d *brokenDatabase) (nothing time.Time) {
			for end := time.Now().Add(2 * d.away); time.Now().Before(end); {
				d.Pause()
				if nothing.IsZero() {
					d.onBroken()
				}
				until(ctx, time.Now().Add(2*time.Second))
				if nothing.IsZero() {
					nothing = time.Now()
				}
				d.Cont()
				d.repaired = time.Now()
				until(ctx, d.repaired.Add(50*time.Millisecond))
			}
			return nothing
		}},
		{"full", false, func(ctx context.Context, d *brokenDatabase) time.Time {
			fill(d.t, d.Server, d.db, d.resize != nil)
			d.onBroken()
			d.waitBroken(ctx)
			if d.resize != nil {
				d.resize(64)
			} else {
				d.Exec(d.t, d.db, "DROP TRIGGER full_disk ON orders")
			}
			return time.Time{}
		}},
	}
}

// TestFaultsOfDatabase stops, slows down and fills the PostgreSQL of two processes in the middle
// of a sale. Every granted unit becomes an order, the stream has at most one entry per unit, and
// refused payments have Retry-After. Three customers hold a written order when the fault begins:
// two pay during it, one after it.
func TestFaultsOfDatabase(t *testing.T) {
	t.Parallel()
	for _, f := range databaseFaults() {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			pg, redis := pgtest.Start(t), redistest.Start(t)
			d := &brokenDatabase{Server: pg, t: t, db: pg.NewDB(t), away: 3 * time.Second}
			if long() {
				d.away = 30 * time.Second
			}
			if f.name == "full" {
				resize, real := pg.SmallDisk(t, "small", 16)
				if real {
					d.resize = resize
					pg.Exec(t, "postgres", "ALTER DATABASE "+d.db+" SET TABLESPACE small")
				}
			}
			y := newTrial(t, sharedConfig(t, pg.DSN(d.db), "redis://"+redis.Addr), "redis://"+redis.Addr)
			y.pay = 3*d.away + 40*time.Second
			d.stream = func() int64 {
				n, _ := y.redis.Do(t.Context(), y.redis.B().Xlen().Key("fs:{"+y.sale+"}:stream").Build()).AsInt64()
				return n
			}
			y.late = y.customers - int(y.units)/2 // half of the units are left when the fault begins
			y.holds = []*heldPayment{newHeldPayment(), newHeldPayment(), newHeldPayment()}
			during, after := y.holds[:2], y.holds[2]
			d.onBroken = func() {
				for _, h := range during {
					close(h.release)
				}
				close(y.begun)
			}
			y.serve(0)
			y.serve(0)
			var s streamWatch
			var broken, nothing, whole time.Time
			v := y.run(func(ctx context.Context) {
				stop := s.watch(ctx, y)
				for _, h := range y.holds {
					if err := closed(ctx, h.written); err != nil {
						t.Errorf("an order was not written: %v", err)
					}
				}
				y.awaitPayment()
				broken = time.Now()
				nothing = f.breaks(ctx, d)
				whole = time.Now()
				close(after.release)
				until(ctx, whole.Add(time.Second))
				stop()
			})
			if s.longest > y.units {
				t.Errorf("%d entries in the stream, want at most %d", s.longest, y.units)
			}
			if !f.silent && d.left == 0 {
				t.Error("all orders were written before the repair")
			}
			for i, h := range y.holds {
				if v.ends[i] != "paid" {
					t.Errorf("customer %d: its order is %s", i, v.ends[i])
				}
				h.check(t, nothing, f.silent)
			}
			if f.name == "stopped" {
				for i, h := range during {
					if h.unavailable() == 0 {
						t.Errorf("customer %d: no payment returned 503: %v", i, h.answers)
					}
				}
			}
			if n := v.tally.Lost + v.tally.Rejected; n > 0 {
				t.Errorf("%d granted reservations are lost or rejected", n)
			}
			paid, any := firstPaid(v, whole)
			if !any {
				t.Error("no payment after the repair")
			}
			t.Logf("broken for %v: the longest stream %d of %d units, %d payments refused, %d and %d of two held orders, the first payment %v after the repair, %d checks of the auditor",
				whole.Sub(broken).Round(time.Millisecond), s.longest, y.units, v.unpaid, during[0].unavailable(), during[1].unavailable(), paid.Round(time.Millisecond), v.checks)
			y.stop()
		})
	}
}

// check checks the responses to a payment: only the last one accepts it, after the database
// works again. The earlier ones have Retry-After; they may be missing if the database is silent.
func (h *heldPayment) check(t *testing.T, nothing time.Time, silent bool) {
	t.Helper()
	for i, a := range h.answers {
		last := i == len(h.answers)-1
		switch {
		case a.status == http.StatusOK && a.state == "paid" && last && a.at.After(nothing):
		case a.status == http.StatusServiceUnavailable && a.again && !last:
		case a.status == 0 && silent && !last:
		default:
			t.Errorf("response %d of %d to a payment is %v; the database did nothing until %s", i+1, len(h.answers), a, nothing.Format(time.StampMilli))
		}
	}
}

// unavailable returns the number of refused payments.
func (h *heldPayment) unavailable() (n int) {
	for _, a := range h.answers {
		if a.status == http.StatusServiceUnavailable {
			n++
		}
	}
	return n
}

// A streamWatch records the length of a sale's stream.
type streamWatch struct {
	longest int64
}

// watch polls until stop is called.
func (s *streamWatch) watch(ctx context.Context, y *trial) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() {
		for until(ctx, time.Now().Add(20*time.Millisecond)) {
			n, err := y.redis.Do(ctx, y.redis.B().Xlen().Key("fs:{"+y.sale+"}:stream").Build()).AsInt64()
			if err == nil {
				s.longest = max(s.longest, n)
			}
		}
	})
	return func() { cancel(); beside.Wait() }
}

// firstPaid returns how long after an instant the first payment was accepted.
func firstPaid(v *trialResult, after time.Time) (time.Duration, bool) {
	first := time.Time{}
	for _, o := range v.seen {
		if o.Action == calllog.Pay && o.Status == http.StatusOK && o.At.After(after) && (first.IsZero() || o.At.Before(first)) {
			first = o.At
		}
	}
	return first.Sub(after), !first.IsZero()
}

// fill fills the disk of a database, or makes it respond as if its disk were full.
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
		// In decreasing steps, to the last page.
		if _, err := c.Exec(t.Context(), fmt.Sprintf("INSERT INTO filler SELECT repeat('x', 1000) FROM generate_series(1, %d)", n)); err != nil {
			n /= 8
		}
	}
}
