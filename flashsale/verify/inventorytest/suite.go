package inventorytest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Run checks the numbered rules of sale.Inventory, one subtest each, and the documentation of
// its methods.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*tester)
	}{
		{"1 units add up", unitsAddUp},
		{"1 stock never decreases", stockGrows},
		{"the paid count never decreases", paidNeverFewer},
		{"terms that an edit changes", terms},
		{"2 a refused call changes nothing", refusalsChangeNothing},
		{"2 invalid arguments are refused", badArguments},
		{"2 reasons come in order", reasonsInOrder},
		{"3 a user has at most the allowed units", perUser},
		{"3 a user may hold fewer units than others", maxUnits},
		{"3 a slot is reused", slotsAgain},
		{"3 a reservation has all its units or none", allOrNone},
		{"3 the limit of a user counts units", userQuantity},
		{"3 a later epoch keeps the units of a reservation", quantityEpoch},
		{"4 a ticket reserves once", ticketOnce},
		{"4 a key reserves once", keyOnce},
		{"4 a replay after a return", replayReturned},
		{"4 a replay after an epoch", replayEpoch},
		{"4 a ticket belongs to its user", ticketOfAnother},
		{"5 the queue is first come first served", fifo},
		{"5 lots before the start, ranks after it", lots},
		{"5 ranks are restored", restoredRanks},
		{"5 a long queue", longQueue},
		{"5 a rank counts for the first ticket only", rankOnce},
		{"6 entries stay until acknowledged", untilAck},
		{"6 entries of a dead worker are redelivered", redelivered},
		{"6 workers share entries", workersShare},
		{"6 a closed stream can be drained", closedStream},
		{"6 a worker waits for entries", workerWaits},
		{"6 a worker that stops is reported once", stoppedWorker},
		{"6 entries of an earlier epoch", entriesBefore},
		{"6 a reservation is transferred once", transferredOnce},
		{"6 a transfer is refused", transferRefused},
		{"7 a unit is returned once", returnedOnce},
		{"8 the time of a sale", timeOfSale},
		{"8 a pause", pause},
		{"8 the clock never goes backwards", clockBack},
		{"10 a ticket is present until its deadline", presence},
		{"11 an absent ticket is restored for a while", restored},
		{"11 many tickets become absent at once", manyAbsent},
		{"11 an admitted ticket returns to the queue", turnAbsent},
		{"12 a ticket is admitted by its own poll", ownPoll},
		{"12 a poll reserves a unit", pollReserves},
		{"12 a join reserves a unit", joinReserves},
		{"12 a ticket that wants more than is free waits aside", fewLeft},
		{"12 an admitted ticket that wants more than is free", fewLeftAdmitted},
		{"12 the stream bounds admissions", backlogBounds},
		{"13 ranks after unpaid reservations", penalties},
		{"13 a user has a maximum of unpaid reservations", maxUnpaid},
		{"Open is idempotent", openIdempotent},
		{"every method checks the epoch", everyMethodStale},
		{"Delete", deleted},
		{"an admission expires", admissionExpires},
		{"Direct", direct},
		{"a full queue", queueFull},
		{"Join returns the status", joinAgain},
		{"Counts", count},
		{"two sales are independent", twoSales},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := NewClock()
			test.run(&tester{T: t, inventory: open(t, clock), clock: clock, ctx: context.Background()})
		})
	}
}

// A tester wraps an Inventory under test. Its calls are about the sale "sale" at its epoch.
type tester struct {
	*testing.T
	inventory sale.Inventory
	clock     *Clock
	ctx       context.Context
	epoch     int64
	n         int
}

// draft returns a sale that started a second ago, with five units and one per user.
func (d *tester) draft(change ...func(s *sale.Sale)) sale.Sale {
	now := d.clock.Now()
	s := sale.Sale{ID: "sale", Epoch: 1, State: sale.Exposed, Draft: sale.Draft{
		SKU: "sku", Title: "title", Currency: "CNY", Stock: 5, PerUser: 1, Headroom: 3, Queue: sale.Fifo,
		StartsAt: now.Add(-time.Second), EndsAt: now.Add(time.Hour), PayWithin: 15 * time.Minute, TokenFor: 30 * time.Second,
	}}
	for _, c := range change {
		c(&s)
	}
	return s
}

func stock(n int64) func(*sale.Sale)          { return func(s *sale.Sale) { s.Stock = n } }
func headroom(n int) func(*sale.Sale)         { return func(s *sale.Sale) { s.Headroom = n } }
func userLimit(n int) func(*sale.Sale)        { return func(s *sale.Sale) { s.PerUser = n } }
func epoch(n int64) func(*sale.Sale)          { return func(s *sale.Sale) { s.Epoch = n } }
func paused(s *sale.Sale)                     { s.State = sale.Paused }
func queueType(q sale.Queue) func(*sale.Sale) { return func(s *sale.Sale) { s.Queue = q } }
func lobby(l time.Duration) func(*sale.Sale) {
	return func(s *sale.Sale) { s.Queue, s.Lobby = sale.Shuffled, l }
}

// starts sets a sale's start relative to now.
func (d *tester) starts(in time.Duration) func(*sale.Sale) {
	return func(s *sale.Sale) { s.StartsAt, s.EndsAt = d.clock.Now().Add(in), d.clock.Now().Add(in+time.Hour) }
}

func (d *tester) open(change ...func(*sale.Sale)) { d.Helper(); d.openWith(nil, nil, change...) }

func (d *tester) openWith(holds, before []sale.Reservation, change ...func(*sale.Sale)) {
	d.Helper()
	s := d.draft(change...)
	if err := d.inventory.Open(d.ctx, sale.InitialState{Sale: s, Reserved: holds, Pending: before}); err != nil {
		d.Fatalf("Open(%+v) = %v", s, err)
	}
	d.epoch = s.Epoch
}

func (d *tester) id(kind string) string { d.n++; return fmt.Sprintf("%s-%012d", kind, d.n) }

func (d *tester) joinRequest(user string) sale.JoinRequest {
	return sale.JoinRequest{Sale: "sale", Epoch: d.epoch, User: user, Ticket: d.id("ticket")}
}

func (d *tester) join(j sale.JoinRequest) sale.TicketStatus {
	d.Helper()
	st, err := d.inventory.Join(d.ctx, j)
	if err != nil {
		d.Fatalf("Join(%+v) = %v", j, err)
	}
	return st
}

func (d *tester) status(user string) sale.TicketStatus {
	d.Helper()
	st, err := d.inventory.Status(d.ctx, "sale", d.epoch, user)
	if err != nil {
		d.Fatalf("Status(%s) = %v", user, err)
	}
	return st
}

func (d *tester) poll(user string) sale.TicketStatus {
	d.Helper()
	return d.pollWith(sale.PollRequest{User: user})
}

// pollToBuy polls and reserves a unit if the user's turn has come.
func (d *tester) pollToBuy(user string) sale.TicketStatus {
	d.Helper()
	return d.pollWith(sale.PollRequest{User: user, Reservation: d.id("reservation")})
}

func (d *tester) pollWith(p sale.PollRequest) sale.TicketStatus {
	d.Helper()
	p.Sale, p.Epoch = "sale", d.epoch
	st, err := d.inventory.Poll(d.ctx, p)
	if err != nil {
		d.Fatalf("Poll(%+v) = %v", p, err)
	}
	return st
}

// keep moves the clock while users poll every four seconds, the first time at once.
func keep(d *tester, t time.Duration, users ...string) {
	d.Helper()
	for t > 0 {
		for _, user := range users {
			d.poll(user)
		}
		step := min(t, 4*time.Second)
		d.advance(step)
		t -= step
	}
}

func (d *tester) pause(on bool) {
	d.Helper()
	if err := d.inventory.SetPaused(d.ctx, "sale", d.epoch, on); err != nil {
		d.Fatal(err)
	}
}

func setStock(d *tester, n int64) {
	d.Helper()
	if err := d.inventory.SetStock(d.ctx, "sale", d.epoch, n); err != nil {
		d.Fatal(err)
	}
}

func (d *tester) reserve(user, ticket, key string) sale.ReserveResult {
	d.Helper()
	a := sale.ReserveRequest{Sale: "sale", Epoch: d.epoch, User: user, Ticket: ticket, Key: key, Reservation: d.id("reservation")}
	o, err := d.inventory.Reserve(d.ctx, a)
	if err != nil {
		d.Fatalf("Reserve(%+v) = %v", a, err)
	}
	if o.Reason == sale.OK && !o.Repeated && o.Reservation.ID != a.Reservation || o.Reason != sale.OK && o.Reservation != (sale.Reservation{}) {
		d.Fatalf("Reserve(%+v) = %+v", a, o)
	}
	return o
}

// admitted makes the user join with an admission of 30 s that needs no presence.
func (d *tester) admitted(user string) sale.TicketStatus {
	d.Helper()
	j := d.joinRequest(user)
	j.Batch, j.Until = d.id("batch"), d.clock.Now().Add(30*time.Second)
	st := d.join(j)
	if st.State != sale.Admitted {
		d.Fatalf("%s is not admitted: %+v", user, st)
	}
	return st
}

// buy lets a user join, be admitted and reserve a unit.
func (d *tester) buy(user string) sale.Reservation {
	d.Helper()
	o := d.reserve(user, d.admitted(user).Ticket, "")
	if o.Reason != sale.OK || o.Repeated {
		d.Fatalf("Reserve of %s = %+v", user, o)
	}
	return o.Reservation
}

func (d *tester) returnUnit(r sale.Reservation) bool {
	d.Helper()
	yes, err := d.inventory.Return(d.ctx, "sale", d.epoch, r.User, r.ID, true)
	if err != nil {
		d.Fatalf("Return(%s) = %v", r.ID, err)
	}
	return yes
}

func (d *tester) count() sale.Counts {
	d.Helper()
	n, err := d.inventory.Counts(d.ctx, "sale", d.epoch)
	if err != nil {
		d.Fatalf("Counts = %v", err)
	}
	n.Now = n.Now.UTC()
	return n
}

// wantCounts checks all counters except Turns and Left.
func (d *tester) wantCounts(want sale.Counts) {
	d.Helper()
	want.Now = d.clock.Now().Truncate(time.Millisecond)
	got := d.count()
	got.Turns, got.Left = 0, 0
	if got != want {
		d.Fatalf("Counts = %+v, want %+v", got, want)
	}
}

func (d *tester) next(worker string, max int) []sale.Entry {
	d.Helper()
	es, err := d.inventory.Next(d.ctx, "sale", d.epoch, worker, max, 0)
	if err != nil {
		d.Fatalf("Next(%s) = %v", worker, err)
	}
	return es
}

func (d *tester) ack(ids ...string) {
	d.Helper()
	if err := d.inventory.Ack(d.ctx, "sale", d.epoch, ids...); err != nil {
		d.Fatalf("Ack(%v) = %v", ids, err)
	}
}

// wantDelivered checks the delivered reservations and their number of deliveries.
func (d *tester) wantDelivered(es []sale.Entry, deliveries int, rs ...sale.Reservation) {
	d.Helper()
	ok := len(es) == len(rs)
	for i := range es {
		es[i].Reservation = InUTC(es[i].Reservation)
		ok = ok && es[i].Reservation == InUTC(rs[i]) && es[i].Deliveries == deliveries && es[i].Corrupt == "" && es[i].ID != ""
	}
	if !ok {
		d.Fatalf("Next = %+v, want delivery %d of %+v", es, deliveries, rs)
	}
}

// advance moves the clock.
func (d *tester) advance(t time.Duration) { d.clock.Move(t) }

// wantError checks an error.
func (d *tester) wantError(what string, err, want error) {
	d.Helper()
	if !errors.Is(err, want) {
		d.Fatalf("%s = %v, want %v", what, err, want)
	}
}

// wantStatus checks the state of a ticket and the reason of a refusal.
func (d *tester) wantStatus(st sale.TicketStatus, place sale.TicketState, why sale.Reason) {
	d.Helper()
	if st.State != place || st.Reason != why || (st.Ticket == "") != (place == sale.NoTicket) || (st.Last != nil) != (place == sale.Spent) ||
		(st.Batch != "") != (place == sale.Admitted) || st.Until.IsZero() != (place != sale.Admitted) {
		d.Fatalf("status %+v, want %s, reason %q", st, place, why)
	}
}

// wantRefused checks a refusal of Reserve.
func (d *tester) wantRefused(o sale.ReserveResult, why sale.Reason) {
	d.Helper()
	if o.Reason != why || o.Repeated {
		d.Fatalf("Reserve = %+v, want reason %q", o, why)
	}
}
