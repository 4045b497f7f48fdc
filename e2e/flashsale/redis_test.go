package flashsale_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	contrib "github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/flashsale/redisinventory"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/inventorytest"
	"github.com/floodweir/weir/flashsale/verify/inventorytest/random"
	"github.com/floodweir/weir/redisstore"
	"github.com/redis/rueidis"
)

// redisPatience is the timeout of a call where the servers have no fault: the machine may be busy.
const redisPatience = 30 * time.Second

// redisClient connects to a URL until the test ends.
func redisClient(t testing.TB, url string) rueidis.Client {
	t.Helper()
	return redisClientWithin(t, url, redisPatience)
}

// redisFaultClient detects a silent server within a second.
func redisFaultClient(t testing.TB, url string) rueidis.Client {
	t.Helper()
	return redisClientWithin(t, url, time.Second)
}

func redisClientWithin(t testing.TB, url string, within time.Duration) rueidis.Client {
	t.Helper()
	a, err := redisstore.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	o := contrib.Options(a)
	o.ConnWriteTimeout = within
	o.Dialer.Timeout = within
	client, err := rueidis.NewClient(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// redisInventory opens an Inventory until the test ends.
func redisInventory(t testing.TB, client rueidis.Client, cfg redisinventory.Config) *redisinventory.Inventory {
	t.Helper()
	if cfg.Deadline == 0 {
		cfg.Deadline = redisPatience
	}
	g, err := redisinventory.New(client, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	return g
}

// redisTopologies runs do with the URLs of a single server, of one with Sentinel, and of a
// cluster.
func redisTopologies(t *testing.T, do func(t *testing.T, url string)) {
	t.Run("standalone", func(t *testing.T) {
		do(t, "redis://"+redistest.Start(t).Addr)
	})
	t.Run("sentinel", func(t *testing.T) {
		primary := redistest.Start(t)
		s := redistest.StartSentinel(t, "shop", primary)
		do(t, "redis+sentinel://"+s.Addr+"/shop")
	})
	t.Run("cluster", func(t *testing.T) {
		do(t, "redis+cluster://"+redistest.StartCluster(t).Addrs())
	})
}

// redisOpener opens Inventories with independent state on the same servers.
func redisOpener(t *testing.T, url string, redeliver time.Duration) inventorytest.Open {
	t.Helper()
	client := redisClient(t, url)
	var n atomic.Int64
	return func(t *testing.T, clock *inventorytest.Clock) sale.Inventory {
		return redisInventory(t, client, redisinventory.Config{
			Prefix: "g" + strconv.FormatInt(n.Add(1), 10) + ":", Redeliver: redeliver, Clock: clock.Now,
		})
	}
}

// redisTerms returns terms of a version.
func redisTerms(version int64) sale.Terms {
	return sale.Terms{Version: version, EndsAt: time.Now().Add(time.Hour).Truncate(time.Millisecond), PerUser: 2, PayWithin: time.Minute}
}

// TestRedisRules runs the conformance suite of Inventory.
func TestRedisRules(t *testing.T) {
	t.Parallel()
	redisTopologies(t, func(t *testing.T, url string) {
		inventorytest.Run(t, redisOpener(t, url, inventorytest.Redeliver))
	})
}

// TestRedisRandom compares the Inventory with the model.
func TestRedisRandom(t *testing.T) {
	t.Parallel()
	redisTopologies(t, func(t *testing.T, url string) {
		random.Run(t, redisOpener(t, url, time.Hour), 1, count(5000, 100_000))
	})
}

// TestRedisRace runs many concurrent buyers of few units.
func TestRedisRace(t *testing.T) {
	t.Parallel()
	redisTopologies(t, func(t *testing.T, url string) {
		inventorytest.Race(t, redisOpener(t, url, time.Hour), count(2, 200))
	})
}

// redisID returns an ID of a ticket or a reservation.
func redisID(kind string, n int) string { return fmt.Sprintf("%s-0000000000-%d", kind, n) }

// redisOpening returns the initial state of a sale that is open for an hour.
func redisOpening(id string, epoch, stock int64) sale.InitialState {
	now := time.Now().Truncate(time.Millisecond)
	return sale.InitialState{Sale: sale.Sale{ID: id, Epoch: epoch, State: sale.Exposed, Draft: sale.Draft{
		SKU: "sku", Title: "title", Stock: stock, PerUser: 1, StartsAt: now.Add(-time.Minute), EndsAt: now.Add(time.Hour),
		Headroom: 3, Queue: sale.Fifo, PayWithin: time.Minute, TokenFor: 30 * time.Second,
	}}}
}

// redisBuy lets a user join, be admitted and reserve.
func redisBuy(g *redisinventory.Inventory, id string, epoch int64, n int) (sale.ReserveResult, error) {
	ctx := context.Background()
	user, ticket := "user "+strconv.Itoa(n), redisID("ticket", n)
	j := sale.JoinRequest{Sale: id, Epoch: epoch, User: user, Ticket: ticket, Batch: "batch", Until: time.Now().Add(30 * time.Second)}
	if _, err := g.Join(ctx, j); err != nil {
		return sale.ReserveResult{}, err
	}
	return g.Reserve(ctx, sale.ReserveRequest{Sale: id, Epoch: epoch, User: user, Ticket: ticket, Reservation: redisID("unit", n)})
}

// TestRedisHolds opens a large state, and one whose last reservations are still in a stream.
func TestRedisHolds(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	g := redisInventory(t, redisClient(t, "redis://"+server.Addr), redisinventory.Config{})
	n := count(20_000, 100_000)
	o := redisOpening("big", 3, int64(n)+10)
	for i := range n {
		r := sale.Reservation{ID: redisID("unit", i), Sale: "big", Epoch: 2, User: "user " + strconv.Itoa(i), Slot: 1,
			Ticket: redisID("ticket", i), Key: "key", At: o.Sale.StartsAt, PayBy: o.Sale.EndsAt}
		if i < n-7 {
			o.Reserved = append(o.Reserved, r)
		} else {
			o.Pending = append(o.Pending, r)
		}
	}
	began := time.Now()
	if err := g.Open(ctx, o); err != nil {
		t.Fatal(err)
	}
	t.Logf("opened with %d reservations in %v", n, time.Since(began))
	c, err := g.Counts(ctx, "big", 3)
	if err != nil || c.Free != 10 || c.Reserved != int64(n) || c.Backlog != 7 {
		t.Fatalf("Counts = %+v, %v, want 10 free, %d reserved and 7 in the stream", c, err, n)
	}
	if got := server.Do(t, "DBSIZE"); got != int64(8) {
		t.Errorf("%v keys, want the 8 of the sale", got)
	}
	for _, part := range []string{"state", "users", "line", "out", "res", "done", "stream", "seen"} {
		ttl, _ := server.Do(t, "PTTL", "fs:{big}:"+part).(int64)
		if day := 24 * time.Hour.Milliseconds(); ttl < 7*day || ttl > 8*day {
			t.Errorf("%s expires in %v ms, want some days", part, ttl)
		}
	}
	es, err := g.Next(ctx, "big", 3, "worker", 100, 0)
	if err != nil || len(es) != 7 || es[0].Reservation.Epoch != 2 || es[0].Reservation.ID != o.Pending[0].ID {
		t.Fatalf("Next = %v, %v, want the 7, unchanged", es, err)
	}
	out, err := g.Reserve(ctx, sale.ReserveRequest{Sale: "big", Epoch: 3, User: "user 5", Ticket: redisID("other", 5), Key: "key", Reservation: redisID("new", 5)})
	if err != nil || !out.Repeated || out.Reservation.ID != redisID("unit", 5) {
		t.Errorf("Reserve with the previous key = %+v, %v, want its reservation", out, err)
	}
}

// TestRedisDamage deletes or replaces each key of a state: the state is stale, never empty, and
// can be opened again.
func TestRedisDamage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	client := redisClient(t, "redis://"+server.Addr)
	epoch := int64(0)
	for _, how := range []string{"DEL", "SET"} {
		for _, part := range []string{"state", "users", "line", "out", "res", "done", "stream", "seen"} {
			epoch++
			// Each method detects the damage in its first call in a process.
			open := redisInventory(t, client, redisinventory.Config{Watch: time.Hour})
			if err := open.Open(ctx, redisOpening("s", epoch, 10)); err != nil {
				t.Fatal(err)
			}
			if out, err := redisBuy(open, "s", epoch, 1); err != nil || out.Reason != "" {
				t.Fatal(out, err)
			}
			if how == "DEL" {
				server.Do(t, "DEL", "fs:{s}:"+part)
			} else {
				server.Do(t, "SET", "fs:{s}:"+part, "x")
			}
			for name, call := range map[string]func(*redisinventory.Inventory) error{
				"Join": func(g *redisinventory.Inventory) error {
					_, err := g.Join(ctx, sale.JoinRequest{Sale: "s", Epoch: epoch, User: "u", Ticket: redisID("ticket", 2)})
					return err
				},
				"Look":  func(g *redisinventory.Inventory) error { _, err := g.Status(ctx, "s", epoch, "user 1"); return err },
				"Count": func(g *redisinventory.Inventory) error { _, err := g.Counts(ctx, "s", epoch); return err },
				"Poll": func(g *redisinventory.Inventory) error {
					_, err := g.Poll(ctx, sale.PollRequest{Sale: "s", Epoch: epoch, User: "user 1"})
					return err
				},
				"Reserve": func(g *redisinventory.Inventory) error {
					_, err := g.Reserve(ctx, sale.ReserveRequest{Sale: "s", Epoch: epoch, User: "u", Ticket: redisID("ticket", 2), Reservation: redisID("unit", 2)})
					return err
				},
				"Return": func(g *redisinventory.Inventory) error {
					_, err := g.Return(ctx, "s", epoch, "user 1", redisID("unit", 1), true)
					return err
				},
				"SetStock":  func(g *redisinventory.Inventory) error { return g.SetStock(ctx, "s", epoch, 100) },
				"SetTerms":  func(g *redisinventory.Inventory) error { return g.SetTerms(ctx, "s", epoch, redisTerms(9)) },
				"SetPaid":   func(g *redisinventory.Inventory) error { return g.SetPaid(ctx, "s", epoch, 1) },
				"SetPaused": func(g *redisinventory.Inventory) error { return g.SetPaused(ctx, "s", epoch, true) },
			} {
				if how == "SET" && (name != "Count" && name != "Look") {
					continue // a key of another type is detected where it is used
				}
				if how == "SET" && part != "state" && part != "users" {
					continue
				}
				if err := call(redisInventory(t, client, redisinventory.Config{Watch: time.Hour})); !errors.Is(err, sale.ErrStale) && !(how == "SET" && part == "users" && name == "Count") {
					t.Errorf("%s after %s of %s = %v, want ErrStale", name, how, part, err)
				}
			}
			es, err := open.Next(ctx, "s", epoch, "worker", 10, 0)
			if part == "stream" {
				if !errors.Is(err, sale.ErrStale) {
					t.Errorf("Next after %s of stream = %v, %v, want ErrStale", how, es, err)
				}
			} else if err != nil || len(es) != 1 {
				t.Errorf("Next after %s of %s = %v, %v, want the reservation", how, part, es, err)
			} else if err := open.Ack(ctx, "s", epoch, es[0].ID); err != nil {
				t.Errorf("Ack after %s of %s = %v", how, part, err)
			}
		}
	}
}

// TestRedisStreamDamage adds entries to the stream that are not reservations.
func TestRedisStreamDamage(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	g := redisInventory(t, redisClient(t, "redis://"+server.Addr), redisinventory.Config{})
	if err := g.Open(ctx, redisOpening("s", 1, 10)); err != nil {
		t.Fatal(err)
	}
	id := redisID("unit", 1)
	good := id + " h 1 1700000000000 1700000060000 1 user " + redisID("ticket", 1) + " "
	bad := [][]any{
		{"x", "y"}, {"r", good, "s", "t"}, {"r", ""}, {"r", id}, {"r", strings.Replace(good, " h ", " x ", 1)},
		{"r", good + " "}, {"r", strings.Replace(good, "user", "us%zzer", 1)}, {"r", strings.Replace(good, "user", "user%2", 1)},
		{"r", strings.Replace(good, "user", "", 1)}, {"r", strings.Replace(good, "1 1700000000000", "0 1700000000000", 1)},
		{"r", strings.Replace(good, "1700000000000", "-1", 1)}, {"r", strings.Replace(good, "1700000000000", "99999999999999999999", 1)},
		{"r", "short" + good[len(id):]}, {"r", strings.Repeat("x", 100_000)}, {"r", id + " " + strings.Repeat("%41", 200)},
		{"r", strings.Replace(good, "1 1700000000000", "9223372036854775807 1700000000000", 1)}, {"\x00\xff", "\xff"},
	}
	for _, fields := range bad {
		server.Do(t, append([]any{"XADD", "fs:{s}:stream", "*"}, fields...)...)
	}
	server.Do(t, "XADD", "fs:{s}:stream", "*", "r", good)
	es, err := g.Next(ctx, "s", 1, "worker", 100, 0)
	if err != nil || len(es) != len(bad)+1 {
		t.Fatalf("Next = %d entries, %v, want %d", len(es), err, len(bad)+1)
	}
	for i, e := range es[:len(bad)] {
		if e.Corrupt == "" || len(e.Corrupt) > 400 || e.Reservation.ID != "" {
			t.Errorf("entry of %.60q is %+v, want Damaged", bad[i], e)
		}
	}
	if last := es[len(bad)]; last.Corrupt != "" || last.Reservation.ID != id || last.Reservation.User != "user" {
		t.Errorf("the valid entry is %+v", last)
	}
	var ids []string
	for _, e := range es {
		ids = append(ids, e.ID)
	}
	if err := g.Ack(ctx, "s", 1, ids...); err != nil {
		t.Fatal(err)
	}
	// An invalid entry ID is in no stream.
	if err := g.Ack(ctx, "s", 1, "", "-", "1", "1-", "-1", "1-1-1", "*", "$", "+1-1", "x-y", "0-0 0-0", "99999999999999999999-1"); err != nil {
		t.Error(err)
	}
	if c, err := g.Counts(ctx, "s", 1); err != nil || c.Backlog != 0 {
		t.Errorf("Counts = %+v, %v, want no backlog", c, err)
	}
}

// TestRedisEvicts refuses a server that may evict keys.
func TestRedisEvicts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "maxmemory 50mb", "maxmemory-policy volatile-lru")
	g := redisInventory(t, redisClient(t, "redis://"+server.Addr), redisinventory.Config{})
	if err := g.Open(context.Background(), redisOpening("s", 1, 10)); !errors.Is(err, redisinventory.ErrEvicts) {
		t.Errorf("Open = %v, want ErrEvicts", err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "noeviction")
	if err := g.Open(context.Background(), redisOpening("s", 1, 10)); err != nil {
		t.Error(err)
	}
}

// TestRedisOOM fills the memory: calls fail completely with ErrUnavailable, and succeed later.
func TestRedisOOM(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	g := redisInventory(t, redisClient(t, "redis://"+server.Addr), redisinventory.Config{})
	if err := g.Open(ctx, redisOpening("s", 1, 10)); err != nil {
		t.Fatal(err)
	}
	if out, err := redisBuy(g, "s", 1, 1); err != nil || out.Reason != "" {
		t.Fatal(out, err)
	}
	g.Join(ctx, sale.JoinRequest{Sale: "s", Epoch: 1, User: "user 2", Ticket: redisID("ticket", 2)})
	g.Join(ctx, sale.JoinRequest{Sale: "s", Epoch: 1, User: "user 3", Ticket: redisID("ticket", 3)})
	was, err := g.Counts(ctx, "s", 1)
	if err != nil {
		t.Fatal(err)
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	_, err1 := g.Join(ctx, sale.JoinRequest{Sale: "s", Epoch: 1, User: "user 4", Ticket: redisID("ticket", 4)})
	_, err2 := g.Poll(ctx, sale.PollRequest{Sale: "s", Epoch: 1, User: "user 3"})
	_, err3 := g.Reserve(ctx, sale.ReserveRequest{Sale: "s", Epoch: 1, User: "user 2", Ticket: redisID("ticket", 2), Reservation: redisID("unit", 2)})
	_, err4 := g.Return(ctx, "s", 1, "user 1", redisID("unit", 1), true)
	for i, err := range []error{err1, err2, err3, err4} {
		if !errors.Is(err, sale.ErrUnavailable) {
			t.Errorf("call %d without memory = %v, want ErrUnavailable", i, err)
		}
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	now, err := g.Counts(ctx, "s", 1)
	was.Now, now.Now = time.Time{}, time.Time{}
	if err != nil || now != was {
		t.Errorf("Counts = %+v, %v, want %+v as before", now, err, was)
	}
	if out, err := g.Reserve(ctx, sale.ReserveRequest{Sale: "s", Epoch: 1, User: "user 2", Ticket: redisID("ticket", 2), Reservation: redisID("unit", 2)}); err != nil || out.Reason != "" {
		t.Errorf("Reserve with memory again = %+v, %v", out, err)
	}
}
