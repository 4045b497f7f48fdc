package ledgertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// Random gives a Ledger random commands, and compares every answer with that of a small
// model. Everything begins anew after some hundred commands, with other sales.
func Random(t *testing.T, l sale.Ledger, commands int) {
	const number = 20310501 // the same commands every time
	d := newDesk(t, l)
	r := rand.New(rand.NewPCG(number, 1))
	for done := 0; done < commands; {
		g := newGame(d, r)
		for range min(500, commands-done) {
			g.step()
			done++
		}
		g.compare()
	}
}

// A game is a Ledger and a model that are told the same.
type game struct {
	*desk
	m     *model
	r     *rand.Rand
	now   time.Time
	sales []sale.Sale
	made  []sale.Reservation
	steps int
	last  string
	of    string // of this game's payments and keys
}

func newGame(d *desk, r *rand.Rand) *game {
	g := &game{desk: d, m: newModel(), r: r, now: t0, of: id()}
	// What is left of the game before would expire in this one.
	for more := true; more; {
		got, err := d.Expire(d.ctx, t0.AddDate(1, 0, 0), 1000)
		d.must(err)
		more = len(got) > 0
	}
	for {
		got, err := d.Unreturned(d.ctx, 1000)
		d.must(err)
		if len(got) == 0 {
			break
		}
		for _, o := range got {
			d.must(d.MarkReturned(d.ctx, o.ID))
		}
	}
	for range 2 {
		draft := Draft(int64(1+r.IntN(12)), 1+r.IntN(2))
		s, err := d.Create(d.ctx, "shop", draft, t0)
		d.must(err)
		g.sales = append(g.sales, s)
		g.m.sales[s.ID] = &modelSale{stock: s.Stock, perUser: s.PerUser, state: sale.Drafted, added: map[string]int64{}}
		g.state(s.ID, sale.Exposed, "", sale.Drafted)
	}
	return g
}

func (g *game) step() {
	g.steps++
	g.now = g.now.Add(time.Duration(g.r.IntN(1500)) * time.Millisecond)
	switch n := g.r.IntN(100); {
	case n < 30:
		g.placeSome()
	case n < 52:
		g.paySome()
	case n < 60:
		o := g.some()
		user := o.User
		if g.r.IntN(8) == 0 {
			user = "other"
		}
		g.last = fmt.Sprintf("Cancel %s of %s", o.ID, user)
		_, err := g.Cancel(g.ctx, user, o.ID, g.now)
		g.same(err, g.m.cancel(user, o.ID))
	case n < 68:
		g.expireSome()
	case n < 74:
		g.returnSome()
	case n < 78:
		o := g.some()
		g.last = "Lose " + o.ID
		err := g.MarkLost(g.ctx, o, g.now)
		var want error
		if !g.m.lose(o) {
			want = sale.ErrConflict
		}
		g.same(err, want)
	case n < 84:
		s := g.sales[g.r.IntN(2)]
		key, units := fmt.Sprint("k", g.r.IntN(5)), int64(1+g.r.IntN(2))
		g.last = fmt.Sprintf("AddStock %s %s %d", s.ID, key, units)
		_, err := g.AddStock(g.ctx, "shop", s.ID, key, units, g.now)
		g.same(err, g.m.addStock(s.ID, key, units))
	case n < 90:
		g.someState()
	case n < 95:
		g.recoverSome()
	case n < 97:
		g.contactSome()
	default:
		g.look()
	}
}

// some is a reservation that was made, or a new one.
func (g *game) some() sale.Reservation {
	if len(g.made) > 0 && g.r.IntN(5) > 0 {
		return g.made[g.r.IntN(len(g.made))]
	}
	s := g.sales[g.r.IntN(2)]
	r := reservation(s, fmt.Sprint("u", g.r.IntN(8)), 1+g.r.IntN(3))
	r.At, r.PayBy = g.now, g.now.Add(time.Duration(g.r.IntN(60_000))*time.Millisecond)
	if len(g.made) > 0 && g.r.IntN(6) == 0 {
		r.Ticket = g.made[g.r.IntN(len(g.made))].Ticket
	}
	g.made = append(g.made, r)
	return r
}

func (g *game) placeSome() {
	rs := make([]sale.Reservation, 1+g.r.IntN(5))
	want := make([]sale.OrderResult, len(rs))
	for i := range rs {
		rs[i] = g.some()
		want[i] = g.m.place(rs[i])
	}
	g.last = fmt.Sprintf("Place %v", rs)
	g.place(rs, want...)
}

func (g *game) paySome() {
	o := g.some()
	p := sale.Payment{ID: fmt.Sprintf("%s-%d", g.of, g.r.IntN(60)), Reservation: o.ID, Amount: 9900}
	if g.r.IntN(10) == 0 {
		p.Amount = 1
	}
	now := g.now
	if g.r.IntN(3) == 0 { // at the end of its time
		now = o.PayBy.Add(time.Duration(g.r.IntN(3)-1) * time.Millisecond)
	}
	g.last = fmt.Sprintf("Pay %+v at %v", p, now)
	got, err := g.Pay(g.ctx, p, now)
	want, wantErr := g.m.pay(p, now)
	g.same(err, wantErr)
	if err != nil {
		return
	}
	g.order(got.Order)
	if got.Repeated != want.Repeated || got.RefundDue != want.RefundDue || got.SoldOut != want.SoldOut {
		g.t.Fatalf("step %d, %s: %+v, want %+v", g.steps, g.last, got, want)
	}
}

func (g *game) contactSome() {
	o := g.some()
	user, c := o.User, someone(g.r.IntN(100))
	switch g.r.IntN(8) {
	case 0:
		user = "other"
	case 1:
		c.Phone = "none"
	}
	g.last = fmt.Sprintf("SetContact %s of %s: %q, %q", o.ID, user, c.Name, c.Phone)
	got, err := g.SetContact(g.ctx, user, o.ID, c, g.now)
	g.same(err, g.m.setContact(user, o.ID, c))
	if err == nil {
		g.order(got)
	}
}

func (g *game) expireSome() {
	n := 1 + g.r.IntN(6)
	g.last = fmt.Sprintf("Expire %d at %v", n, g.now)
	due := g.m.due(g.now)
	got, err := g.Expire(g.ctx, g.now, n)
	g.must(err)
	if len(got) != min(n, due) {
		g.t.Fatalf("step %d, %s: %d expired, want %d of %d", g.steps, g.last, len(got), min(n, due), due)
	}
	for _, o := range got {
		if !g.m.isDue(g.m.orders[o.ID], g.now) {
			g.t.Fatalf("step %d, %s: %+v is not due", g.steps, g.last, o)
		}
		g.m.expire(g.m.orders[o.ID])
		g.order(o)
	}
}

func (g *game) returnSome() {
	n := 1 + g.r.IntN(6)
	g.last = fmt.Sprintf("Unreturned %d", n)
	want := g.m.unreturned()
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
			other := g.some().ID // of any state, or unknown
			g.must(g.MarkReturned(g.ctx, o.ID, other))
			g.m.orders[o.ID].returned = true
			if want[other] {
				g.m.orders[other].returned = true
			}
		}
	}
}

func (g *game) someState() {
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

func (g *game) state(id string, to sale.State, why string, from sale.State) {
	g.last = fmt.Sprintf("SetState %s from %s to %s (%s)", id, from, to, why)
	_, err := g.SetState(g.ctx, "shop", id, to, why, g.now, from)
	g.same(err, g.m.setState(id, to, why, from))
	g.one(id)
}

func (g *game) recoverSome() {
	s := g.sales[g.r.IntN(2)]
	epoch := g.m.sales[s.ID].epoch - int64(g.r.IntN(4)/3)
	if g.r.IntN(2) == 0 {
		g.last = fmt.Sprintf("NextEpoch %s %d", s.ID, epoch)
		_, err := g.NextEpoch(g.ctx, s.ID, epoch, g.now)
		g.same(err, g.m.nextEpoch(s.ID, epoch))
	} else {
		g.last = fmt.Sprintf("Recovered %s %d", s.ID, epoch)
		_, err := g.MarkRecovered(g.ctx, s.ID, epoch, g.now)
		g.same(err, g.m.recovered(s.ID, epoch))
	}
	g.one(s.ID)
}

// look compares one order or one sale.
func (g *game) look() {
	o := g.some()
	g.last = "Order " + o.ID
	got, err := g.Order(g.ctx, o.ID)
	if g.m.orders[o.ID] == nil {
		g.same(err, sale.ErrNotFound)
		return
	}
	g.must(err)
	g.order(got)
	g.one(o.Sale)
}

// compare compares everything.
func (g *game) compare() {
	for id := range g.m.orders {
		got, err := g.Order(g.ctx, id)
		g.must(err)
		g.order(got)
	}
	for _, s := range g.sales {
		g.one(s.ID)
	}
}

func (g *game) order(got sale.Order) {
	g.t.Helper()
	want := g.m.orders[got.ID]
	if got.Reservation != want.r || got.State != want.state || got.Payment != want.payment || got.Refunds != want.refunds || got.Contact != want.contact {
		g.t.Fatalf("step %d, %s: order %+v of %q, want %+v of %q", g.steps, g.last, got, got.Contact.Name, *want, want.contact.Name)
	}
}

func (g *game) one(id string) {
	g.t.Helper()
	t, err := g.Totals(g.ctx, id)
	g.must(err)
	s, want, m := t.Sale, g.m.tally(id), g.m.sales[id]
	if err := Agrees(t); err != nil {
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

func (g *game) same(err, want error) {
	g.t.Helper()
	if !errors.Is(err, want) {
		g.t.Fatalf("step %d, %s: %v, want %v", g.steps, g.last, err, want)
	}
}
