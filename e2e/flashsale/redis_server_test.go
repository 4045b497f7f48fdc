package flashsale_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/redisinventory"
	"github.com/floodweir/weir/flashsale/sale"
)

// redisAdmitted opens a sale of 10 units and admits a user.
func redisAdmitted(t *testing.T, g *redisinventory.Inventory, id string, epoch int64) sale.ReserveRequest {
	t.Helper()
	ctx := context.Background()
	if err := g.Open(ctx, redisOpening(id, epoch, 10)); err != nil {
		t.Fatal(err)
	}
	j := sale.JoinRequest{Sale: id, Epoch: epoch, User: "u", Ticket: redisID("ticket", 1), Batch: "b", Until: time.Now().Add(time.Minute)}
	if st, err := g.Join(ctx, j); st.State != sale.Admitted || err != nil {
		t.Fatal(st, err)
	}
	return sale.ReserveRequest{Sale: id, Epoch: epoch, User: "u", Ticket: redisID("ticket", 1), Reservation: redisID("unit", 1)}
}

// TestRedisOtherServer gives the server another replication ID, as a promotion does. The next
// reservation is refused, other processes detect it, and a new epoch repairs it.
func TestRedisOtherServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t, "enable-debug-command yes")
	client := redisClient(t, "redis://"+server.Addr)
	unwatched := redisinventory.Config{Watch: time.Hour}
	calls := map[string]func(*redisinventory.Inventory, sale.ReserveRequest) error{
		"Reserve": func(g *redisinventory.Inventory, a sale.ReserveRequest) error {
			_, err := g.Reserve(ctx, a)
			return err
		},
		"Count": func(g *redisinventory.Inventory, a sale.ReserveRequest) error {
			_, err := g.Counts(ctx, a.Sale, a.Epoch)
			return err
		},
		"Poll": func(g *redisinventory.Inventory, a sale.ReserveRequest) error {
			_, err := g.Poll(ctx, sale.PollRequest{Sale: a.Sale, Epoch: a.Epoch, User: a.User, Reservation: a.Reservation})
			return err
		},
		"Return": func(g *redisinventory.Inventory, a sale.ReserveRequest) error {
			_, err := g.Return(ctx, a.Sale, a.Epoch, "u", redisID("unit", 1), true)
			return err
		},
		"SetStock": func(g *redisinventory.Inventory, a sale.ReserveRequest) error {
			return g.SetStock(ctx, a.Sale, a.Epoch, 20)
		},
		"SetTerms": func(g *redisinventory.Inventory, a sale.ReserveRequest) error {
			return g.SetTerms(ctx, a.Sale, a.Epoch, redisTerms(9))
		},
		"SetPaid": func(g *redisinventory.Inventory, a sale.ReserveRequest) error {
			return g.SetPaid(ctx, a.Sale, a.Epoch, 1)
		},
		"Open": func(g *redisinventory.Inventory, a sale.ReserveRequest) error {
			return g.Open(ctx, redisOpening(a.Sale, a.Epoch, 10))
		},
	}
	epoch := int64(0)
	for name, call := range calls {
		epoch++
		g, other := redisInventory(t, client, unwatched), redisInventory(t, client, unwatched)
		ask := redisAdmitted(t, g, "s", epoch)
		if _, err := other.Status(ctx, "s", epoch, "u"); err != nil {
			t.Fatal(err)
		}
		server.Do(t, "DEBUG", "CHANGE-REPL-ID")
		if err := call(g, ask); !errors.Is(err, sale.ErrStale) {
			t.Errorf("%s on another server = %v, want ErrStale", name, err)
		}
		if _, err := other.Status(ctx, "s", epoch, "u"); !errors.Is(err, sale.ErrStale) {
			t.Errorf("Status in another process after %s = %v, want ErrStale", name, err)
		}
		// A previous state, as on a primary that returns, is still stale.
		server.Do(t, "HSET", "fs:{s}:state", "closed", "0")
		if _, err := g.Status(ctx, "s", epoch, "u"); !errors.Is(err, sale.ErrStale) {
			t.Errorf("Status after %s with the previous state = %v, want ErrStale", name, err)
		}
	}
}

// TestRedisWatch detects another server without a call.
func TestRedisWatch(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t, "enable-debug-command yes")
	g := redisInventory(t, redisClient(t, "redis://"+server.Addr), redisinventory.Config{Watch: 20 * time.Millisecond})
	redisAdmitted(t, g, "s", 1)
	server.Do(t, "DEBUG", "CHANGE-REPL-ID")
	redistest.Await(t, "the state is closed", func() error {
		if v := server.Do(t, "HGET", "fs:{s}:state", "why"); v != "server" {
			return fmt.Errorf("closed because of %v", v)
		}
		return nil
	})
	if _, err := g.Status(ctx, "s", 1, "u"); !errors.Is(err, sale.ErrStale) {
		t.Errorf("Status = %v, want ErrStale", err)
	}
}

// TestRedisLostReply loses the reply to a reservation: a repeated call with the ticket returns
// it, and only one unit is taken.
func TestRedisLostReply(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	client := redisClient(t, "redis://"+proxy.Addr)
	g := redisInventory(t, client, redisinventory.Config{Watch: time.Hour})
	ask := redisAdmitted(t, g, "s", 1)
	early := ask
	early.Ticket = redisID("ticket", 2)
	if out, err := g.Reserve(ctx, early); err != nil || out.Reason != sale.NotAdmitted { // loads the script
		t.Fatal(out, err)
	}
	proxy.Set(redistest.CutReply)
	if out, err := g.Reserve(ctx, ask); !errors.Is(err, sale.ErrUnavailable) {
		t.Fatalf("Reserve with a lost reply = %+v, %v, want ErrUnavailable", out, err)
	}
	again := ask
	again.Reservation = redisID("unit", 2)
	var out sale.ReserveResult
	redistest.Await(t, "there is a connection again", func() (err error) {
		out, err = g.Reserve(ctx, again)
		return err
	})
	if !out.Repeated || out.Reservation.ID != ask.Reservation {
		t.Errorf("Reserve again = %+v, want the first reservation", out)
	}
	if c, err := g.Counts(ctx, "s", 1); err != nil || c.Free != 9 || c.Backlog != 1 {
		t.Errorf("Counts = %+v, %v, want 9 free and one entry", c, err)
	}
	// A silent server costs only the deadline, or the timeout of a new connection.
	g = redisInventory(t, redisFaultClient(t, "redis://"+proxy.Addr), redisinventory.Config{Watch: time.Hour, Deadline: 500 * time.Millisecond})
	proxy.Set(redistest.DropReplies)
	defer proxy.Set(redistest.NoFault) // the clients need not wait for the replies to close
	began := time.Now()
	if _, err := g.Status(ctx, "s", 1, "u"); !errors.Is(err, sale.ErrUnavailable) || time.Since(began) > within(5*time.Second) {
		t.Errorf("Status without a reply = %v after %v, want ErrUnavailable after half a second", err, time.Since(began))
	}
}

// TestRedisMaxTickets fills a sale with a maximum of three users and three reservations. A user
// who joins repeatedly counts once.
func TestRedisMaxTickets(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	g := redisInventory(t, redisClient(t, "redis://"+redistest.Start(t).Addr), redisinventory.Config{MaxTickets: 3})
	if err := g.Open(ctx, redisOpening("s", 1, 10)); err != nil {
		t.Fatal(err)
	}
	n := 0
	join := func(user string, want sale.Reason) string {
		t.Helper()
		n++
		j := sale.JoinRequest{Sale: "s", Epoch: 1, User: user, Ticket: redisID("ticket", n), Batch: "b", Until: time.Now().Add(time.Minute)}
		if user == "passes" {
			j.Until = time.Now() // at once
		}
		if st, err := g.Join(ctx, j); err != nil || st.Reason != want {
			t.Fatalf("Join %d of %s = %+v, %v, want reason %q", n, user, st, err, want)
		}
		return j.Ticket
	}
	buy := func(user string) {
		t.Helper()
		a := sale.ReserveRequest{Sale: "s", Epoch: 1, User: user, Ticket: join(user, sale.OK), Reservation: redisID("unit", n)}
		if o, err := g.Reserve(ctx, a); err != nil || o.Reason != sale.OK {
			t.Fatalf("Reserve of %s = %+v, %v", user, o, err)
		}
		if yes, err := g.Return(ctx, "s", 1, user, a.Reservation, true); err != nil || !yes {
			t.Fatalf("Return of %s = %v, %v", user, yes, err)
		}
	}
	for range 10 {
		join("passes", sale.OK)
	}
	buy("bob")
	first := redisID("unit", n)
	buy("eve")
	join("fay", sale.QueueFull)
	again := sale.ReserveRequest{Sale: "s", Epoch: 1, User: "bob", Ticket: join("bob", sale.OK), Reservation: first}
	if o, err := g.Reserve(ctx, again); !errors.Is(err, sale.ErrInvalid) {
		t.Fatalf("Reserve with a used ID = %+v, %v, want ErrInvalid", o, err)
	}
	if c, err := g.Counts(ctx, "s", 1); err != nil || c.Free != 10 || c.Outstanding != 1 {
		t.Fatalf("Counts = %+v, %v, want 10 free and one token", c, err)
	}
	again.Reservation = redisID("unit", n)
	if o, err := g.Reserve(ctx, again); err != nil || o.Reason != sale.OK {
		t.Fatalf("Reserve = %+v, %v", o, err)
	}
	if yes, err := g.Return(ctx, "s", 1, "bob", again.Reservation, true); err != nil || !yes {
		t.Fatalf("Return = %v, %v", yes, err)
	}
	join("passes", sale.QueueFull)
	join("bob", sale.QueueFull)
}

// TestRedisAccess runs all methods with the commands that the package documents.
func TestRedisAccess(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	rules := []any{"ACL", "SETUSER", "shop", "on", ">word", "~fs:*"}
	for c := range strings.FieldsSeq(`eval evalsha time info exists unlink rename pexpire hset hsetnx hget hmget hlen hexists
		zadd zrem zcard zcount zrank zscore zrangebyscore xadd xlen xreadgroup xautoclaim xpending xack xdel xgroup
		hello ping client`) {
		rules = append(rules, "+"+c)
	}
	server.Do(t, rules...)
	g := redisInventory(t, redisClient(t, "redis://shop:word@"+server.Addr), redisinventory.Config{Redeliver: 10 * time.Millisecond, Watch: 10 * time.Millisecond})
	o := redisOpening("s", 1, 10)
	o.Pending = []sale.Reservation{{ID: redisID("unit", 5), Sale: "s", Epoch: 1, User: "v", Slot: 1, Ticket: redisID("ticket", 5), At: o.Sale.StartsAt, PayBy: o.Sale.EndsAt}}
	if err := g.Open(ctx, o); err != nil {
		t.Fatal(err)
	}
	if out, err := redisBuy(g, "s", 1, 1); err != nil || out.Reason != sale.OK {
		t.Fatal(out, err)
	}
	var es []sale.Entry
	redistest.Await(t, "entries are delivered again", func() (err error) {
		if es, err = g.Next(ctx, "s", 1, "worker", 10, 20*time.Millisecond); err == nil && (len(es) != 2 || es[0].Deliveries < 2) {
			err = fmt.Errorf("entries %v", es)
		}
		return err
	})
	if back, err := g.Return(ctx, "s", 1, "user 1", redisID("unit", 1), true); !back || err != nil {
		t.Errorf("Return = %v, %v", back, err)
	}
	for name, err := range map[string]error{
		"Done": g.Ack(ctx, "s", 1, es[0].ID, es[1].ID), "SetStock": g.SetStock(ctx, "s", 1, 20),
		"SetTerms": g.SetTerms(ctx, "s", 1, redisTerms(9)), "SetPaid": g.SetPaid(ctx, "s", 1, 2), "SetPaused": g.SetPaused(ctx, "s", 1, true), "Close": g.Close(ctx, "s", 1), "Drop": g.Delete(ctx, "s", 1),
	} {
		if err != nil {
			t.Errorf("%s = %v", name, err)
		}
	}
}

// BenchmarkRedis measures calls of 64 goroutines to a local server, and the server's own time per
// call.
//
//	go test -run '^$' -bench Redis ./flashsale
func BenchmarkRedis(b *testing.B) {
	ctx := context.Background()
	server := redistest.Start(b)
	g := redisInventory(b, redisClient(b, "redis://"+server.Addr), redisinventory.Config{})
	epoch := int64(0)
	open := func(b *testing.B, stock int64) {
		epoch++
		server.Do(b, "FLUSHALL")
		if err := g.Open(ctx, redisOpening("s", epoch, stock)); err != nil {
			b.Fatal(err)
		}
	}
	admit := func(b *testing.B, n int) {
		redisEach(b, n, func(i int) error {
			_, err := g.Join(ctx, sale.JoinRequest{Sale: "s", Epoch: epoch, User: redisID("user", i), Ticket: redisID("ticket", i),
				Batch: "b", Until: time.Now().Add(10 * time.Minute)})
			return err
		})
	}
	reserve := func(i int, want sale.Reason) error {
		out, err := g.Reserve(ctx, sale.ReserveRequest{Sale: "s", Epoch: epoch, User: redisID("user", i), Ticket: redisID("ticket", i), Key: "key", Reservation: redisID("unit", i)})
		if err == nil && out.Reason != want {
			err = fmt.Errorf("Reserve = %+v, want the reason %q", out, want)
		}
		return err
	}
	const n = 20_000
	for name, run := range map[string]func(b *testing.B) (do func(i int) error){
		"Join": func(b *testing.B) func(i int) error {
			open(b, 1)
			return func(i int) error {
				_, err := g.Join(ctx, sale.JoinRequest{Sale: "s", Epoch: epoch, User: redisID("user", i), Ticket: redisID("ticket", i)})
				return err
			}
		},
		"Look": func(b *testing.B) func(i int) error {
			open(b, 1)
			admit(b, n)
			return func(i int) error { _, err := g.Status(ctx, "s", epoch, redisID("user", i)); return err }
		},
		"Reserve": func(b *testing.B) func(i int) error {
			open(b, n)
			admit(b, n)
			return func(i int) error { return reserve(i, sale.OK) }
		},
		"SoldOut": func(b *testing.B) func(i int) error {
			open(b, 0)
			admit(b, n)
			return func(i int) error { return reserve(i, sale.IsAllTaken) }
		},
		"Poll": func(b *testing.B) func(i int) error {
			open(b, 0)
			redisEach(b, n, func(i int) error {
				_, err := g.Join(ctx, sale.JoinRequest{Sale: "s", Epoch: epoch, User: redisID("user", i), Ticket: redisID("ticket", i)})
				return err
			})
			return func(i int) error {
				_, err := g.Poll(ctx, sale.PollRequest{Sale: "s", Epoch: epoch, User: redisID("user", i), Reservation: redisID("unit", i)})
				return err
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				do := run(b)
				server.Do(b, "CONFIG", "RESETSTAT")
				b.StartTimer()
				began := time.Now()
				redisEach(b, n, do)
				b.ReportMetric(float64(n)/time.Since(began).Seconds(), "calls/s")
				_, stats, _ := strings.Cut(server.Do(b, "INFO", "commandstats").(string), "cmdstat_evalsha:")
				_, stats, _ = strings.Cut(stats, "usec_per_call=")
				stats, _, _ = strings.Cut(stats, ",")
				var us float64
				fmt.Sscan(stats, &us)
				b.ReportMetric(us, "redis-us/call")
			}
		})
	}
}

// redisEach calls do with 0 to n - 1 from 64 goroutines.
func redisEach(b *testing.B, n int, do func(i int) error) {
	errs := make(chan error, 64)
	for w := range 64 {
		go func() {
			var first error
			for i := w; i < n; i += 64 {
				if err := do(i); err != nil && first == nil {
					first = err
				}
			}
			errs <- first
		}()
	}
	for range 64 {
		if err := <-errs; err != nil {
			b.Fatal(err)
		}
	}
}

// TestRedisWarnings asks a server without an append-only file, and one with it.
func TestRedisWarnings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		appendonly string
		want       int
	}{{"no", 1}, {"yes", 0}} {
		server := redistest.Start(t, "appendonly "+c.appendonly)
		got, err := redisinventory.Warnings(t.Context(), redisClient(t, "redis://"+server.Addr))
		if err != nil || len(got) != c.want || c.want == 1 && !strings.Contains(got[0], server.Addr+": appendonly is no") {
			t.Errorf("appendonly %s: %q, %v, want %d", c.appendonly, got, err, c.want)
		}
	}
}
