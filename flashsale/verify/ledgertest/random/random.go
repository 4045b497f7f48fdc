// Package random compares a sale.Ledger with a simple model by random commands.
package random

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
)

// Run sends random commands to a Ledger and to a model, and compares every result. It starts
// again with new sales after each few hundred commands. The commands follow from the seed, which is
// printed. If it is 0, it is random.
func Run(t *testing.T, l sale.Ledger, seed uint64, commands int) {
	seed = cmp.Or(seed, mathrand.Uint64())
	t.Logf("%d commands of seed %d", commands, seed)
	r := mathrand.New(mathrand.NewPCG(seed, 1))
	for done := 0; done < commands; {
		g := newComparison(t, l, r)
		for range min(500, commands-done) {
			g.step()
			done++
		}
		g.checkAll()
	}
}

// A comparison is a Ledger and a model that receive the same commands.
type comparison struct {
	sale.Ledger
	t            *testing.T
	ctx          context.Context
	model        *model
	r            *mathrand.Rand
	now          time.Time
	sales        []sale.Sale
	reservations []sale.Reservation
	steps        int
	last         string // the last command
	prefix       string // of the IDs of payments
}

// must fails the test unless err is nil.
func (g *comparison) must(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatalf("step %d, %s: %v", g.steps, g.last, err)
	}
}

func newComparison(t *testing.T, l sale.Ledger, r *mathrand.Rand) *comparison {
	g := &comparison{Ledger: l, t: t, ctx: t.Context(), model: newModel(), r: r, now: ledgertest.Start(), prefix: rand.Text()}
	// Expire and return what the previous comparison left.
	for more := true; more; {
		got, err := g.Expire(g.ctx, ledgertest.Start().AddDate(1, 0, 0), 1000)
		g.must(err)
		more = len(got) > 0
	}
	for {
		got, err := g.Unreturned(g.ctx, 1000)
		g.must(err)
		if len(got) == 0 {
			break
		}
		for _, o := range got {
			g.must(g.MarkReturned(g.ctx, o.ID))
		}
	}
	for range 2 {
		draft := ledgertest.Draft(int64(1+r.IntN(12)), 1+r.IntN(4))
		draft.MaxQuantity = 1 + r.IntN(draft.PerUser)
		s, err := g.Create(g.ctx, "shop", "", draft, ledgertest.Start())
		g.must(err)
		g.sales = append(g.sales, s)
		g.model.sales[s.ID] = &modelSale{stock: s.Stock, perUser: s.PerUser, max: s.MaxQuantity, state: sale.Drafted, added: map[string]int64{}}
		g.state(s.ID, sale.Exposed, "", sale.Drafted)
	}
	return g
}

func (g *comparison) step() {
	g.steps++
	g.now = g.now.Add(time.Duration(g.r.IntN(1500)) * time.Millisecond)
	switch n := g.r.IntN(100); {
	case n < 30:
		g.createOrders()
	case n < 52:
		g.pay()
	case n < 60:
		o := g.pick()
		user := o.User
		if g.r.IntN(8) == 0 {
			user = "other"
		}
		g.last = fmt.Sprintf("Cancel %s of %s", o.ID, user)
		_, err := g.Cancel(g.ctx, user, o.ID, g.now)
		g.same(err, g.model.cancel(user, o.ID))
	case n < 68:
		g.expire()
	case n < 74:
		g.markReturned()
	case n < 78:
		o := g.pick()
		g.last = "MarkLost " + o.ID
		err := g.MarkLost(g.ctx, o, g.now)
		var want error
		if !g.model.markLost(o) {
			want = sale.ErrConflict
		}
		g.same(err, want)
	case n < 84:
		s := g.sales[g.r.IntN(2)]
		key, units := fmt.Sprint("k", g.r.IntN(5)), int64(1+g.r.IntN(2))
		g.last = fmt.Sprintf("AddStock %s %s %d", s.ID, key, units)
		_, err := g.AddStock(g.ctx, "shop", s.ID, key, units, g.now)
		g.same(err, g.model.addStock(s.ID, key, units))
	case n < 90:
		g.setAnyState()
	case n < 95:
		g.recover()
	case n < 97:
		g.setContact()
	case n < 99:
		g.refundBy()
	default:
		g.checkOrder()
	}
}

// pick returns an existing reservation or a new one.
func (g *comparison) pick() sale.Reservation {
	if len(g.reservations) > 0 && g.r.IntN(5) > 0 {
		return g.reservations[g.r.IntN(len(g.reservations))]
	}
	s := g.sales[g.r.IntN(2)]
	r := ledgertest.Reservation(s, fmt.Sprint("u", g.r.IntN(8)), 1+g.r.IntN(3))
	r.Quantity = 1 + g.r.IntN(3)*g.r.IntN(2)
	r.At, r.PayBy = g.now, g.now.Add(time.Duration(g.r.IntN(60_000))*time.Millisecond)
	if len(g.reservations) > 0 && g.r.IntN(6) == 0 {
		r.Ticket = g.reservations[g.r.IntN(len(g.reservations))].Ticket
	}
	g.reservations = append(g.reservations, r)
	return r
}

func (g *comparison) createOrders() {
	rs := make([]sale.Reservation, 1+g.r.IntN(5))
	want := make([]sale.OrderResult, len(rs))
	// Mostly the earliest epoch of a sale; the reservations of later ones are fenced.
	epoch := max(1, min(g.model.sales[g.sales[0].ID].epoch, g.model.sales[g.sales[1].ID].epoch)-int64(g.r.IntN(8)/7))
	for i := range rs {
		rs[i] = g.pick()
		want[i] = g.model.place(epoch, rs[i])
	}
	g.last = fmt.Sprintf("CreateOrders %d %v", epoch, rs)
	got, err := g.CreateOrders(g.ctx, epoch, rs, g.now)
	g.must(err)
	if !slices.Equal(got, want) {
		g.t.Fatalf("step %d, %s: %+v, want %+v", g.steps, g.last, got, want)
	}
}

func (g *comparison) pay() {
	o := g.pick()
	p := sale.Payment{ID: fmt.Sprintf("%s-%d", g.prefix, g.r.IntN(60)), Reservation: o.ID, Amount: 9900 * o.Units()}
	if g.r.IntN(10) == 0 {
		p.Amount = 1
	}
	now := g.now
	if g.r.IntN(3) == 0 { // around its deadline
		now = o.PayBy.Add(time.Duration(g.r.IntN(3)-1) * time.Millisecond)
	}
	g.last = fmt.Sprintf("Pay %+v at %v", p, now)
	got, err := g.Pay(g.ctx, p, now)
	want, wantErr := g.model.pay(p, now)
	g.same(err, wantErr)
	if err != nil {
		return
	}
	g.wantOrder(got.Order)
	if got.Repeated != want.Repeated || got.RefundDue != want.RefundDue || got.SoldOut != want.SoldOut {
		g.t.Fatalf("step %d, %s: %+v, want %+v", g.steps, g.last, got, want)
	}
}

func (g *comparison) setContact() {
	o := g.pick()
	user, c := o.User, ledgertest.Contact(g.r.IntN(100))
	switch g.r.IntN(8) {
	case 0:
		user = "other"
	case 1:
		c.Phone = "none"
	case 2, 3:
		c.Address = ledgertest.Address(g.r.IntN(2))
	}
	g.last = fmt.Sprintf("SetContact %s of %s: %q, %q", o.ID, user, c.Name, c.Phone)
	got, err := g.SetContact(g.ctx, user, o.ID, c, g.now)
	g.same(err, g.model.setContact(user, o.ID, c))
	if err == nil {
		g.wantOrder(got)
	}
}

func (g *comparison) refundBy() {
	o, merchant := g.pick(), "shop"
	if g.r.IntN(8) == 0 {
		merchant = "other"
	}
	g.last = fmt.Sprintf("RefundBy %s, %s", merchant, o.ID)
	got, err := g.RefundBy(g.ctx, merchant, o.Sale, o.ID, "asked for it", g.now)
	g.same(err, g.model.refundBy(merchant, o.ID))
	if err == nil {
		g.wantOrder(got)
		g.checkSale(o.Sale)
	}
}

func (g *comparison) expire() {
	n := 1 + g.r.IntN(6)
	g.last = fmt.Sprintf("Expire %d at %v", n, g.now)
	due := g.model.due(g.now)
	got, err := g.Expire(g.ctx, g.now, n)
	g.must(err)
	if len(got) != min(n, due) {
		g.t.Fatalf("step %d, %s: %d expired, want %d of %d", g.steps, g.last, len(got), min(n, due), due)
	}
	for _, o := range got {
		if !g.model.isDue(g.model.orders[o.ID], g.now) {
			g.t.Fatalf("step %d, %s: %+v is not due", g.steps, g.last, o)
		}
		g.model.expire(g.model.orders[o.ID])
		g.wantOrder(o)
	}
}

func (g *comparison) markReturned() {
	n := 1 + g.r.IntN(6)
	g.last = fmt.Sprintf("Unreturned %d", n)
	want := g.model.unreturned()
	got, err := g.Unreturned(g.ctx, n)
	g.must(err)
	if len(got) != min(n, len(want)) {
		g.t.Fatalf("step %d, %s: %d, want %d of %d", g.steps, g.last, len(got), min(n, len(want)), len(want))
	}
	for _, o := range got {
		if !want[o.ID] {
			g.t.Fatalf("step %d, %s: %+v", g.steps, g.last, o)
		}
		if g.r.IntN(2) == 0 {
			other := g.pick().ID // of any state, or unknown
			g.must(g.MarkReturned(g.ctx, o.ID, other))
			g.model.orders[o.ID].returned = true
			if want[other] {
				g.model.orders[other].returned = true
			}
		}
	}
}

func (g *comparison) setAnyState() {
	s := g.sales[g.r.IntN(2)]
	switch n := g.r.IntN(20); {
	case n < 9:
		g.state(s.ID, sale.Paused, sale.ByMerchant, sale.Exposed)
	case n < 19:
		g.state(s.ID, sale.Exposed, "", sale.Paused)
	case g.steps > 350:
		g.state(s.ID, sale.Ended, sale.Killed, sale.Exposed)
	}
}

func (g *comparison) state(id string, to sale.State, why string, from sale.State) {
	g.last = fmt.Sprintf("SetState %s from %s to %s (%s)", id, from, to, why)
	_, err := g.SetState(g.ctx, "shop", id, to, why, g.now, from)
	g.same(err, g.model.setState(id, to, why, from))
	g.checkSale(id)
}

func (g *comparison) recover() {
	s := g.sales[g.r.IntN(2)]
	epoch := g.model.sales[s.ID].epoch - int64(g.r.IntN(4)/3)
	if g.r.IntN(2) == 0 {
		g.last = fmt.Sprintf("NextEpoch %s %d", s.ID, epoch)
		_, err := g.NextEpoch(g.ctx, s.ID, epoch, g.now)
		g.same(err, g.model.nextEpoch(s.ID, epoch))
	} else {
		g.last = fmt.Sprintf("MarkRecovered %s %d", s.ID, epoch)
		_, err := g.MarkRecovered(g.ctx, s.ID, epoch, g.now)
		g.same(err, g.model.recovered(s.ID, epoch))
	}
	g.checkSale(s.ID)
}

// checkOrder compares one order and its sale.
func (g *comparison) checkOrder() {
	o := g.pick()
	g.last = "Order " + o.ID
	got, err := g.Order(g.ctx, o.ID)
	if g.model.orders[o.ID] == nil {
		g.same(err, sale.ErrNotFound)
		return
	}
	g.must(err)
	g.wantOrder(got)
	g.checkSale(o.Sale)
}

// checkAll compares all orders and sales.
func (g *comparison) checkAll() {
	for id := range g.model.orders {
		got, err := g.Order(g.ctx, id)
		g.must(err)
		g.wantOrder(got)
	}
	for _, s := range g.sales {
		g.checkSale(s.ID)
	}
}

func (g *comparison) wantOrder(got sale.Order) {
	g.t.Helper()
	want := g.model.orders[got.ID]
	if got.Reservation != want.r || got.State != want.state || got.Payment != want.payment || got.Refunds != want.refunds || got.Contact != want.contact {
		g.t.Fatalf("step %d, %s: order %+v of %q, want %+v of %q", g.steps, g.last, got, got.Contact.Name, *want, want.contact.Name)
	}
}

func (g *comparison) checkSale(id string) {
	g.t.Helper()
	t, err := g.Totals(g.ctx, id)
	g.must(err)
	s, want, m := t.Sale, g.model.totals(id), g.model.sales[id]
	if err := ledgertest.Agrees(t); err != nil {
		g.t.Fatalf("step %d, %s: %v", g.steps, g.last, err)
	}
	if s.Stock != m.stock || s.Sold != m.sold || s.Paid != m.paid || s.State != m.state || s.StateReason != m.why || s.Epoch != m.epoch {
		g.t.Fatalf("step %d, %s: sale %+v, want %+v", g.steps, g.last, s, *m)
	}
	t.Sale, t.Movements = sale.Sale{}, 0
	if t != want {
		g.t.Fatalf("step %d, %s: %+v, want %+v", g.steps, g.last, t, want)
	}
}

func (g *comparison) same(err, want error) {
	g.t.Helper()
	if !errors.Is(err, want) {
		g.t.Fatalf("step %d, %s: %v, want %v", g.steps, g.last, err, want)
	}
}
