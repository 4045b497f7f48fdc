package inventorytest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Run checks the rules of sale.Inventory, one subtest for each by its number, and what the
// comments of its methods say.
func Run(t *testing.T, open Open) {
	for _, test := range []struct {
		name string
		run  func(*tester)
	}{
		{"1 units add up", unitsAddUp},
		{"1 stock grows and never shrinks", stockGrows},
		{"what is paid is never fewer", paidNeverFewer},
		{"2 a refused call changes nothing", refusalsChangeNothing},
		{"2 what cannot be right is refused", badArguments},
		{"2 reasons come in order", reasonsInOrder},
		{"3 a user holds as many as allowed", perUser},
		{"3 a slot is used again", slotsAgain},
		{"4 a ticket reserves once", ticketOnce},
		{"4 a key reserves once", keyOnce},
		{"4 a replay after a return", replayReturned},
		{"4 a replay after an epoch", replayEpoch},
		{"4 a ticket is its user's", ticketOfAnother},
		{"5 the line is first come first served", fifo},
		{"5 lots before the start, ranks after it", lots},
		{"5 ranks are restored", restoredRanks},
		{"5 a line with many places", longQueue},
		{"5 a rank is for the first ticket", rankOnce},
		{"6 entries stand until done", untilAck},
		{"6 entries of a dead worker are delivered again", redelivered},
		{"6 workers share entries", workersShare},
		{"6 a closed stream is read to its end", closedStream},
		{"6 a worker waits for entries", workerWaits},
		{"6 entries of an earlier epoch", entriesBefore},
		{"7 a unit is returned once", returnedOnce},
		{"8 the time of a sale", timeOfSale},
		{"8 a pause", pause},
		{"8 the clock never runs back", clockBack},
		{"9 a user gets so many and no more", maxReservations},
		{"Open is idempotent", openIdempotent},
		{"every method knows its epoch", everyMethodStale},
		{"Drop forgets", deleted},
		{"Admit", admit},
		{"a turn passes", admissionExpires},
		{"Direct", direct},
		{"a queue is full", queueFull},
		{"Join tells where one stands", joinAgain},
		{"Count", count},
		{"two sales do not meet", twoSales},
	} {
		t.Run(test.name, func(t *testing.T) {
			clock := NewClock()
			test.run(&tester{T: t, inventory: open(t, clock), clock: clock, ctx: context.Background()})
		})
	}
}

// A desk is an Inventory with what tests do to it. It asks about the sale "sale" at its epoch.
type tester struct {
	*testing.T
	inventory sale.Inventory
	clock     *Clock
	ctx       context.Context
	epoch     int64
	n         int
}

// draft is a sale that started a second ago: five units, one for each user.
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
func userLimit(n int) func(*sale.Sale)        { return func(s *sale.Sale) { s.PerUser = n } }
func epoch(n int64) func(*sale.Sale)          { return func(s *sale.Sale) { s.Epoch = n } }
func paused(s *sale.Sale)                     { s.State = sale.Paused }
func queueType(q sale.Queue) func(*sale.Sale) { return func(s *sale.Sale) { s.Queue = q } }
func lobby(l time.Duration) func(*sale.Sale) {
	return func(s *sale.Sale) { s.Queue, s.Lobby = sale.Shuffled, l }
}

// starts moves a sale's start to that far from now.
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
		d.Fatalf("Look(%s) = %v", user, err)
	}
	return st
}

func (d *tester) admit(n int) int {
	d.Helper()
	got, err := d.inventory.Admit(d.ctx, "sale", d.epoch, d.id("batch"), n, d.clock.Now().Add(30*time.Second))
	if err != nil {
		d.Fatalf("Admit(%d) = %v", n, err)
	}
	return got
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

// turn joins, if need be, and admits all who wait.
func (d *tester) admitted(user string) sale.TicketStatus {
	d.Helper()
	d.join(d.joinRequest(user))
	for d.admit(1000) > 0 {
	}
	st := d.status(user)
	if st.State != sale.Admitted {
		d.Fatalf("%s is not admitted: %+v", user, st)
	}
	return st
}

// buy reserves a unit for a user from nothing.
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
	yes, err := d.inventory.Return(d.ctx, "sale", d.epoch, r.User, r.ID)
	if err != nil {
		d.Fatalf("Return(%s) = %v", r.ID, err)
	}
	return yes
}

func (d *tester) count() sale.Counts {
	d.Helper()
	n, err := d.inventory.Counts(d.ctx, "sale", d.epoch)
	if err != nil {
		d.Fatalf("Count = %v", err)
	}
	n.Now = n.Now.UTC()
	return n
}

// counts checks everything that is counted but the time.
func (d *tester) wantCounts(want sale.Counts) {
	d.Helper()
	want.Now = d.clock.Now().Truncate(time.Millisecond)
	if got := d.count(); got != want {
		d.Fatalf("Count = %+v, want %+v", got, want)
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
		d.Fatalf("Done(%v) = %v", ids, err)
	}
}

// delivered checks whose reservations were delivered, and for which time.
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

// sleep moves the clock.
func (d *tester) advance(t time.Duration) { d.clock.Move(t) }

// is checks an error.
func (d *tester) wantError(what string, err, want error) {
	d.Helper()
	if !errors.Is(err, want) {
		d.Fatalf("%s = %v, want %v", what, err, want)
	}
}

// stands checks a place and the reason why there is no better one.
func (d *tester) wantStatus(st sale.TicketStatus, place sale.TicketState, why sale.Reason) {
	d.Helper()
	if st.State != place || st.Reason != why || (st.Ticket == "") != (place == sale.NoTicket) || (st.Last != nil) != (place == sale.Spent) ||
		(st.Batch != "") != (place == sale.Admitted) || st.Until.IsZero() != (place != sale.Admitted) {
		d.Fatalf("stands %+v, want %s, reason %q", st, place, why)
	}
}

// refused checks a refusal of Reserve.
func (d *tester) wantRefused(o sale.ReserveResult, why sale.Reason) {
	d.Helper()
	if o.Reason != why || o.Repeated {
		d.Fatalf("Reserve = %+v, want reason %q", o, why)
	}
}
