package inventorytest

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func unitsAddUp(d *tester) {
	held := sale.Reservation{ID: "reservation-before-1", Sale: "sale", Epoch: 1, User: "old", Slot: 1, Ticket: "ticket-before-00001",
		At: Start(), PayBy: Start().Add(time.Minute)}
	d.openWith([]sale.Reservation{held}, nil, stock(3), epoch(2))
	d.wantCounts(sale.Counts{Stock: 3, Free: 2, Reserved: 1})
	r := d.buy("ann")
	d.wantCounts(sale.Counts{Stock: 3, Free: 1, Reserved: 2, Backlog: 1})
	d.buy("bob")
	d.wantCounts(sale.Counts{Stock: 3, Free: 0, Reserved: 3, Backlog: 2})
	eve := d.admitted("eve")
	d.wantRefused(d.reserve("eve", eve.Ticket, ""), sale.IsAllTaken)
	d.wantCounts(sale.Counts{Stock: 3, Free: 0, Reserved: 3, Backlog: 2, Outstanding: 1})
	if !d.returnUnit(r) || !d.returnUnit(held) {
		d.Fatal("Return did not return a reserved unit")
	}
	d.wantCounts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 2, Outstanding: 1})
	if o := d.reserve("eve", eve.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("Reserve after a return = %+v", o)
	}
	d.wantCounts(sale.Counts{Stock: 3, Free: 1, Reserved: 2, Backlog: 3})
}

func stockGrows(d *tester) {
	d.open(stock(1))
	d.buy("ann")
	set := func(n int64) error { return d.inventory.SetStock(d.ctx, "sale", 1, n) }
	if err := set(3); err != nil {
		d.Fatal(err)
	}
	d.wantCounts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 1})
	if err := set(3); err != nil {
		d.Fatalf("SetStock to the same value = %v", err)
	}
	d.wantError("SetStock(2)", set(2), sale.ErrInvalid)
	d.wantError("SetStock(-1)", set(-1), sale.ErrInvalid)
	d.wantCounts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 1})
	d.wantError("SetStock at another epoch", d.inventory.SetStock(d.ctx, "sale", 2, 9), sale.ErrStale)
}

func paidNeverFewer(d *tester) {
	d.open(stock(3), func(s *sale.Sale) { s.Paid = 1 })
	want := sale.Counts{Stock: 3, Free: 3, Paid: 1}
	d.wantCounts(want)
	for _, n := range []int64{0, 1, 2, 1, 3, 2} {
		if err := d.inventory.SetPaid(d.ctx, "sale", 1, n); err != nil {
			d.Fatalf("SetPaid(%d) = %v", n, err)
		}
		want.Paid = max(want.Paid, n)
		d.wantCounts(want)
	}
	for _, n := range []int64{-1, 1<<53 + 1} {
		d.wantError("SetPaid with an invalid number", d.inventory.SetPaid(d.ctx, "sale", 1, n), sale.ErrInvalid)
	}
	// It changes only the counter of paid units.
	ann, bob := d.buy("ann"), d.buy("bob")
	d.wantCounts(sale.Counts{Stock: 3, Free: 1, Reserved: 2, Backlog: 2, Paid: 3})
	// A unit that was paid and refunded is not paid any more.
	d.returnUnit(ann)
	d.wantCounts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 2, Paid: 1})
	d.returnUnit(ann)
	d.wantCounts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 2, Paid: 1})
	d.returnUnit(bob)
	d.wantCounts(sale.Counts{Stock: 3, Free: 3, Backlog: 2})
}

// terms checks the settings that change while a sale runs: at once, and only to a later version.
func terms(d *tester) {
	d.open(stock(9), userLimit(1), func(s *sale.Sale) { s.Version = 5 })
	end := d.clock.Now().Add(30 * time.Minute)
	set := func(version int64, ends time.Time, perUser int, pay time.Duration) {
		d.Helper()
		if err := d.inventory.SetTerms(d.ctx, "sale", 1, sale.Terms{Version: version, EndsAt: ends, PerUser: perUser, PayWithin: pay}); err != nil {
			d.Fatalf("SetTerms = %v", err)
		}
	}
	wantSlot := func(user string, slot int, pay time.Duration) {
		d.Helper()
		if r := d.buy(user); r.Slot != slot || r.PayBy.Sub(r.At) != pay {
			d.Fatalf("%s has %+v, want slot %d, to be paid within %v", user, r, slot, pay)
		}
	}
	before := d.buy("ann")
	pay := before.PayBy.Sub(before.At)
	set(5, end.Add(-time.Hour), 9, time.Second) // the version of the InitialState
	set(4, end.Add(-time.Hour), 9, time.Second)
	d.wantStatus(d.join(d.joinRequest("ann")), sale.Spent, sale.PerUserLimit)
	wantSlot("bob", 1, pay)
	set(7, end, 2, time.Minute)
	set(6, end.Add(-time.Hour), 9, time.Second) // late
	wantSlot("ann", 2, time.Minute)
	d.wantStatus(d.join(d.joinRequest("ann")), sale.Spent, sale.PerUserLimit)
	d.wantCounts(sale.Counts{Stock: 9, Free: 6, Reserved: 3, Backlog: 3})
	d.advance(end.Sub(d.clock.Now()) - time.Second)
	wantSlot("cat", 1, time.Minute)
	d.advance(time.Second)
	d.wantStatus(d.join(d.joinRequest("dan")), sale.NoTicket, sale.HasEnded)
	set(8, end.Add(time.Hour), 2, time.Minute)
	wantSlot("dan", 1, time.Minute)
	for _, t := range []sale.Terms{{Version: -1, EndsAt: end, PerUser: 1, PayWithin: time.Minute}, {EndsAt: end, PayWithin: time.Minute},
		{EndsAt: end, PerUser: 1}, {PerUser: 1, PayWithin: time.Minute}} {
		d.wantError("SetTerms", d.inventory.SetTerms(d.ctx, "sale", 1, t), sale.ErrInvalid)
	}
}

func returnedOnce(d *tester) {
	d.open(stock(2))
	r, other := d.buy("ann"), d.buy("bob")
	for i, want := range []bool{true, false, false} {
		if got := d.returnUnit(r); got != want {
			d.Fatalf("Return, call %d = %v", i+1, got)
		}
	}
	wrongUser := other
	wrongUser.User = "ann"
	unknown := sale.Reservation{ID: "reservation-unknown-1", User: "ann"}
	if d.returnUnit(wrongUser) || d.returnUnit(unknown) {
		d.Fatal("Return accepted another user's or an unknown reservation")
	}
	d.wantCounts(sale.Counts{Stock: 2, Free: 1, Reserved: 1, Backlog: 2})
	d.ack(d.next("w", 9)[0].ID)
	if d.returnUnit(r) {
		d.Fatal("Return after Ack returned a unit twice")
	}
	// Also while no unit can be reserved.
	if err := d.inventory.SetPaused(d.ctx, "sale", 1, true); err != nil {
		d.Fatal(err)
	}
	d.advance(2 * time.Hour)
	if !d.returnUnit(other) {
		d.Fatal("Return after the end did not return a unit")
	}
	d.wantCounts(sale.Counts{Stock: 2, Free: 2, Backlog: 1, Paused: true})
}

func perUser(d *tester) {
	d.open(userLimit(2), stock(9))
	a := d.buy("ann")
	b := d.buy("ann")
	if a.Slot != 1 || b.Slot != 2 {
		d.Fatalf("slots = %d, %d, want 1, 2", a.Slot, b.Slot)
	}
	st := d.join(d.joinRequest("ann"))
	d.wantStatus(st, sale.Spent, sale.PerUserLimit)
	if st.Ticket != b.Ticket || InUTC(*st.Last) != InUTC(b) || len(st.Reserved) != 2 || InUTC(st.Reserved[0]) != InUTC(a) || InUTC(st.Reserved[1]) != InUTC(b) {
		d.Fatalf("Join above the limit = %+v, want both units", st)
	}
	d.wantCounts(sale.Counts{Stock: 9, Free: 7, Reserved: 2, Backlog: 2})

	// Reservations in the initial state count too.
	d.closeAndDrain()
	d.openWith([]sale.Reservation{a, b}, nil, epoch(2), userLimit(2), stock(9))
	st = d.join(d.joinRequest("ann"))
	d.wantStatus(st, sale.NoTicket, sale.PerUserLimit)
	if len(st.Reserved) != 2 {
		d.Fatalf("in the next epoch ann has %+v, want two units", st.Reserved)
	}
	d.wantStatus(d.status("ann"), sale.NoTicket, sale.OK)
}

func maxUnits(d *tester) {
	d.open(userLimit(3), stock(9))
	click := func(ticket string) sale.TicketStatus {
		d.Helper()
		j := d.joinRequest("ann")
		j.Ticket, j.Reservation, j.MaxUnits = ticket, d.id("reservation"), 1
		return d.join(j)
	}
	first := d.id("ticket")
	d.wantStatus(click(first), sale.Spent, sale.OK)
	d.wantStatus(click(first), sale.Spent, sale.OK) // the same click again
	d.wantStatus(click(d.id("ticket")), sale.Spent, sale.PerUserLimit)
	d.wantCounts(sale.Counts{Stock: 9, Free: 8, Reserved: 1, Backlog: 1})

	// The bound is that of the request: another one of the user is admitted, and may not reserve.
	a := d.admitted("ann")
	p := sale.PollRequest{User: "ann", Reservation: d.id("reservation"), MaxUnits: 1}
	if st := d.pollWith(p); st.State != sale.Admitted || st.Reason != sale.PerUserLimit {
		d.Fatalf("Poll = %+v, want refused", st)
	}
	r := sale.ReserveRequest{Sale: "sale", Epoch: 1, User: "ann", Ticket: a.Ticket, Reservation: d.id("reservation"), MaxUnits: 1}
	o, err := d.inventory.Reserve(d.ctx, r)
	if err != nil {
		d.Fatal(err)
	}
	d.wantRefused(o, sale.PerUserLimit)
	r.MaxUnits = 9 // no more than PerUser
	if o, err := d.inventory.Reserve(d.ctx, r); err != nil || o.Reason != sale.OK || o.Reservation.Slot != 2 {
		d.Fatalf("Reserve = %+v, %v, want slot 2", o, err)
	}
	d.buy("ann")
	j := d.joinRequest("ann")
	j.MaxUnits = 9
	d.wantStatus(d.join(j), sale.Spent, sale.PerUserLimit)
}

func slotsAgain(d *tester) {
	d.open(userLimit(3), stock(9))
	a, b := d.buy("ann"), d.buy("ann")
	d.buy("ann")
	d.returnUnit(b)
	d.wantStatus(d.status("ann"), sale.Spent, sale.OK)
	if st := d.status("ann"); len(st.Reserved) != 2 || st.Reserved[0].Slot != 1 || st.Reserved[1].Slot != 3 {
		d.Fatalf("Status = %+v, want slots 1 and 3", st)
	}
	d.returnUnit(a)
	for want := 1; want <= 2; want++ {
		if r := d.buy("ann"); r.Slot != want {
			d.Fatalf("slot = %d, want %d, the lowest free one", r.Slot, want)
		}
	}
	st := d.status("ann")
	for i, r := range st.Reserved {
		if r.Slot != i+1 {
			d.Fatalf("Reserved = %+v, want the slots in order", st.Reserved)
		}
	}
}

func ticketOnce(d *tester) {
	d.open(userLimit(3))
	st := d.admitted("ann")
	first := d.reserve("ann", st.Ticket, "key")
	r := first.Reservation
	if at := d.clock.Now().Truncate(time.Millisecond); r.User != "ann" || r.Sale != "sale" || r.Epoch != 1 || r.Slot != 1 || r.Ticket != st.Ticket ||
		r.Key != "key" || !r.At.Equal(at) || !r.PayBy.Equal(at.Add(15*time.Minute)) {
		d.Fatalf("Reserve = %+v", r)
	}
	d.advance(time.Second)
	for _, key := range []string{"key", "", "another"} {
		if o := d.reserve("ann", st.Ticket, key); o.Reason != sale.OK || !o.Repeated || InUTC(o.Reservation) != InUTC(r) {
			d.Fatalf("the same ticket with key %q = %+v, want %+v again", key, o, r)
		}
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1})
	// Also while no unit can be reserved.
	d.advance(2 * time.Hour)
	if o := d.reserve("ann", st.Ticket, ""); !o.Repeated {
		d.Fatalf("the same ticket after the end = %+v, want its reservation", o)
	}
}

func keyOnce(d *tester) {
	d.open(userLimit(3))
	first := d.reserve("ann", d.admitted("ann").Ticket, "key")
	again := d.admitted("ann")
	if o := d.reserve("ann", again.Ticket, "key"); !o.Repeated || InUTC(o.Reservation) != InUTC(first.Reservation) {
		d.Fatalf("the same key with another ticket = %+v, want %+v again", o, first.Reservation)
	}
	d.wantStatus(d.status("ann"), sale.Admitted, sale.OK)
	if o := d.reserve("ann", again.Ticket, "other"); o.Repeated || o.Reservation.Slot != 2 {
		d.Fatalf("another key = %+v, want another unit", o)
	}
	if o := d.reserve("bob", d.admitted("bob").Ticket, "key"); o.Repeated || o.Reservation.User != "bob" {
		d.Fatalf("the same key of another user = %+v, want a unit", o)
	}
	// The ticket takes precedence over the key.
	if o := d.reserve("ann", first.Reservation.Ticket, "other"); InUTC(o.Reservation) != InUTC(first.Reservation) {
		d.Fatalf("ticket of the first unit, key of the second = %+v, want the first", o)
	}
	// An empty key matches no other key.
	if o := d.reserve("eve", d.admitted("eve").Ticket, ""); o.Repeated {
		d.Fatalf("without a key = %+v", o)
	}
}

func replayReturned(d *tester) {
	d.open(userLimit(1))
	st := d.admitted("ann")
	r := d.reserve("ann", st.Ticket, "key").Reservation
	d.returnUnit(r)
	d.wantStatus(d.status("ann"), sale.Spent, sale.OK)
	if o := d.reserve("ann", st.Ticket, ""); !o.Repeated || InUTC(o.Reservation) != InUTC(r) {
		d.Fatalf("the ticket of a returned unit = %+v, want %+v again", o, r)
	}
	next := d.admitted("ann")
	if o := d.reserve("ann", st.Ticket, ""); !o.Repeated || InUTC(o.Reservation) != InUTC(r) {
		d.Fatalf("the earlier ticket, with a new one = %+v, want %+v again", o, r)
	}
	if o := d.reserve("ann", next.Ticket, "key"); !o.Repeated || InUTC(o.Reservation) != InUTC(r) {
		d.Fatalf("the key of a returned unit = %+v, want %+v again", o, r)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 5, Outstanding: 1, Backlog: 1})
	if o := d.reserve("ann", next.Ticket, ""); o.Repeated || o.Reservation.Slot != 1 {
		d.Fatalf("the new ticket = %+v, want slot 1", o)
	}
}

func replayEpoch(d *tester) {
	d.open()
	st := d.admitted("ann")
	r := d.reserve("ann", st.Ticket, "key").Reservation
	d.closeAndDrain()
	d.openWith([]sale.Reservation{r}, nil, epoch(2))
	for _, key := range []string{"", "key"} {
		ticket := st.Ticket
		if key != "" {
			ticket = d.id("ticket")
		}
		if o := d.reserve("ann", ticket, key); !o.Repeated || InUTC(o.Reservation) != InUTC(r) {
			d.Fatalf("ticket %s key %q in the next epoch = %+v, want %+v again", ticket, key, o, r)
		}
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 4, Reserved: 1})
	if !d.returnUnit(r) || d.returnUnit(r) {
		d.Fatal("Return in the next epoch does not return once")
	}
}

func ticketOfAnother(d *tester) {
	d.open()
	ann, bob := d.admitted("ann"), d.admitted("bob")
	d.wantRefused(d.reserve("bob", ann.Ticket, ""), sale.NotAdmitted)
	d.wantRefused(d.reserve("eve", ann.Ticket, ""), sale.NotAdmitted)
	d.wantRefused(d.reserve("ann", d.id("ticket"), ""), sale.NotAdmitted)
	d.reserve("ann", ann.Ticket, "key")
	d.wantRefused(d.reserve("eve", ann.Ticket, "key"), sale.NotAdmitted)
	d.wantStatus(d.status("bob"), sale.Admitted, sale.OK)
	d.wantCounts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1, Outstanding: 1})
	if o := d.reserve("bob", bob.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("bob's own ticket = %+v", o)
	}
}

func twoSales(d *tester) {
	d.open()
	d.open(func(s *sale.Sale) { s.ID, s.Stock = "other", 1 })
	r := d.buy("ann")
	st, err := d.inventory.Status(d.ctx, "other", 1, "ann")
	if err != nil || st.State != sale.NoTicket || len(st.Reserved) != 0 {
		d.Fatalf("Status in another sale = %+v, %v", st, err)
	}
	o, err := d.inventory.Reserve(d.ctx, sale.ReserveRequest{Sale: "other", Epoch: 1, User: "ann", Ticket: r.Ticket, Reservation: d.id("reservation")})
	if err != nil || o.Reason != sale.NotAdmitted {
		d.Fatalf("Reserve in another sale = %+v, %v", o, err)
	}
	if yes, err := d.inventory.Return(d.ctx, "other", 1, "ann", r.ID, true); yes || err != nil {
		d.Fatalf("Return in another sale = %v, %v", yes, err)
	}
	if es, err := d.inventory.Next(d.ctx, "other", 1, "w", 9, 0); len(es) > 0 || err != nil {
		d.Fatalf("Next of another sale = %v, %v", es, err)
	}
	if err := d.inventory.Delete(d.ctx, "other", 1); err != nil {
		d.Fatal(err)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1})
}
