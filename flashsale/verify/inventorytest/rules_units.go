package inventorytest

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func unitsAddUp(d *desk) {
	held := sale.Reservation{ID: "reservation-before-1", Sale: "sale", Epoch: 1, User: "old", Slot: 1, Ticket: "ticket-before-00001",
		At: Start(), PayBy: Start().Add(time.Minute)}
	d.openWith([]sale.Reservation{held}, nil, stock(3), epoch(2))
	d.counts(sale.Counts{Stock: 3, Free: 2, Reserved: 1})
	r := d.buy("ann")
	d.counts(sale.Counts{Stock: 3, Free: 1, Reserved: 2, Backlog: 1})
	d.buy("bob")
	d.counts(sale.Counts{Stock: 3, Free: 0, Reserved: 3, Backlog: 2})
	eve := d.turn("eve")
	d.refused(d.reserve("eve", eve.Ticket, ""), sale.IsAllTaken)
	d.counts(sale.Counts{Stock: 3, Free: 0, Reserved: 3, Backlog: 2, Outstanding: 1})
	if !d.giveBack(r) || !d.giveBack(held) {
		d.Fatal("Return did not give back what was held")
	}
	d.counts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 2, Outstanding: 1})
	if o := d.reserve("eve", eve.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("Reserve after a return = %+v", o)
	}
	d.counts(sale.Counts{Stock: 3, Free: 1, Reserved: 2, Backlog: 3})
}

func stockGrows(d *desk) {
	d.open(stock(1))
	d.buy("ann")
	set := func(n int64) error { return d.gate.SetStock(d.ctx, "sale", 1, n) }
	if err := set(3); err != nil {
		d.Fatal(err)
	}
	d.counts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 1})
	if err := set(3); err != nil {
		d.Fatalf("SetStock to what it is = %v", err)
	}
	d.is("SetStock(2)", set(2), sale.ErrInvalid)
	d.is("SetStock(-1)", set(-1), sale.ErrInvalid)
	d.counts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 1})
	d.is("SetStock at another epoch", d.gate.SetStock(d.ctx, "sale", 2, 9), sale.ErrStale)
}

func paidNeverFewer(d *desk) {
	d.open(stock(3), func(s *sale.Sale) { s.Paid = 1 })
	want := sale.Counts{Stock: 3, Free: 3, Paid: 1}
	d.counts(want)
	for _, n := range []int64{0, 1, 2, 1, 3, 2} {
		if err := d.gate.SetPaid(d.ctx, "sale", 1, n); err != nil {
			d.Fatalf("SetPaid(%d) = %v", n, err)
		}
		want.Paid = max(want.Paid, n)
		d.counts(want)
	}
	for _, n := range []int64{-1, 1<<53 + 1} {
		d.is("SetPaid of no number of units", d.gate.SetPaid(d.ctx, "sale", 1, n), sale.ErrInvalid)
	}
	// It changes what is counted, and nothing else.
	d.buy("ann")
	d.counts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 1, Paid: 3})
}

func returnedOnce(d *desk) {
	d.open(stock(2))
	r, other := d.buy("ann"), d.buy("bob")
	for i, want := range []bool{true, false, false} {
		if got := d.giveBack(r); got != want {
			d.Fatalf("Return, time %d = %v", i+1, got)
		}
	}
	stranger := other
	stranger.User = "ann"
	unknown := sale.Reservation{ID: "reservation-unknown-1", User: "ann"}
	if d.giveBack(stranger) || d.giveBack(unknown) {
		d.Fatal("Return gave back another user's or an unknown reservation")
	}
	d.counts(sale.Counts{Stock: 2, Free: 1, Reserved: 1, Backlog: 2})
	d.done(d.next("w", 9)[0].ID)
	if d.giveBack(r) {
		d.Fatal("Return after Done gave back a unit twice")
	}
	// Also while nothing can be reserved.
	if err := d.gate.SetPaused(d.ctx, "sale", 1, true); err != nil {
		d.Fatal(err)
	}
	d.sleep(2 * time.Hour)
	if !d.giveBack(other) {
		d.Fatal("Return after the end did not give back a unit")
	}
	d.counts(sale.Counts{Stock: 2, Free: 2, Backlog: 1, Paused: true})
}

func perUser(d *desk) {
	d.open(each(2), stock(9))
	a := d.buy("ann")
	b := d.buy("ann")
	if a.Slot != 1 || b.Slot != 2 {
		d.Fatalf("slots = %d, %d, want 1, 2", a.Slot, b.Slot)
	}
	st := d.join(d.askJoin("ann"))
	d.stands(st, sale.Spent, sale.PerUserLimit)
	if st.Ticket != b.Ticket || utc(*st.Last) != utc(b) || len(st.Reserved) != 2 || utc(st.Reserved[0]) != utc(a) || utc(st.Reserved[1]) != utc(b) {
		d.Fatalf("Join above the limit = %+v, want both units", st)
	}
	d.counts(sale.Counts{Stock: 9, Free: 7, Reserved: 2, Backlog: 2})

	// What the Inventory was opened with counts too.
	d.closeAndDrain()
	d.openWith([]sale.Reservation{a, b}, nil, epoch(2), each(2), stock(9))
	st = d.join(d.askJoin("ann"))
	d.stands(st, sale.NoTicket, sale.PerUserLimit)
	if len(st.Reserved) != 2 {
		d.Fatalf("after an epoch ann holds %+v, want two units", st.Reserved)
	}
	d.stands(d.look("ann"), sale.NoTicket, sale.OK)
}

func slotsAgain(d *desk) {
	d.open(each(3), stock(9))
	a, b := d.buy("ann"), d.buy("ann")
	d.buy("ann")
	d.giveBack(b)
	d.stands(d.look("ann"), sale.Spent, sale.OK)
	if st := d.look("ann"); len(st.Reserved) != 2 || st.Reserved[0].Slot != 1 || st.Reserved[1].Slot != 3 {
		d.Fatalf("Look = %+v, want slots 1 and 3", st)
	}
	d.giveBack(a)
	for want := 1; want <= 2; want++ {
		if r := d.buy("ann"); r.Slot != want {
			d.Fatalf("slot = %d, want %d, the lowest that is free", r.Slot, want)
		}
	}
	st := d.look("ann")
	for i, r := range st.Reserved {
		if r.Slot != i+1 {
			d.Fatalf("Held = %+v, want the slots in order", st.Reserved)
		}
	}
}

func gotEnough(d *desk) {
	before := sale.Reservation{ID: d.id("reservation"), Sale: "sale", Epoch: 1, User: "ann", Slot: 2, Ticket: d.id("ticket"),
		At: Start(), PayBy: Start().Add(time.Minute)}
	d.openWith([]sale.Reservation{before}, nil, each(2), epoch(2))
	d.giveBack(before)
	first := d.turn("ann")
	r := d.reserve("ann", first.Ticket, "key").Reservation
	d.giveBack(r)
	for n := 2; n < sale.MaxReservations; n++ {
		b := d.buy("ann")
		if n%9 == 0 && b.Slot != 1 {
			d.Fatalf("unit %d is on slot %d", n+1, b.Slot)
		}
		d.giveBack(b)
		for _, e := range d.next("w", 9) {
			d.done(e.ID)
		}
	}
	want := d.count()
	d.unchanged("Join of who had very many", func() {
		d.stands(d.join(d.askJoin("ann")), sale.Spent, sale.PerUserLimit)
		j := d.askJoin("ann")
		j.Batch, j.Until = "batch", d.clock.Now().Add(time.Minute)
		d.stands(d.join(j), sale.Spent, sale.PerUserLimit)
	}, "ann")
	if want.Free != want.Stock {
		d.Fatalf("Count = %+v, want every unit free", want)
	}
	// What was got before is still told, and others may buy.
	if o := d.reserve("ann", first.Ticket, ""); !o.Repeated || utc(o.Reservation) != utc(r) {
		d.Fatalf("the first ticket = %+v, want %+v again", o, r)
	}
	d.buy("bob")
	// The next epoch counts anew.
	d.closeAndDrain()
	d.open(epoch(3))
	d.buy("ann")
}

func ticketOnce(d *desk) {
	d.open(each(3))
	st := d.turn("ann")
	first := d.reserve("ann", st.Ticket, "key")
	r := first.Reservation
	if at := d.clock.Now().Truncate(time.Millisecond); r.User != "ann" || r.Sale != "sale" || r.Epoch != 1 || r.Slot != 1 || r.Ticket != st.Ticket ||
		r.Key != "key" || !r.At.Equal(at) || !r.PayBy.Equal(at.Add(15*time.Minute)) {
		d.Fatalf("Reserve = %+v", r)
	}
	d.sleep(time.Second)
	for _, key := range []string{"key", "", "another"} {
		if o := d.reserve("ann", st.Ticket, key); o.Reason != sale.OK || !o.Repeated || utc(o.Reservation) != utc(r) {
			d.Fatalf("the same ticket with key %q = %+v, want %+v again", key, o, r)
		}
	}
	d.counts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1})
	// Also while nothing else can be reserved.
	d.sleep(2 * time.Hour)
	if o := d.reserve("ann", st.Ticket, ""); !o.Repeated {
		d.Fatalf("the same ticket after the end = %+v, want what it had got", o)
	}
}

func keyOnce(d *desk) {
	d.open(each(3))
	first := d.reserve("ann", d.turn("ann").Ticket, "key")
	again := d.turn("ann")
	if o := d.reserve("ann", again.Ticket, "key"); !o.Repeated || utc(o.Reservation) != utc(first.Reservation) {
		d.Fatalf("the same key with another ticket = %+v, want %+v again", o, first.Reservation)
	}
	d.stands(d.look("ann"), sale.Admitted, sale.OK)
	if o := d.reserve("ann", again.Ticket, "other"); o.Repeated || o.Reservation.Slot != 2 {
		d.Fatalf("another key = %+v, want another unit", o)
	}
	if o := d.reserve("bob", d.turn("bob").Ticket, "key"); o.Repeated || o.Reservation.User != "bob" {
		d.Fatalf("the same key of another user = %+v, want a unit", o)
	}
	// The ticket comes before the key.
	if o := d.reserve("ann", first.Reservation.Ticket, "other"); utc(o.Reservation) != utc(first.Reservation) {
		d.Fatalf("ticket of the first unit, key of the second = %+v, want the first", o)
	}
	// No key is no key.
	if o := d.reserve("eve", d.turn("eve").Ticket, ""); o.Repeated {
		d.Fatalf("without a key = %+v", o)
	}
}

func replayReturned(d *desk) {
	d.open(each(1))
	st := d.turn("ann")
	r := d.reserve("ann", st.Ticket, "key").Reservation
	d.giveBack(r)
	d.stands(d.look("ann"), sale.Spent, sale.OK)
	if o := d.reserve("ann", st.Ticket, ""); !o.Repeated || utc(o.Reservation) != utc(r) {
		d.Fatalf("the ticket of what was returned = %+v, want %+v again", o, r)
	}
	next := d.turn("ann")
	if o := d.reserve("ann", st.Ticket, ""); !o.Repeated || utc(o.Reservation) != utc(r) {
		d.Fatalf("the earlier ticket, with a new one = %+v, want %+v again", o, r)
	}
	if o := d.reserve("ann", next.Ticket, "key"); !o.Repeated || utc(o.Reservation) != utc(r) {
		d.Fatalf("the key of what was returned = %+v, want %+v again", o, r)
	}
	d.counts(sale.Counts{Stock: 5, Free: 5, Outstanding: 1, Backlog: 1})
	if o := d.reserve("ann", next.Ticket, ""); o.Repeated || o.Reservation.Slot != 1 {
		d.Fatalf("the new ticket = %+v, want slot 1", o)
	}
}

func replayEpoch(d *desk) {
	d.open()
	st := d.turn("ann")
	r := d.reserve("ann", st.Ticket, "key").Reservation
	d.closeAndDrain()
	d.openWith([]sale.Reservation{r}, nil, epoch(2))
	for _, key := range []string{"", "key"} {
		ticket := st.Ticket
		if key != "" {
			ticket = d.id("ticket")
		}
		if o := d.reserve("ann", ticket, key); !o.Repeated || utc(o.Reservation) != utc(r) {
			d.Fatalf("ticket %s key %q after an epoch = %+v, want %+v again", ticket, key, o, r)
		}
	}
	d.counts(sale.Counts{Stock: 5, Free: 4, Reserved: 1})
	if !d.giveBack(r) || d.giveBack(r) {
		d.Fatal("Return after an epoch does not give back once")
	}
}

func ticketOfAnother(d *desk) {
	d.open()
	ann, bob := d.turn("ann"), d.turn("bob")
	d.refused(d.reserve("bob", ann.Ticket, ""), sale.NotAdmitted)
	d.refused(d.reserve("eve", ann.Ticket, ""), sale.NotAdmitted)
	d.refused(d.reserve("ann", d.id("ticket"), ""), sale.NotAdmitted)
	d.reserve("ann", ann.Ticket, "key")
	d.refused(d.reserve("eve", ann.Ticket, "key"), sale.NotAdmitted)
	d.stands(d.look("bob"), sale.Admitted, sale.OK)
	d.counts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1, Outstanding: 1})
	if o := d.reserve("bob", bob.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("bob's own ticket = %+v", o)
	}
}

func twoSales(d *desk) {
	d.open()
	d.open(func(s *sale.Sale) { s.ID, s.Stock = "other", 1 })
	r := d.buy("ann")
	st, err := d.gate.Status(d.ctx, "other", 1, "ann")
	if err != nil || st.State != sale.NoTicket || len(st.Reserved) != 0 {
		d.Fatalf("Look in another sale = %+v, %v", st, err)
	}
	o, err := d.gate.Reserve(d.ctx, sale.ReserveRequest{Sale: "other", Epoch: 1, User: "ann", Ticket: r.Ticket, Reservation: d.id("reservation")})
	if err != nil || o.Reason != sale.NotAdmitted {
		d.Fatalf("Reserve in another sale = %+v, %v", o, err)
	}
	if yes, err := d.gate.Return(d.ctx, "other", 1, "ann", r.ID); yes || err != nil {
		d.Fatalf("Return in another sale = %v, %v", yes, err)
	}
	if es, err := d.gate.Next(d.ctx, "other", 1, "w", 9, 0); len(es) > 0 || err != nil {
		d.Fatalf("Next of another sale = %v, %v", es, err)
	}
	if err := d.gate.Delete(d.ctx, "other", 1); err != nil {
		d.Fatal(err)
	}
	d.counts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1})
}
