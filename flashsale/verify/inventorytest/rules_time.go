package inventorytest

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func timeOfSale(d *tester) {
	d.open(lobby(time.Minute), d.starts(4*time.Second), func(s *sale.Sale) { s.EndsAt = s.StartsAt.Add(10 * time.Second) })
	ann := d.join(d.joinRequest("ann"))
	d.join(d.joinRequest("bob"))
	d.advance(4*time.Second - time.Microsecond)
	d.wantRefused(d.reserve("ann", ann.Ticket, ""), sale.NotStarted)
	d.wantStatus(d.poll("ann"), sale.Waiting, sale.OK)
	d.wantStatus(d.pollToBuy("bob"), sale.Waiting, sale.OK)
	d.advance(time.Microsecond)
	d.wantRefused(d.reserve("ann", ann.Ticket, ""), sale.NotAdmitted)
	d.wantStatus(d.poll("ann"), sale.Admitted, sale.OK)
	bob := d.poll("bob")
	if o := d.reserve("ann", ann.Ticket, ""); o.Reason != sale.OK || !o.Reservation.At.Equal(d.clock.Now()) {
		d.Fatalf("Reserve at the start = %+v", o)
	}
	keep(d, 10*time.Second-time.Microsecond, "bob")
	cat := d.join(d.joinRequest("cat"))
	d.wantStatus(cat, sale.Admitted, sale.OK)
	if o := d.reserve("cat", cat.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("Reserve just before the end = %+v", o)
	}
	d.advance(time.Microsecond)
	d.wantStatus(d.status("bob"), sale.Admitted, sale.OK)
	d.wantRefused(d.reserve("bob", bob.Ticket, ""), sale.HasEnded)
	d.wantStatus(d.pollToBuy("bob"), sale.Admitted, sale.OK)
	d.wantStatus(d.join(d.joinRequest("dan")), sale.NoTicket, sale.HasEnded)
	d.wantStatus(d.join(d.joinRequest("bob")), sale.Admitted, sale.OK)
	d.wantCounts(sale.Counts{Stock: 5, Free: 3, Reserved: 2, Backlog: 2, Outstanding: 1})

	// Without a lobby no user can join before the start.
	d.closeAndDrain()
	d.open(epoch(2), d.starts(time.Second), func(s *sale.Sale) { s.Lobby = time.Hour })
	d.wantStatus(d.join(d.joinRequest("ann")), sale.NoTicket, sale.NotStarted)
	d.advance(time.Second)
	d.wantStatus(d.join(d.joinRequest("ann")), sale.Admitted, sale.OK)
}

func pause(d *tester) {
	d.open(paused)
	set := func(on bool) {
		d.Helper()
		if err := d.inventory.SetPaused(d.ctx, "sale", 1, on); err != nil {
			d.Fatal(err)
		}
	}
	st := d.join(d.joinRequest("ann"))
	d.wantStatus(st, sale.Waiting, sale.OK)
	d.wantStatus(d.poll("ann"), sale.Waiting, sale.OK)
	d.wantCounts(sale.Counts{Stock: 5, Free: 5, Waiting: 1, Paused: true})
	set(false)
	set(false)
	d.wantStatus(d.poll("ann"), sale.Admitted, sale.OK)
	set(true)
	d.wantRefused(d.reserve("ann", st.Ticket, ""), sale.IsPaused)
	d.wantStatus(d.status("ann"), sale.Admitted, sale.OK)
	d.wantCounts(sale.Counts{Stock: 5, Free: 5, Outstanding: 1, Paused: true})
	set(false)
	r := d.reserve("ann", st.Ticket, "key").Reservation
	set(true)
	if o := d.reserve("ann", st.Ticket, ""); !o.Repeated || InUTC(o.Reservation) != InUTC(r) {
		d.Fatalf("the same ticket while paused = %+v, want %+v again", o, r)
	}
	if es := d.next("w", 1); len(es) != 1 {
		d.Fatalf("Next while paused = %v", es)
	}
	d.wantError("SetPaused at another epoch", d.inventory.SetPaused(d.ctx, "sale", 2, true), sale.ErrStale)
}

func clockBack(d *tester) {
	d.open(d.starts(time.Second))
	d.advance(2 * time.Second)
	now := d.clock.Now()
	if got := d.count().Now; !got.Equal(now) {
		d.Fatalf("Counts.Now = %v, want %v", got, now)
	}
	st := d.admitted("ann")
	d.advance(-time.Minute)
	if got := d.count().Now; got.Before(now) {
		d.Fatalf("Counts.Now = %v, want %v or later", got, now)
	}
	bob := d.join(d.joinRequest("bob"))
	d.wantStatus(bob, sale.Admitted, sale.OK)
	if bob.Rank <= st.Rank {
		d.Fatalf("bob's rank %d is before ann's %d", bob.Rank, st.Rank)
	}
	if o := d.reserve("ann", st.Ticket, ""); o.Reason != sale.OK || o.Reservation.At.Before(now) {
		d.Fatalf("Reserve with the clock back = %+v", o)
	}
	d.advance(3 * time.Hour)
	d.count()
	d.advance(-2 * time.Hour)
	d.wantStatus(d.join(d.joinRequest("cat")), sale.NoTicket, sale.HasEnded)
}

func openIdempotent(d *tester) {
	d.open(stock(2), headroom(0))
	r := d.buy("ann")
	d.join(d.joinRequest("bob"))
	want := sale.Counts{Stock: 2, Free: 1, Reserved: 1, Backlog: 1, Waiting: 1}
	d.open(stock(9), paused)
	d.wantCounts(want)
	// A later epoch replaces it after its stream is empty, and no earlier epoch returns.
	later := sale.InitialState{Sale: d.draft(epoch(3), stock(2)), Reserved: []sale.Reservation{r}}
	d.wantError("Open while an entry is in the stream", d.inventory.Open(d.ctx, later), sale.ErrConflict)
	d.wantCounts(want)
	if err := d.inventory.Close(d.ctx, "sale", 1); err != nil {
		d.Fatal(err)
	}
	d.wantError("Open while an entry is in the stream of a closed epoch", d.inventory.Open(d.ctx, later), sale.ErrConflict)
	d.closeAndDrain()
	d.openWith([]sale.Reservation{r}, nil, epoch(3), stock(2))
	d.wantCounts(sale.Counts{Stock: 2, Free: 1, Reserved: 1})
	for e := int64(1); e <= 2; e++ {
		d.wantError("Open of an earlier epoch", d.inventory.Open(d.ctx, sale.InitialState{Sale: d.draft(epoch(e))}), sale.ErrStale)
	}
	d.openWith(nil, nil, epoch(3))
	d.wantCounts(sale.Counts{Stock: 2, Free: 1, Reserved: 1})
	// A user of the previous epoch has no ticket, but keeps the reservations.
	d.wantStatus(d.status("bob"), sale.NoTicket, sale.OK)
	if st := d.status("ann"); st.State != sale.NoTicket || len(st.Reserved) != 1 {
		d.Fatalf("Status in the next epoch = %+v", st)
	}
}

func everyMethodStale(d *tester) {
	all := func(what, id string, epoch int64) {
		d.Helper()
		ctx, g := d.ctx, d.inventory
		_, join := g.Join(ctx, sale.JoinRequest{Sale: id, Epoch: epoch, User: "ann", Ticket: d.id("ticket")})
		_, look := g.Status(ctx, id, epoch, "ann")
		_, poll := g.Poll(ctx, sale.PollRequest{Sale: id, Epoch: epoch, User: "ann"})
		_, reserve := g.Reserve(ctx, sale.ReserveRequest{Sale: id, Epoch: epoch, User: "ann", Ticket: d.id("ticket"), Reservation: d.id("reservation")})
		_, transfer := g.Transfer(ctx, epoch, sale.Reservation{ID: d.id("reservation"), Sale: id, Epoch: 1, User: "ann", Ticket: d.id("ticket"), At: d.clock.Now(), PayBy: d.clock.Now()})
		_, giveBack := g.Return(ctx, id, epoch, "ann", d.id("reservation"), true)
		_, count := g.Counts(ctx, id, epoch)
		for name, err := range map[string]error{
			"Join": join, "Status": look, "Poll": poll, "Reserve": reserve, "Return": giveBack, "Transfer": transfer, "Counts": count,
			"SetPaused": g.SetPaused(ctx, id, epoch, true), "SetStock": g.SetStock(ctx, id, epoch, 99),
			"SetPaid":  g.SetPaid(ctx, id, epoch, 99),
			"SetTerms": g.SetTerms(ctx, id, epoch, sale.Terms{Version: 99, EndsAt: d.clock.Now(), PerUser: 1, PayWithin: time.Minute}),
		} {
			d.wantError(name+" "+what, err, sale.ErrStale)
		}
	}
	streams := func(what, id string, epoch int64) {
		d.Helper()
		_, next := d.inventory.Next(d.ctx, id, epoch, "w", 1, time.Minute)
		d.wantError("Next "+what, next, sale.ErrStale)
		d.wantError("Ack "+what, d.inventory.Ack(d.ctx, id, epoch, "1-1"), sale.ErrStale)
		d.wantError("Delete "+what, d.inventory.Delete(d.ctx, id, epoch), sale.ErrStale)
	}
	all("without a state", "sale", 1)
	streams("without a state", "sale", 1)
	d.open(epoch(2))
	d.buy("ann")
	for _, e := range []int64{0, 1, 3} {
		all("at another epoch", "sale", e)
		streams("at another epoch", "sale", e)
	}
	all("of another sale", "other", 2)
	d.wantCounts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1})
	if err := d.inventory.Close(d.ctx, "sale", 2); err != nil {
		d.Fatal(err)
	}
	all("after Close", "sale", 2)
}

func deleted(d *tester) {
	d.open(headroom(0))
	r := d.buy("ann")
	d.join(d.joinRequest("bob"))
	d.wantError("Delete with an entry", d.inventory.Delete(d.ctx, "sale", 1), sale.ErrConflict)
	d.wantCounts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1, Waiting: 1})
	d.ack(d.next("w", 1)[0].ID)
	d.wantError("Delete of another epoch", d.inventory.Delete(d.ctx, "sale", 2), sale.ErrStale)
	if err := d.inventory.Delete(d.ctx, "sale", 1); err != nil {
		d.Fatalf("Delete = %v", err)
	}
	_, err := d.inventory.Status(d.ctx, "sale", 1, "ann")
	d.wantError("Status after Delete", err, sale.ErrStale)
	_, err = d.inventory.Next(d.ctx, "sale", 1, "w", 1, 0)
	d.wantError("Next after Delete", err, sale.ErrStale)
	d.wantError("Delete after Delete", d.inventory.Delete(d.ctx, "sale", 1), sale.ErrStale)

	// Nothing is left, and a closed epoch can be deleted too.
	d.open(epoch(2))
	d.wantStatus(d.status("bob"), sale.NoTicket, sale.OK)
	if d.returnUnit(r) {
		d.Fatal("Return after Delete returned a unit")
	}
	d.wantCounts(sale.Counts{Stock: 5, Free: 5})
	if err := d.inventory.Close(d.ctx, "sale", 2); err != nil {
		d.Fatal(err)
	}
	if err := d.inventory.Delete(d.ctx, "sale", 2); err != nil {
		d.Fatalf("Delete after Close = %v", err)
	}
}
