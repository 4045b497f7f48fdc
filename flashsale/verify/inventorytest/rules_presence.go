package inventorytest

import (
	"fmt"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func presence(d *tester) {
	d.open(stock(0))
	for _, user := range []string{"ann", "bob", "cat"} {
		if st := d.join(d.joinRequest(user)); st.Poll != time.Second || st.Restored || st.Absent {
			d.Fatalf("Join = %+v, want a poll interval of 1s", st)
		}
	}
	d.advance(5*time.Second - time.Millisecond)
	d.wantQueue("ann", "bob", "cat")
	bob := d.poll("bob")
	d.wantStatus(bob, sale.Waiting, sale.OK)
	if bob.Ahead != 1 || bob.Restored || bob.Poll != time.Second {
		d.Fatalf("Poll = %+v, want 1 ahead", bob)
	}
	d.advance(time.Millisecond)
	if st := d.status("ann"); st.State != sale.Waiting || !st.Absent || st.Ahead != 0 {
		d.Fatalf("Status at the deadline = %+v, want absent", st)
	}
	d.wantQueue("bob")
	if n := d.count(); n.Left != 2 {
		d.Fatalf("Left = %d, want 2", n.Left)
	}
	// Status does not make a ticket present, and a full queue has space again.
	j := d.joinRequest("dan")
	j.Max = 2
	d.wantStatus(d.join(j), sale.Waiting, sale.OK)
	d.wantQueue("bob", "dan")
	// Far behind, tickets poll less often and stay longer.
	for i := range 199 {
		d.join(d.joinRequest(fmt.Sprint("far-", i)))
	}
	last := d.join(d.joinRequest("last"))
	if last.Ahead != 201 || last.Poll != 5*time.Second {
		d.Fatalf("Join = %+v, want 201 ahead and a poll interval of 5s", last)
	}
	d.advance(17*time.Second - time.Millisecond)
	if st := d.status("last"); st.Absent || st.Ahead != 0 && st.Ahead > 201 {
		d.Fatalf("Status = %+v, want present", st)
	}
	d.advance(time.Millisecond)
	if st := d.status("last"); !st.Absent {
		d.Fatalf("Status = %+v, want absent after 17s", st)
	}
}

func restored(d *tester) {
	d.open(stock(0))
	ranks := map[string]int64{}
	for _, user := range []string{"ann", "bob"} {
		ranks[user] = d.join(d.joinRequest(user)).Rank
	}
	keep(d, 20*time.Second, "bob")
	d.join(d.joinRequest("cat"))
	d.wantQueue("bob", "cat")
	st := d.poll("ann")
	if st.State != sale.Waiting || !st.Restored || st.Absent || st.Ahead != 0 || st.Rank != ranks["ann"] {
		d.Fatalf("Poll of an absent ticket = %+v, want rank %d and 0 ahead", st, ranks["ann"])
	}
	d.wantQueue("ann", "bob", "cat")
	if st := d.poll("ann"); st.Restored {
		d.Fatalf("Poll again = %+v, want it not restored", st)
	}
	if n := d.count().Left; n != 0 {
		d.Fatalf("Left = %d, want 0 after the ticket was restored", n)
	}
	// Join restores too, up to the last moment.
	d.advance(5*time.Second + sale.ReclaimFor - time.Millisecond)
	st = d.join(d.joinRequest("ann"))
	if !st.Restored || st.Rank != ranks["ann"] {
		d.Fatalf("Join of an absent ticket = %+v, want rank %d", st, ranks["ann"])
	}
	d.advance(5*time.Second + sale.ReclaimFor)
	d.wantStatus(d.poll("ann"), sale.TicketExpired, sale.OK)
	d.wantStatus(d.status("bob"), sale.TicketExpired, sale.OK)
	cat, ann := d.join(d.joinRequest("cat")), d.join(d.joinRequest("ann"))
	if cat.Restored || ann.Restored || ann.Rank <= cat.Rank || cat.Rank <= ranks["bob"] {
		d.Fatalf("Join after the time to restore = %+v and %+v, want new ranks", cat, ann)
	}
	d.wantQueue("cat", "ann")
	if n := d.count().Left; n != 3 {
		d.Fatalf("Left = %d, want 3", n)
	}
}

func manyAbsent(d *tester) {
	const n = 150
	d.open(stock(1), paused)
	for i := range n {
		d.join(d.joinRequest(fmt.Sprint("user-", i)))
	}
	keep(d, 20*time.Second, "user-149")
	d.pause(false)
	// Each call removes some of them, so that the last one is admitted by its third poll at most.
	polls := 0
	for st := d.poll("user-149"); st.State == sale.Waiting; st = d.poll("user-149") {
		if polls++; polls > 3 {
			d.Fatalf("after %d polls: %+v", polls, st)
		}
	}
	if c := d.count(); c.Left != n-1 || c.Waiting != 0 {
		d.Fatalf("Counts = %+v, want %d left", c, n-1)
	}
}

func turnAbsent(d *tester) {
	d.open(stock(1), headroom(1))
	ann := d.join(d.joinRequest("ann"))
	d.wantStatus(ann, sale.Admitted, sale.OK)
	if ann.Poll != time.Second || !ann.Until.Equal(d.clock.Now().Add(30*time.Second)) || ann.Batch != ann.Ticket || !ann.NewTurn {
		d.Fatalf("Join = %+v, want a poll interval of 1s and 30s to reserve", ann)
	}
	d.wantStatus(d.join(d.joinRequest("bob")), sale.Waiting, sale.OK)
	d.advance(5*time.Second - time.Millisecond)
	d.wantStatus(d.poll("bob"), sale.Waiting, sale.OK)
	d.wantCounts(sale.Counts{Stock: 1, Free: 1, Waiting: 1, Outstanding: 1})
	d.advance(time.Millisecond)
	d.wantCounts(sale.Counts{Stock: 1, Free: 1, Waiting: 1})
	if st := d.status("ann"); st.State != sale.Waiting || !st.Absent || st.Rank != ann.Rank {
		d.Fatalf("Status of an absent admission = %+v, want it in the queue", st)
	}
	d.wantRefused(d.reserve("ann", ann.Ticket, ""), sale.NotAdmitted)
	d.wantStatus(d.poll("bob"), sale.Admitted, sale.OK)
	// It is before all others again.
	d.wantStatus(d.join(d.joinRequest("cat")), sale.Waiting, sale.OK)
	if st := d.poll("ann"); st.State != sale.Waiting || !st.Restored || st.Ahead != 0 {
		d.Fatalf("Poll = %+v, want the first position", st)
	}
	d.wantQueue("ann", "cat")
	setStock(d, 2)
	d.wantStatus(d.poll("cat"), sale.Waiting, sale.OK)
	d.wantStatus(d.poll("ann"), sale.Admitted, sale.OK)
	// Presence does not extend an admission.
	keep(d, 30*time.Second, "ann", "cat")
	d.wantStatus(d.poll("ann"), sale.TicketExpired, sale.OK)
	if n := d.count(); n.Turns != 4 || n.Left != 0 {
		d.Fatalf("Counts = %+v, want 4 turns: ann and bob, and ann and cat", n)
	}
}

func ownPoll(d *tester) {
	d.open(stock(2), headroom(1), paused)
	for _, user := range []string{"ann", "bob", "cat", "dan"} {
		d.join(d.joinRequest(user))
	}
	d.wantStatus(d.poll("ann"), sale.Waiting, sale.OK) // paused
	d.pause(false)
	d.wantStatus(d.poll("dan"), sale.Waiting, sale.OK)
	d.wantStatus(d.poll("cat"), sale.Waiting, sale.OK)
	d.wantStatus(d.poll("bob"), sale.Admitted, sale.OK) // one ahead, two free
	d.wantStatus(d.poll("cat"), sale.Waiting, sale.OK)
	d.wantStatus(d.poll("ann"), sale.Admitted, sale.OK)
	d.wantQueue("cat", "dan")
	d.wantStatus(d.poll("cat"), sale.Waiting, sale.OK)
	setStock(d, 3)
	d.wantStatus(d.poll("dan"), sale.Waiting, sale.OK)
	d.wantStatus(d.poll("cat"), sale.Admitted, sale.OK)
	d.wantCounts(sale.Counts{Stock: 3, Free: 3, Waiting: 1, Outstanding: 3})
	d.wantStatus(d.poll("unknown"), sale.NoTicket, sale.OK)
	d.advance(2 * time.Hour)
	setStock(d, 9)
	if st := d.join(d.joinRequest("eve")); st.Reason != sale.HasEnded {
		d.Fatalf("Join after the end = %+v", st)
	}
}

func pollReserves(d *tester) {
	d.open(stock(1), paused)
	ann, bob := d.join(d.joinRequest("ann")), d.join(d.joinRequest("bob"))
	d.wantStatus(d.pollToBuy("ann"), sale.Waiting, sale.OK)
	d.pause(false)
	d.wantStatus(d.pollToBuy("bob"), sale.Waiting, sale.OK) // one ahead, one free
	id := d.id("reservation")
	st := d.pollWith(sale.PollRequest{User: "ann", Reservation: id})
	d.wantStatus(st, sale.Spent, sale.OK)
	want := sale.Reservation{ID: id, Sale: "sale", Epoch: 1, User: "ann", Slot: 1, Ticket: ann.Ticket, At: d.clock.Now(), PayBy: d.clock.Now().Add(15 * time.Minute)}
	if InUTC(*st.Last) != InUTC(want) || len(st.Reserved) != 1 {
		d.Fatalf("Poll = %+v, want %+v", st, want)
	}
	d.wantCounts(sale.Counts{Stock: 1, Reserved: 1, Waiting: 1, Backlog: 1})
	d.wantDelivered(d.next("w", 9), 1, want)
	if o := d.reserve("ann", ann.Ticket, "key"); !o.Repeated || o.Reservation.ID != id {
		d.Fatalf("Reserve with the same ticket = %+v, want it repeated", o)
	}
	if again := d.pollToBuy("ann"); again.State != sale.Spent || again.Last.ID != id {
		d.Fatalf("Poll again = %+v, want the same reservation", again)
	}
	d.wantStatus(d.pollToBuy("bob"), sale.Waiting, sale.OK)
	d.returnUnit(want)
	if st := d.pollToBuy("bob"); st.State != sale.Spent || st.Last.Ticket != bob.Ticket {
		d.Fatalf("Poll = %+v, want a unit", st)
	}
	// An admitted ticket reserves in its poll too.
	setStock(d, 2)
	d.wantStatus(d.admitted("cat"), sale.Admitted, sale.OK)
	d.wantStatus(d.pollToBuy("cat"), sale.Spent, sale.OK)
	d.wantStatus(d.admitted("dan"), sale.Admitted, sale.OK)
	d.wantStatus(d.pollToBuy("dan"), sale.Admitted, sale.OK) // no unit is free
	d.advance(29 * time.Second)
	d.wantStatus(d.status("dan"), sale.Admitted, sale.OK) // it needs no presence
	_, err := d.inventory.Poll(d.ctx, sale.PollRequest{Sale: "sale", Epoch: 1, User: "ann", Reservation: "short"})
	d.wantError("Poll with an invalid reservation", err, sale.ErrInvalid)
	_, err = d.inventory.Poll(d.ctx, sale.PollRequest{Sale: "sale", Epoch: 1, User: ""})
	d.wantError("Poll without a user", err, sale.ErrInvalid)
	_, err = d.inventory.Poll(d.ctx, sale.PollRequest{Sale: "sale", Epoch: 1, User: "ann", MaxBacklog: -1})
	d.wantError("Poll with an invalid bound", err, sale.ErrInvalid)
}

func joinReserves(d *tester) {
	d.open(stock(1))
	j := d.joinRequest("ann")
	j.Reservation = d.id("reservation")
	st := d.join(j)
	d.wantStatus(st, sale.Spent, sale.OK)
	if st.Last.ID != j.Reservation || st.Last.Ticket != j.Ticket {
		d.Fatalf("Join = %+v, want reservation %s", st, j.Reservation)
	}
	d.wantCounts(sale.Counts{Stock: 1, Reserved: 1, Backlog: 1})
	// The same click again returns the same unit.
	j.Reservation = d.id("reservation")
	if again := d.join(j); again.State != sale.Spent || again.Last.ID != st.Last.ID {
		d.Fatalf("Join again = %+v, want %+v", again, st)
	}
	j = d.joinRequest("bob")
	j.Reservation = d.id("reservation")
	d.wantStatus(d.join(j), sale.Waiting, sale.OK)
	// A ticket that has reserved before makes no other one.
	setStock(d, 9)
	d.closeAndDrain()
	d.open(epoch(2), userLimit(3))
	used := d.reserve("ann", d.admitted("ann").Ticket, "").Reservation.Ticket
	d.buy("ann")
	j = d.joinRequest("ann")
	j.Ticket, j.Reservation = used, d.id("reservation")
	if st := d.join(j); st.State != sale.Spent || st.Ticket == used || len(st.Reserved) != 2 {
		d.Fatalf("Join with a used ticket = %+v, want the last ticket", st)
	}
}

func backlogBounds(d *tester) {
	d.open()
	d.buy("zoe")
	j := d.joinRequest("ann")
	j.MaxBacklog = 1
	d.wantStatus(d.join(j), sale.Waiting, sale.OK)
	d.wantStatus(d.pollWith(sale.PollRequest{User: "ann", MaxBacklog: 1}), sale.Waiting, sale.OK)
	d.wantStatus(d.pollWith(sale.PollRequest{User: "ann", MaxBacklog: 1, Reservation: d.id("reservation")}), sale.Waiting, sale.OK)
	d.wantStatus(d.pollWith(sale.PollRequest{User: "ann", MaxBacklog: 2, Reservation: d.id("reservation")}), sale.Spent, sale.OK)
	// Room in the stream belongs to those ahead, in any order of polls.
	for _, user := range []string{"bob", "cat", "dan"} {
		j := d.joinRequest(user)
		j.MaxBacklog, j.Reservation = 2, d.id("reservation")
		d.wantStatus(d.join(j), sale.Waiting, sale.OK)
	}
	poll := func(user, reservation string) sale.TicketStatus {
		d.Helper()
		return d.pollWith(sale.PollRequest{User: user, MaxBacklog: 4, Reservation: reservation})
	}
	j = d.joinRequest("eve")
	j.MaxBacklog, j.Reservation = 4, d.id("reservation")
	d.wantStatus(d.join(j), sale.Waiting, sale.OK)
	d.wantStatus(poll("dan", d.id("reservation")), sale.Waiting, sale.OK)
	d.wantStatus(poll("dan", ""), sale.Waiting, sale.OK)
	d.wantStatus(poll("cat", d.id("reservation")), sale.Spent, sale.OK)
	d.wantStatus(poll("dan", d.id("reservation")), sale.Waiting, sale.OK)
	d.wantStatus(poll("bob", d.id("reservation")), sale.Spent, sale.OK)
}

func penalties(d *tester) {
	d.open(stock(9), func(s *sale.Sale) { s.EndsAt = s.StartsAt.Add(24 * time.Hour) })
	unpaid := func(user string) { d.Helper(); d.returnUnit(d.buy(user)) }
	wait := func(user string) int64 {
		d.Helper()
		j := d.joinRequest(user)
		j.MaxBacklog = 1 // no user is admitted: the stream has entries
		st := d.join(j)
		d.wantStatus(st, sale.Waiting, sale.OK)
		return st.Rank
	}
	// A unit that was paid does not count.
	refunded := d.buy("user-0")
	if yes, err := d.inventory.Return(d.ctx, "sale", d.epoch, "user-0", refunded.ID, false); !yes || err != nil {
		d.Fatalf("Return of a paid unit = %v, %v", yes, err)
	}
	now := d.clock.Now().UnixMicro()
	for n, want := range []int64{0, 15, 30, 60} {
		user := fmt.Sprint("user-", n)
		for range n {
			unpaid(user)
		}
		if n == 0 {
			unpaid("other") // so that the stream has an entry
		}
		late := (wait(user) - now) / 60e6
		if late != want {
			d.Fatalf("after %d unpaid reservations the rank is %d minutes later, want %d", n, late, want)
		}
	}
	// Later users are before them, and their ranks are not the last one.
	d.advance(time.Second)
	if rank := wait("new"); rank != d.clock.Now().UnixMicro() {
		d.Fatalf("a new user has rank %d, want the time, %d", rank, d.clock.Now().UnixMicro())
	}
	d.wantQueue("user-0", "new", "user-1", "user-2", "user-3")
	// Two users can have one penalty at one time.
	unpaid("twin")
	d.advance(-time.Second) // the clock stands still
	unpaid("twin-2")
	if a, b := wait("twin"), wait("twin-2"); a == b {
		d.Fatalf("two users have rank %d", a)
	}
}

func maxUnpaid(d *tester) {
	before := sale.Reservation{ID: d.id("reservation"), Sale: "sale", Epoch: 1, User: "ann", Slot: 2, Ticket: d.id("ticket"),
		At: Start(), PayBy: Start().Add(time.Minute)}
	d.openWith([]sale.Reservation{before}, nil, userLimit(2), epoch(2))
	d.returnUnit(before)
	first := d.admitted("ann")
	r := d.reserve("ann", first.Ticket, "key").Reservation
	d.returnUnit(r)
	for n := 2; n < sale.MaxUnpaid; n++ {
		b := d.buy("ann")
		if b.Slot != 1 {
			d.Fatalf("unit %d is on slot %d", n+1, b.Slot)
		}
		d.returnUnit(b)
	}
	want := d.count()
	d.unchanged("Join after the maximum of unpaid reservations", func() {
		d.wantStatus(d.join(d.joinRequest("ann")), sale.Spent, sale.PerUserLimit)
		j := d.joinRequest("ann")
		j.Batch, j.Until = "batch", d.clock.Now().Add(time.Minute)
		d.wantStatus(d.join(j), sale.Spent, sale.PerUserLimit)
	}, "ann")
	if want.Free != want.Stock {
		d.Fatalf("Counts = %+v, want every unit free", want)
	}
	// Earlier reservations are still repeated, and other users can buy.
	if o := d.reserve("ann", first.Ticket, ""); !o.Repeated || InUTC(o.Reservation) != InUTC(r) {
		d.Fatalf("the first ticket = %+v, want %+v again", o, r)
	}
	d.buy("bob")
	// The next epoch has the number that its initial state names.
	d.closeAndDrain()
	o := sale.InitialState{Sale: d.draft(epoch(3)), Unpaid: map[string]int{"ann": 3, "eve": sale.MaxUnpaid}}
	if err := d.inventory.Open(d.ctx, o); err != nil {
		d.Fatal(err)
	}
	d.epoch = 3
	d.wantStatus(d.join(d.joinRequest("eve")), sale.NoTicket, sale.PerUserLimit)
	j := d.joinRequest("ann")
	setStock(d, 5)
	if st := d.join(j); (st.Rank-d.clock.Now().UnixMicro())/60e6 != 60 {
		d.Fatalf("Join after three unpaid reservations = %+v, want a rank in an hour", st)
	}
	if p, err := d.inventory.Poll(d.ctx, sale.PollRequest{Sale: "sale", Epoch: 3, User: "ann", Reservation: d.id("reservation")}); err != nil || p.State != sale.Spent {
		d.Fatalf("Poll = %+v, %v, want a unit: no user is ahead", p, err)
	}
	d.returnUnit(*d.status("ann").Last)
	d.wantStatus(d.join(d.joinRequest("ann")), sale.Spent, sale.PerUserLimit)
}
