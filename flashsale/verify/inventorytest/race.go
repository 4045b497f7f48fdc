package inventorytest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Race runs 1,000 buyers concurrently against an Inventory. Each round has another stock between
// 1 and 1,000 and another limit per user, with duplicate clicks and returned units. Afterwards
// the stock is sold out exactly, no user is above the limit, and each reservation has one entry.
func Race(t *testing.T, open Open, rounds int) {
	t.Helper()
	clock := NewClock()
	inventory := open(t, clock)
	for i := range rounds {
		r := &race{t: t, inventory: inventory, clock: clock, id: fmt.Sprintf("race%d", i), perUser: 1 + i%3}
		r.stock = 1 + int64(i*i*37%1000)
		switch i {
		case 0:
			r.stock = 1
		case 1:
			r.stock = 1000
		}
		r.run()
		if t.Failed() {
			t.Fatalf("round %d of %d: stock %d, %d per user", i, rounds, r.stock, r.perUser)
		}
	}
}

const buyerCount = 1000

type race struct {
	t         *testing.T
	inventory sale.Inventory
	clock     *Clock
	id        string
	stock     int64
	perUser   int

	mu       sync.Mutex
	got      map[string]sale.Reservation // by ID, as first acknowledged
	returned map[string]bool
	entries  map[string]int
}

func (r *race) run() {
	ctx, t := context.Background(), r.t
	r.got, r.returned, r.entries = make(map[string]sale.Reservation), make(map[string]bool), make(map[string]int)
	now := r.clock.Now()
	s := sale.Sale{ID: r.id, Epoch: 1, State: sale.Exposed, Draft: sale.Draft{
		Stock: r.stock, PerUser: r.perUser, Queue: sale.Direct, StartsAt: now, EndsAt: now.Add(time.Hour),
		PayWithin: time.Minute, TokenFor: time.Minute,
	}}
	if err := r.inventory.Open(ctx, sale.InitialState{Sale: s}); err != nil {
		t.Fatal(err)
	}
	var buyers, workers sync.WaitGroup
	over, stop := context.WithCancel(ctx)
	for i := range 2 {
		workers.Go(func() { r.worker(over, fmt.Sprintf("worker-%d", i)) })
	}
	start := make(chan struct{})
	for i := range buyerCount {
		buyers.Go(func() {
			<-start
			r.buyer(ctx, i)
		})
	}
	close(start)
	buyers.Wait()
	// Buyers who came before a unit was returned retry until no unit is left.
	for i := range buyerCount {
		if n := r.count(ctx); n.Free == 0 {
			break
		}
		r.click(ctx, fmt.Sprintf("late-%d", i), 0)
	}
	stop()
	workers.Wait()
	r.check(ctx)
	if err := r.inventory.Delete(ctx, r.id, 1); err != nil {
		t.Errorf("Delete = %v", err)
	}
}

// buyer clicks for one unit more than its limit. Every ninth buyer returns its first unit.
func (r *race) buyer(ctx context.Context, i int) {
	user := fmt.Sprintf("user-%d", i)
	for n := range r.perUser + 1 {
		o := r.click(ctx, user, n)
		if n == 0 && i%9 == 0 && o.Reason == sale.OK && o.Reservation.ID != "" {
			r.returnUnit(ctx, o.Reservation)
		}
	}
}

// click joins and makes two concurrent reservations with the same ticket and key.
func (r *race) click(ctx context.Context, user string, n int) sale.ReserveResult {
	ticket := fmt.Sprintf("%s-%s-%d-000000000000", r.id, user, n)
	st, err := r.inventory.Join(ctx, sale.JoinRequest{Sale: r.id, Epoch: 1, User: user, Ticket: ticket, Batch: "all", Until: r.clock.Now().Add(time.Minute)})
	if err != nil {
		r.t.Errorf("Join = %v", err)
		return sale.ReserveResult{}
	}
	if st.State != sale.Admitted {
		if st.Reason != sale.PerUserLimit || len(st.Reserved) != r.perUser {
			r.t.Errorf("Join of %s = %+v", user, st)
		}
		return sale.ReserveResult{Reason: sale.PerUserLimit}
	}
	var both [2]sale.ReserveResult
	var wg sync.WaitGroup
	for i := range both {
		wg.Go(func() {
			o, err := r.inventory.Reserve(ctx, sale.ReserveRequest{
				Sale: r.id, Epoch: 1, User: user, Ticket: st.Ticket, Key: fmt.Sprint("key", st.Ticket), Reservation: fmt.Sprintf("%s-%d", st.Ticket, i),
			})
			if err != nil {
				r.t.Errorf("Reserve = %v", err)
			}
			both[i] = o
		})
	}
	wg.Wait()
	if a, b := both[0], both[1]; a.Reason == sale.OK && b.Reason == sale.OK && (a.Reservation.ID != b.Reservation.ID || a.Repeated == b.Repeated) {
		r.t.Errorf("two clicks of %s got %+v and %+v", user, a, b)
	}
	out := both[0]
	if out.Reason != sale.OK {
		out = both[1]
	}
	if out.Reason == sale.OK {
		r.mu.Lock()
		r.got[out.Reservation.ID] = out.Reservation
		r.mu.Unlock()
	} else if out.Reason != sale.IsAllTaken {
		r.t.Errorf("Reserve of %s = %+v", user, out)
	}
	return out
}

func (r *race) returnUnit(ctx context.Context, res sale.Reservation) {
	var yes [2]bool
	var wg sync.WaitGroup
	for i := range yes {
		wg.Go(func() {
			var err error
			if yes[i], err = r.inventory.Return(ctx, r.id, 1, res.User, res.ID, true); err != nil {
				r.t.Errorf("Return = %v", err)
			}
		})
	}
	wg.Wait()
	if yes[0] == yes[1] {
		r.t.Errorf("two Returns of %s = %v, want exactly one true", res.ID, yes)
	}
	r.mu.Lock()
	r.returned[res.ID] = true
	r.mu.Unlock()
}

func (r *race) worker(over context.Context, name string) {
	ctx := context.Background()
	for {
		last := over.Err() != nil
		es, err := r.inventory.Next(ctx, r.id, 1, name, 100, 5*time.Millisecond)
		if err != nil {
			r.t.Errorf("Next = %v", err)
			return
		}
		if len(es) == 0 {
			if last {
				return
			}
			continue
		}
		ids := make([]string, len(es))
		r.mu.Lock()
		for i, e := range es {
			ids[i] = e.ID
			r.entries[e.Reservation.ID]++
		}
		r.mu.Unlock()
		if err := r.inventory.Ack(ctx, r.id, 1, ids...); err != nil {
			r.t.Errorf("Ack = %v", err)
		}
	}
}

func (r *race) count(ctx context.Context) sale.Counts {
	n, err := r.inventory.Counts(ctx, r.id, 1)
	if err != nil {
		r.t.Fatalf("Counts = %v", err)
	}
	return n
}

func (r *race) check(ctx context.Context) {
	t := r.t
	live, slots := int64(0), make(map[string]bool)
	for id, res := range r.got {
		if r.entries[id] != 1 {
			t.Errorf("reservation %s is in the stream %d times", id, r.entries[id])
		}
		if r.returned[id] {
			continue
		}
		live++
		slot := fmt.Sprintf("%s on slot %d", res.User, res.Slot)
		if slots[slot] || res.Slot < 1 || res.Slot > r.perUser {
			t.Errorf("%s is used twice or out of range", slot)
		}
		slots[slot] = true
	}
	if len(r.entries) != len(r.got) {
		t.Errorf("%d reservations in the stream, %d acknowledged", len(r.entries), len(r.got))
	}
	n := r.count(ctx)
	if live != r.stock || n.Free != 0 || n.Reserved != live || n.Backlog != 0 {
		t.Errorf("%d units are reserved of %d; Counts = %+v", live, r.stock, n)
	}
}
