package inventorytest

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// wanting returns a JoinRequest that reserves so many units in its turn.
func wanting(d *tester, user string, quantity int) sale.JoinRequest {
	j := d.joinRequest(user)
	j.Reservation, j.Quantity = d.id("reservation"), quantity
	return j
}

// pollFor polls and reserves so many units if the user's turn has come.
func pollFor(d *tester, user string, quantity int) sale.TicketStatus {
	d.Helper()
	return d.pollWith(sale.PollRequest{User: user, Reservation: d.id("reservation"), Quantity: quantity})
}

// reserveUnits is reserve with a quantity.
func reserveUnits(d *tester, user, ticket, key string, quantity int) sale.ReserveResult {
	d.Helper()
	o, err := d.inventory.Reserve(d.ctx, sale.ReserveRequest{Sale: "sale", Epoch: d.epoch, User: user, Ticket: ticket, Key: key,
		Reservation: d.id("reservation"), Quantity: quantity})
	if err != nil {
		d.Fatalf("Reserve(%d) = %v", quantity, err)
	}
	return o
}

// allOrNone checks that the units of a reservation are taken, delivered and returned together.
func allOrNone(d *tester) {
	d.open(stock(5), userLimit(5))
	st := d.join(wanting(d, "ann", 3))
	d.wantStatus(st, sale.Spent, sale.OK)
	ann := *st.Last
	if ann.Quantity != 3 || len(st.Reserved) != 1 {
		d.Fatalf("Join for 3 units = %+v, want one reservation of 3", st)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 2, Reserved: 3, Backlog: 1})
	bob := d.admitted("bob")
	o := reserveUnits(d, "bob", bob.Ticket, "key", 3)
	if o.Reason != sale.FewLeft || o.Left != 2 {
		d.Fatalf("Reserve of 3 units of 2 = %+v, want few_left, 2", o)
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 2, Reserved: 3, Backlog: 1, Outstanding: 1})
	o = reserveUnits(d, "bob", bob.Ticket, "key", 2)
	if o.Reason != sale.OK || o.Reservation.Quantity != 2 || o.Left != 0 {
		d.Fatalf("Reserve of 2 units of 2 = %+v", o)
	}
	// A repeated call returns the first reservation, whatever its quantity.
	if again := reserveUnits(d, "bob", bob.Ticket, "key", 1); !again.Repeated || InUTC(again.Reservation) != InUTC(o.Reservation) {
		d.Fatalf("repeated Reserve = %+v, want %+v", again, o.Reservation)
	}
	d.wantDelivered(d.next("worker", 9), 1, ann, o.Reservation)
	d.wantCounts(sale.Counts{Stock: 5, Reserved: 5, Backlog: 2})
	cat := d.admitted("cat")
	d.wantRefused(reserveUnits(d, "cat", cat.Ticket, "", 2), sale.IsAllTaken)
	for i, want := range []bool{true, false} {
		if got := d.returnUnit(ann); got != want {
			d.Fatalf("Return, call %d = %v", i+1, got)
		}
		d.wantCounts(sale.Counts{Stock: 5, Free: 3, Reserved: 2, Backlog: 2, Outstanding: 1})
	}
	if o := reserveUnits(d, "cat", cat.Ticket, "", 3); o.Reason != sale.OK {
		d.Fatalf("Reserve of the returned units = %+v", o)
	}
	// Paid units that were returned are not paid any more.
	if err := d.inventory.SetPaid(d.ctx, "sale", d.epoch, 5); err != nil {
		d.Fatal(err)
	}
	d.returnUnit(o.Reservation)
	d.wantCounts(sale.Counts{Stock: 5, Free: 2, Reserved: 3, Backlog: 3, Paid: 3})
}

// userQuantity checks that the limits of a user count units, not reservations.
func userQuantity(d *tester) {
	d.open(stock(9), userLimit(4))
	d.wantStatus(d.join(wanting(d, "ann", 5)), sale.NoTicket, sale.PerUserLimit)
	first := *d.join(wanting(d, "ann", 2)).Last
	d.wantStatus(d.join(wanting(d, "ann", 3)), sale.Spent, sale.PerUserLimit)
	j := wanting(d, "ann", 2)
	j.MaxUnits = 3
	d.wantStatus(d.join(j), sale.Spent, sale.PerUserLimit)
	a := d.admitted("ann")
	d.wantRefused(reserveUnits(d, "ann", a.Ticket, "", 3), sale.PerUserLimit)
	if st := pollFor(d, "ann", 3); st.Reason != sale.PerUserLimit || st.State != sale.Admitted {
		d.Fatalf("Poll for more than PerUser = %+v", st)
	}
	if o := reserveUnits(d, "ann", a.Ticket, "", 2); o.Reason != sale.OK || o.Reservation.Slot != 2 {
		d.Fatalf("Reserve of 2 more units = %+v, want slot 2", o)
	}
	d.wantStatus(d.join(wanting(d, "ann", 1)), sale.Spent, sale.PerUserLimit)
	d.returnUnit(first)
	if st := d.join(wanting(d, "ann", 2)); st.Last == nil || st.Last.Slot != 1 {
		d.Fatalf("Join after a return = %+v, want slot 1", st)
	}
	d.wantCounts(sale.Counts{Stock: 9, Free: 5, Reserved: 4, Backlog: 3})
	for _, n := range []int{-1, sale.MaxQuantity + 1} {
		_, err := d.inventory.Join(d.ctx, wanting(d, "bob", n))
		d.wantError("Join with an invalid quantity", err, sale.ErrInvalid)
		_, err = d.inventory.Poll(d.ctx, sale.PollRequest{Sale: "sale", Epoch: d.epoch, User: "bob", Quantity: n})
		d.wantError("Poll with an invalid quantity", err, sale.ErrInvalid)
		_, err = d.inventory.Reserve(d.ctx, sale.ReserveRequest{Sale: "sale", Epoch: d.epoch, User: "bob", Ticket: d.id("ticket"), Reservation: d.id("reservation"), Quantity: n})
		d.wantError("Reserve with an invalid quantity", err, sale.ErrInvalid)
	}
}

// fewLeft checks that a ticket that wants more than is free does not hold up the next one.
func fewLeft(d *tester) {
	d.open(stock(3), userLimit(3), d.starts(time.Second))
	d.advance(time.Second)
	d.buy("old")
	d.pause(true)
	rank := map[string]int64{}
	for _, user := range []string{"ann", "bob", "cat"} {
		st := d.join(d.joinRequest(user))
		d.wantStatus(st, sale.Waiting, sale.OK)
		rank[user] = st.Rank
		d.advance(time.Millisecond)
	}
	// While nothing can be reserved, a quantity says nothing.
	d.wantStatus(pollFor(d, "ann", 3), sale.Waiting, sale.OK)
	d.pause(false)
	// Of 2 free units the one ahead can have one.
	d.wantStatus(pollFor(d, "bob", 2), sale.Waiting, sale.OK)
	st := pollFor(d, "ann", 3)
	d.wantStatus(st, sale.Waiting, sale.FewLeft)
	if st.Left != 2 || !st.Absent || st.Rank != rank["ann"] {
		d.Fatalf("Poll for 3 units of 2 = %+v, want 2 left, absent at rank %d", st, rank["ann"])
	}
	d.wantCounts(sale.Counts{Stock: 3, Free: 2, Reserved: 1, Backlog: 1, Waiting: 2})
	if st := pollFor(d, "bob", 1); st.State != sale.Spent {
		d.Fatalf("Poll of the next ticket = %+v, want a unit", st)
	}
	// Later it has its rank again, so that it is before those that came after it.
	d.wantStatus(pollFor(d, "cat", 3), sale.Waiting, sale.FewLeft)
	st = pollFor(d, "ann", 2)
	d.wantStatus(st, sale.Waiting, sale.FewLeft)
	if st.Left != 1 || d.count().Left != 2 {
		d.Fatalf("Poll for 2 units of 1 = %+v, %d left the queue, want 1 unit and 2 tickets", st, d.count().Left)
	}
	d.advance(sale.ReclaimFor - time.Millisecond)
	st = pollFor(d, "ann", 1)
	d.wantStatus(st, sale.Spent, sale.OK)
	d.wantCounts(sale.Counts{Stock: 3, Reserved: 3, Backlog: 3})
	if d.count().Left != 1 {
		d.Fatalf("Counts = %+v, want 1 ticket that left", d.count())
	}
}

// fewLeftAdmitted checks that an admitted ticket keeps its turn.
func fewLeftAdmitted(d *tester) {
	d.open(stock(2), userLimit(3))
	d.wantStatus(d.join(d.joinRequest("ann")), sale.Admitted, sale.OK)
	st := pollFor(d, "ann", 3)
	d.wantStatus(st, sale.Admitted, sale.FewLeft)
	if st.Left != 2 {
		d.Fatalf("Poll for 3 units of 2 = %+v", st)
	}
	d.wantCounts(sale.Counts{Stock: 2, Free: 2, Outstanding: 1})
	d.wantStatus(pollFor(d, "ann", 2), sale.Spent, sale.OK)
}

// quantityEpoch checks that an InitialState and Transfer keep the units of a reservation.
func quantityEpoch(d *tester) {
	before := func(slot, quantity int, user string) sale.Reservation {
		return sale.Reservation{ID: d.id("reservation"), Sale: "sale", Epoch: 1, User: user, Slot: slot, Ticket: d.id("ticket"),
			At: d.clock.Now().UTC().Truncate(time.Millisecond), PayBy: d.clock.Now().UTC().Truncate(time.Millisecond).Add(time.Minute), Quantity: quantity}
	}
	held, pending := before(1, 3, "ann"), before(2, 2, "ann")
	s := d.draft(stock(8), userLimit(5), epoch(2))
	for what, o := range map[string]sale.InitialState{
		"more units than the stock": {Sale: d.draft(stock(4), userLimit(5), epoch(2)), Reserved: []sale.Reservation{held}, Pending: []sale.Reservation{pending}},
		"more units than PerUser":   {Sale: d.draft(stock(8), userLimit(4), epoch(2)), Reserved: []sale.Reservation{held}, Pending: []sale.Reservation{pending}},
		"an impossible quantity":    {Sale: s, Reserved: []sale.Reservation{before(1, -1, "ann")}},
	} {
		d.wantError(what, d.inventory.Open(d.ctx, o), sale.ErrInvalid)
	}
	d.openWith([]sale.Reservation{held}, []sale.Reservation{pending}, stock(8), userLimit(5), epoch(2))
	d.wantCounts(sale.Counts{Stock: 8, Free: 3, Reserved: 5, Backlog: 1})
	d.wantStatus(d.join(wanting(d, "ann", 1)), sale.NoTicket, sale.PerUserLimit)
	for _, test := range []struct {
		r    sale.Reservation
		want bool
	}{
		{before(1, 4, "bob"), false}, // more than are free
		{before(1, 2, "bob"), true},
		{before(2, 4, "bob"), false}, // more than PerUser
		{before(1, 1, "cat"), true},
	} {
		for range 2 {
			if ok, err := d.inventory.Transfer(d.ctx, 2, test.r); ok != test.want || err != nil {
				d.Fatalf("Transfer(%+v) = %v, %v, want %v", test.r, ok, err, test.want)
			}
		}
	}
	d.wantCounts(sale.Counts{Stock: 8, Reserved: 8, Backlog: 3})
	if es := d.next("worker", 9); len(es) != 3 || es[0].Reservation.Quantity != 2 || es[1].Reservation.Quantity != 2 || es[2].Reservation.Units() != 1 {
		d.Fatalf("Next = %+v, want quantities 2, 2, 1", es)
	}
	d.returnUnit(held)
	d.wantCounts(sale.Counts{Stock: 8, Free: 3, Reserved: 5, Backlog: 3})
}
