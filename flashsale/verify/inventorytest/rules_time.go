package inventorytest

import (
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func timeOfSale(d *desk) {
	d.open(lobby(time.Minute), d.starts(time.Minute), func(s *sale.Sale) { s.EndsAt = s.StartsAt.Add(10 * time.Second) })
	ann := d.join(d.askJoin("ann"))
	d.join(d.askJoin("bob"))
	d.sleep(time.Minute - time.Microsecond)
	d.refused(d.reserve("ann", ann.Ticket, ""), sale.NotStarted)
	d.sleep(time.Microsecond)
	d.refused(d.reserve("ann", ann.Ticket, ""), sale.NotAdmitted)
	d.admit(2)
	if o := d.reserve("ann", ann.Ticket, ""); o.Reason != sale.OK || !o.Reservation.At.Equal(d.clock.Now()) {
		d.Fatalf("Reserve at the start = %+v", o)
	}
	bob := d.look("bob")
	d.sleep(10*time.Second - time.Microsecond)
	cat := d.join(d.askJoin("cat"))
	d.stands(cat, sale.Waiting, sale.OK)
	d.admit(1)
	if o := d.reserve("cat", cat.Ticket, ""); o.Reason != sale.OK {
		d.Fatalf("Reserve just before the end = %+v", o)
	}
	d.sleep(time.Microsecond)
	d.stands(d.look("bob"), sale.Admitted, sale.OK)
	d.refused(d.reserve("bob", bob.Ticket, ""), sale.HasEnded)
	d.stands(d.join(d.askJoin("dan")), sale.NoTicket, sale.HasEnded)
	d.stands(d.join(d.askJoin("bob")), sale.Admitted, sale.OK)
	d.counts(sale.Counts{Stock: 5, Free: 3, Reserved: 2, Backlog: 2, Outstanding: 1})

	// Nobody waits for the start of a sale that is first come first served.
	d.closeAndDrain()
	d.open(epoch(2), d.starts(time.Second), func(s *sale.Sale) { s.Lobby = time.Hour })
	d.stands(d.join(d.askJoin("ann")), sale.NoTicket, sale.NotStarted)
	d.sleep(time.Second)
	d.stands(d.join(d.askJoin("ann")), sale.Waiting, sale.OK)
}

func pause(d *desk) {
	d.open(onHold)
	set := func(on bool) {
		d.Helper()
		if err := d.gate.SetPaused(d.ctx, "sale", 1, on); err != nil {
			d.Fatal(err)
		}
	}
	st := d.join(d.askJoin("ann"))
	d.stands(st, sale.Waiting, sale.OK)
	if n := d.admit(1); n != 0 {
		d.Fatalf("Admit while paused = %d", n)
	}
	d.counts(sale.Counts{Stock: 5, Free: 5, Waiting: 1, Paused: true})
	set(false)
	set(false)
	d.admit(1)
	set(true)
	d.refused(d.reserve("ann", st.Ticket, ""), sale.IsPaused)
	d.stands(d.look("ann"), sale.Admitted, sale.OK)
	d.counts(sale.Counts{Stock: 5, Free: 5, Outstanding: 1, Paused: true})
	set(false)
	r := d.reserve("ann", st.Ticket, "key").Reservation
	set(true)
	if o := d.reserve("ann", st.Ticket, ""); !o.Repeated || utc(o.Reservation) != utc(r) {
		d.Fatalf("the same ticket while paused = %+v, want %+v again", o, r)
	}
	if es := d.next("w", 1); len(es) != 1 {
		d.Fatalf("Next while paused = %v", es)
	}
	d.is("SetPaused at another epoch", d.gate.SetPaused(d.ctx, "sale", 2, true), sale.ErrStale)
}

func clockBack(d *desk) {
	d.open(d.starts(time.Second))
	d.sleep(2 * time.Second)
	now := d.clock.Now()
	if got := d.count().Now; !got.Equal(now) {
		d.Fatalf("Count.Now = %v, want %v", got, now)
	}
	st := d.turn("ann")
	d.sleep(-time.Minute)
	if got := d.count().Now; got.Before(now) {
		d.Fatalf("Count.Now = %v, ran back from %v", got, now)
	}
	bob := d.join(d.askJoin("bob"))
	d.stands(bob, sale.Waiting, sale.OK)
	if bob.Rank <= st.Rank {
		d.Fatalf("bob's rank %d is before ann's %d", bob.Rank, st.Rank)
	}
	if o := d.reserve("ann", st.Ticket, ""); o.Reason != sale.OK || o.Reservation.At.Before(now) {
		d.Fatalf("Reserve with the clock back = %+v", o)
	}
	d.sleep(3 * time.Hour)
	d.count()
	d.sleep(-2 * time.Hour)
	d.stands(d.join(d.askJoin("cat")), sale.NoTicket, sale.HasEnded)
}

func openIdempotent(d *desk) {
	d.open(stock(2))
	r := d.buy("ann")
	d.join(d.askJoin("bob"))
	want := sale.Counts{Stock: 2, Free: 1, Reserved: 1, Backlog: 1, Waiting: 1}
	d.open(stock(9), onHold)
	d.counts(want)
	// A later epoch takes its place when its stream is empty, and no earlier one comes back.
	later := sale.InitialState{Sale: d.draft(epoch(3), stock(2)), Reserved: []sale.Reservation{r}}
	d.is("Open while an entry is in the stream", d.gate.Open(d.ctx, later), sale.ErrConflict)
	d.counts(want)
	if err := d.gate.Close(d.ctx, "sale", 1); err != nil {
		d.Fatal(err)
	}
	d.is("Open while an entry is in the stream of a closed epoch", d.gate.Open(d.ctx, later), sale.ErrConflict)
	d.closeAndDrain()
	d.openWith([]sale.Reservation{r}, nil, epoch(3), stock(2))
	d.counts(sale.Counts{Stock: 2, Free: 1, Reserved: 1})
	for e := int64(1); e <= 2; e++ {
		d.is("Open of an earlier epoch", d.gate.Open(d.ctx, sale.InitialState{Sale: d.draft(epoch(e))}), sale.ErrStale)
	}
	d.openWith(nil, nil, epoch(3))
	d.counts(sale.Counts{Stock: 2, Free: 1, Reserved: 1})
	// A user of the epoch before is nobody, but for the units.
	d.stands(d.look("bob"), sale.NoTicket, sale.OK)
	if st := d.look("ann"); st.State != sale.NoTicket || len(st.Reserved) != 1 {
		d.Fatalf("Look after an epoch = %+v", st)
	}
}

func everyMethodStale(d *desk) {
	all := func(what, id string, epoch int64) {
		d.Helper()
		ctx, g := d.ctx, d.gate
		_, join := g.Join(ctx, sale.JoinRequest{Sale: id, Epoch: epoch, User: "ann", Ticket: d.id("ticket")})
		_, look := g.Status(ctx, id, epoch, "ann")
		_, admit := g.Admit(ctx, id, epoch, "batch", 1, d.clock.Now().Add(time.Minute))
		_, reserve := g.Reserve(ctx, sale.ReserveRequest{Sale: id, Epoch: epoch, User: "ann", Ticket: d.id("ticket"), Reservation: d.id("reservation")})
		_, giveBack := g.Return(ctx, id, epoch, "ann", d.id("reservation"))
		_, count := g.Counts(ctx, id, epoch)
		for name, err := range map[string]error{
			"Join": join, "Look": look, "Admit": admit, "Reserve": reserve, "Return": giveBack, "Count": count,
			"SetPaused": g.SetPaused(ctx, id, epoch, true), "SetStock": g.SetStock(ctx, id, epoch, 99),
			"SetPaid": g.SetPaid(ctx, id, epoch, 99),
		} {
			d.is(name+" "+what, err, sale.ErrStale)
		}
	}
	streams := func(what, id string, epoch int64) {
		d.Helper()
		_, next := d.gate.Next(d.ctx, id, epoch, "w", 1, time.Minute)
		d.is("Next "+what, next, sale.ErrStale)
		d.is("Done "+what, d.gate.Ack(d.ctx, id, epoch, "1-1"), sale.ErrStale)
		d.is("Drop "+what, d.gate.Delete(d.ctx, id, epoch), sale.ErrStale)
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
	d.counts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1})
	if err := d.gate.Close(d.ctx, "sale", 2); err != nil {
		d.Fatal(err)
	}
	all("after Close", "sale", 2)
}

func drop(d *desk) {
	d.open()
	r := d.buy("ann")
	d.join(d.askJoin("bob"))
	d.is("Drop with an entry", d.gate.Delete(d.ctx, "sale", 1), sale.ErrConflict)
	d.counts(sale.Counts{Stock: 5, Free: 4, Reserved: 1, Backlog: 1, Waiting: 1})
	d.done(d.next("w", 1)[0].ID)
	d.is("Drop of another epoch", d.gate.Delete(d.ctx, "sale", 2), sale.ErrStale)
	if err := d.gate.Delete(d.ctx, "sale", 1); err != nil {
		d.Fatalf("Drop = %v", err)
	}
	_, err := d.gate.Status(d.ctx, "sale", 1, "ann")
	d.is("Look after Drop", err, sale.ErrStale)
	_, err = d.gate.Next(d.ctx, "sale", 1, "w", 1, 0)
	d.is("Next after Drop", err, sale.ErrStale)
	d.is("Drop after Drop", d.gate.Delete(d.ctx, "sale", 1), sale.ErrStale)

	// Nothing is left, and what is closed can be dropped too.
	d.open(epoch(2))
	d.stands(d.look("bob"), sale.NoTicket, sale.OK)
	if d.giveBack(r) {
		d.Fatal("Return of what was dropped gave back a unit")
	}
	d.counts(sale.Counts{Stock: 5, Free: 5})
	if err := d.gate.Close(d.ctx, "sale", 2); err != nil {
		d.Fatal(err)
	}
	if err := d.gate.Delete(d.ctx, "sale", 2); err != nil {
		d.Fatalf("Drop after Close = %v", err)
	}
}
