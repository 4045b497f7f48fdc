package inventorytest

import (
	"errors"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// closeAndDrain ends the epoch as a recovery does.
func (d *tester) closeAndDrain() {
	d.Helper()
	if err := d.inventory.Close(d.ctx, "sale", d.epoch); err != nil {
		d.Fatalf("Close = %v", err)
	}
	for range 1000 {
		es, err := d.inventory.Next(d.ctx, "sale", d.epoch, "drain", 100, 0)
		if errors.Is(err, sale.ErrStale) {
			return
		}
		if err != nil || len(es) == 0 {
			d.Fatalf("Next of a closed stream = %v, %v", es, err)
		}
		for _, e := range es {
			d.ack(e.ID)
		}
	}
	d.Fatal("a closed stream does not end")
}

func untilAck(d *tester) {
	d.open()
	a, b, c := d.buy("ann"), d.buy("bob"), d.buy("cat")
	first := d.next("w1", 2)
	d.wantDelivered(first, 1, a, b)
	second := d.next("w1", 2)
	d.wantDelivered(second, 1, c)
	if es := d.next("w1", 2); len(es) > 0 {
		d.Fatalf("Next redelivers at once: %+v", es)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 2, Reserved: 3, Backlog: 3})
	d.ack(first[0].ID, second[0].ID)
	d.wantCounts(sale.Counts{Stock: 5, Free: 2, Reserved: 3, Backlog: 1})
	d.ack(first[0].ID)
	d.ack()
	d.wantCounts(sale.Counts{Stock: 5, Free: 2, Reserved: 3, Backlog: 1})
	d.ack(first[1].ID)
	d.wantCounts(sale.Counts{Stock: 5, Free: 2, Reserved: 3})
	// The entry of a returned unit stays until it is acknowledged.
	r := d.buy("dan")
	d.returnUnit(r)
	d.wantDelivered(d.next("w2", 1000), 1, r)
	d.wantCounts(sale.Counts{Stock: 5, Free: 2, Reserved: 3, Backlog: 1})
}

// eventually polls until a worker has entries.
func (d *tester) eventually(worker string) []sale.Entry {
	d.Helper()
	for begun := time.Now(); time.Since(begun) < 20*Redeliver; {
		es, err := d.inventory.Next(d.ctx, "sale", d.epoch, worker, 100, 20*time.Millisecond)
		if err != nil {
			d.Fatalf("Next(%s) = %v", worker, err)
		}
		if len(es) > 0 {
			return es
		}
	}
	d.Fatalf("no entry was delivered to %s", worker)
	return nil
}

func redelivered(d *tester) {
	d.open()
	a, b, c := d.buy("ann"), d.buy("bob"), d.buy("cat")
	d.wantDelivered(d.next("dead", 2), 1, a, b)
	d.wantDelivered(d.next("alive", 2), 1, c)
	if es := d.next("alive", 9); len(es) > 0 {
		d.Fatalf("delivered while other workers have the entries: %+v", es)
	}
	for want := 2; want <= 3; want++ {
		d.advance(Redeliver)
		es := d.eventually("alive")
		for len(es) < 3 { // one entry may be due before the other
			es = append(es, d.eventually("alive")...)
		}
		d.wantDelivered(es, want, a, b, c)
		if want == 3 {
			d.ack(es[0].ID, es[1].ID, es[2].ID)
		}
	}
	d.advance(Redeliver)
	if es, err := d.inventory.Next(d.ctx, "sale", 1, "alive", 9, Redeliver/2); len(es) > 0 || err != nil {
		d.Fatalf("Next after Ack = %v, %v", es, err)
	}
}

func workersShare(d *tester) {
	d.open(stock(300))
	want := make(map[string]bool)
	for range 300 {
		want[d.buy(d.id("user")).ID] = true
	}
	var mu sync.Mutex
	got := make(map[string]int)
	var wg sync.WaitGroup
	for _, worker := range []string{"w-1", "w_2", "w.3"} {
		wg.Go(func() {
			for {
				es, err := d.inventory.Next(d.ctx, "sale", 1, worker, 7, 0)
				if err != nil {
					d.Errorf("Next = %v", err)
				}
				if len(es) == 0 {
					return
				}
				mu.Lock()
				var ids []string
				for _, e := range es {
					got[e.Reservation.ID]++
					ids = append(ids, e.ID)
				}
				mu.Unlock()
				if err := d.inventory.Ack(d.ctx, "sale", 1, ids...); err != nil {
					d.Errorf("Ack = %v", err)
				}
			}
		})
	}
	wg.Wait()
	if len(got) != 300 {
		d.Fatalf("%d entries delivered, want 300", len(got))
	}
	for id, n := range got {
		if n != 1 || !want[id] {
			d.Fatalf("%s was delivered %d times", id, n)
		}
	}
	d.wantCounts(sale.Counts{Stock: 300, Reserved: 300})
}

func closedStream(d *tester) {
	d.open(userLimit(2))
	a, b := d.buy("ann"), d.buy("bob")
	taken := d.next("w1", 1)
	d.wantDelivered(taken, 1, a)
	for range 2 {
		if err := d.inventory.Close(d.ctx, "sale", 1); err != nil {
			d.Fatalf("Close = %v", err)
		}
	}
	_, err := d.inventory.Join(d.ctx, d.joinRequest("eve"))
	d.wantError("Join after Close", err, sale.ErrStale)
	rest := d.next("w2", 9)
	d.wantDelivered(rest, 1, b)
	if es := d.next("w2", 9); len(es) > 0 {
		d.Fatalf("Next = %+v, want none: other workers have the entries", es)
	}
	d.ack(taken[0].ID)
	d.ack(rest[0].ID)
	_, err = d.inventory.Next(d.ctx, "sale", 1, "w2", 9, time.Minute)
	d.wantError("Next at the end of a closed stream", err, sale.ErrStale)
	d.wantError("Open of a closed epoch", d.inventory.Open(d.ctx, sale.InitialState{Sale: d.draft()}), sale.ErrStale)
	if err := d.inventory.Close(d.ctx, "unknown", 1); err != nil {
		d.Fatalf("Close of nothing = %v", err)
	}
	d.openWith([]sale.Reservation{a, b}, nil, epoch(2), userLimit(2))
	if err := d.inventory.Close(d.ctx, "sale", 1); err != nil {
		d.Fatalf("Close of an earlier epoch = %v", err)
	}
	if err := d.inventory.Close(d.ctx, "sale", 3); err != nil {
		d.Fatalf("Close of a later epoch = %v", err)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 3, Reserved: 2})
	if es := d.next("w1", 9); len(es) > 0 {
		d.Fatalf("Next at the next epoch = %+v", es)
	}
}

func workerWaits(d *tester) {
	d.open()
	st := d.admitted("ann")
	type result struct {
		es  []sale.Entry
		err error
	}
	got := make(chan result)
	go func() {
		es, err := d.inventory.Next(d.ctx, "sale", 1, "w", 9, time.Minute)
		got <- result{es, err}
	}()
	r := d.reserve("ann", st.Ticket, "").Reservation
	res := <-got
	if res.err != nil {
		d.Fatal(res.err)
	}
	d.wantDelivered(res.es, 1, r)
	d.ack(res.es[0].ID)
	begun := time.Now()
	es, err := d.inventory.Next(d.ctx, "sale", 1, "w", 9, 50*time.Millisecond)
	if len(es) > 0 || err != nil || time.Since(begun) < 40*time.Millisecond {
		d.Fatalf("Next of nothing = %v, %v after %v", es, err, time.Since(begun))
	}
}

func entriesBefore(d *tester) {
	d.open(stock(3))
	held, left := d.buy("ann"), d.buy("bob")
	d.closeAndDrain()
	d.openWith([]sale.Reservation{held}, []sale.Reservation{left}, epoch(2), stock(3))
	d.wantCounts(sale.Counts{Stock: 3, Free: 1, Reserved: 2, Backlog: 1})
	if st := d.status("bob"); len(st.Reserved) != 1 || InUTC(st.Reserved[0]) != InUTC(left) {
		d.Fatalf("bob holds %+v, want %+v", st.Reserved, left)
	}
	es := d.next("w", 9)
	d.wantDelivered(es, 1, left)
	d.ack(es[0].ID)
	d.wantCounts(sale.Counts{Stock: 3, Free: 1, Reserved: 2})
}

func (d *tester) transfer(r sale.Reservation) bool {
	d.Helper()
	yes, err := d.inventory.Transfer(d.ctx, d.epoch, r)
	if err != nil {
		d.Fatalf("Transfer(%+v) = %v", r, err)
	}
	return yes
}

// transferredOnce transfers a reservation that was lost with its epoch, although the sale is
// paused. The user keeps the new ticket, and the old ticket and its key return the reservation.
func transferredOnce(d *tester) {
	d.open(stock(3), userLimit(2))
	r := d.reserve("ann", d.admitted("ann").Ticket, "key").Reservation
	d.closeAndDrain()
	d.open(stock(3), userLimit(2), epoch(2))
	held := d.buy("ann")
	es := d.next("w", 9)
	d.ack(es[0].ID)
	d.pause(true)
	now := d.join(d.joinRequest("ann"))
	for range 3 {
		if !d.transfer(r) {
			d.Fatal("Transfer = false, want true")
		}
	}
	want := r
	want.Slot = 2
	d.wantCounts(sale.Counts{Stock: 3, Free: 1, Reserved: 2, Waiting: 1, Backlog: 1, Paused: true})
	st := d.status("ann")
	if len(st.Reserved) != 2 || InUTC(st.Reserved[0]) != InUTC(held) || InUTC(st.Reserved[1]) != InUTC(want) || st.Ticket != now.Ticket || st.State != sale.Waiting {
		d.Fatalf("status %+v, want %+v and %+v held, and the ticket %s waiting", st, held, want, now.Ticket)
	}
	es = d.next("w", 9)
	d.wantDelivered(es, 1, want)
	d.ack(es[0].ID)
	for _, key := range []string{"", "key"} {
		if o := d.reserve("ann", r.Ticket, key); !o.Repeated || InUTC(o.Reservation) != InUTC(want) {
			d.Fatalf("Reserve with the earlier ticket = %+v, want %+v", o, want)
		}
	}
	if !d.returnUnit(want) || !d.transfer(r) {
		d.Fatal("a returned reservation is unknown")
	}
	d.wantCounts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Waiting: 1, Paused: true})
}

// transferRefused checks that a refused Transfer changes nothing.
func transferRefused(d *tester) {
	d.open(stock(2), userLimit(1))
	d.epoch = 0 // no state
	of := func(user, ticket, key string) sale.Reservation {
		at := d.clock.Now().Truncate(time.Millisecond)
		return sale.Reservation{ID: d.id("reservation"), Sale: "sale", Epoch: 1, User: user, Slot: 1, Ticket: ticket, Key: key, At: at, PayBy: at.Add(time.Minute)}
	}
	_, err := d.inventory.Transfer(d.ctx, 2, of("ann", d.id("ticket"), ""))
	d.wantError("Transfer without a state", err, sale.ErrStale)
	d.epoch = 1
	_, err = d.inventory.Transfer(d.ctx, 1, of("ann", "short", ""))
	d.wantError("Transfer of an invalid reservation", err, sale.ErrInvalid)
	bought := d.reserve("ann", d.admitted("ann").Ticket, "key").Reservation
	before := d.count()
	same := bought
	same.User = "bob"
	for name, r := range map[string]sale.Reservation{
		"the user holds one unit": of("ann", d.id("ticket"), ""),
		"another user has the ID": same,
	} {
		if d.transfer(r) {
			d.Fatalf("%s: Transfer = true", name)
		}
	}
	if got := d.count(); got != before {
		d.Fatalf("Counts = %+v, want %+v", got, before)
	}
	d.returnUnit(bought)
	for name, r := range map[string]sale.Reservation{
		"the ticket has reserved": of("ann", bought.Ticket, ""),
		"the key has reserved":    of("ann", d.id("ticket"), "key"),
	} {
		if d.transfer(r) {
			d.Fatalf("%s: Transfer = true", name)
		}
	}
	d.buy("bob")
	d.buy("cat")
	if d.transfer(of("dan", d.id("ticket"), "")) {
		d.Fatal("no unit is free: Transfer = true")
	}
	if st := d.status("dan"); len(st.Reserved) > 0 {
		d.Fatalf("dan holds %+v", st.Reserved)
	}
	d.wantCounts(sale.Counts{Stock: 2, Reserved: 2, Backlog: 3})
}

func stoppedWorker(d *tester) {
	attend := func(worker string, want int) {
		d.Helper()
		if n, err := d.inventory.Attend(d.ctx, worker); n != want || err != nil {
			d.Fatalf("Attend(%s) = %d, %v, want %d", worker, n, err, want)
		}
	}
	attend("w1", 0)
	attend("w2", 0)
	attend("w3", 0)
	d.clock.Move(sale.WorkerFor - time.Millisecond)
	attend("w1", 0)
	d.clock.Move(time.Millisecond)
	attend("w2", 1) // w3
	attend("w1", 0)
	d.clock.Move(sale.WorkerFor)
	attend("w1", 1) // w2
	attend("w1", 0)
}
