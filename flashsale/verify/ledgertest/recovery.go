package ledgertest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// recovery runs recoveries with every action of a merchant in between.
func recovery(t *testing.T, d *tester) {
	type step struct {
		do    string
		epoch int64 // requested
		fails error
		state sale.State
		why   string
		at    int64 // the epoch afterwards
	}
	for name, steps := range map[string][]step{
		"plain": {
			{"next", 2, sale.ErrConflict, sale.Exposed, "", 1},
			{"next", 0, sale.ErrConflict, sale.Exposed, "", 1},
			{"recovered", 1, nil, sale.Exposed, "", 1}, // nothing to do
			{"next", 1, nil, sale.Paused, sale.Recovering, 2},
			{"next", 1, sale.ErrConflict, sale.Paused, sale.Recovering, 2},
			{"recovered", 1, sale.ErrConflict, sale.Paused, sale.Recovering, 2},
			{"recovered", 2, nil, sale.Exposed, "", 2},
			{"recovered", 2, nil, sale.Exposed, "", 2}, // repeated
		},
		"again before it has recovered": {
			{"next", 1, nil, sale.Paused, sale.Recovering, 2},
			{"next", 2, nil, sale.Paused, sale.Recovering, 3},
			{"recovered", 2, sale.ErrConflict, sale.Paused, sale.Recovering, 3},
			{"recovered", 3, nil, sale.Exposed, "", 3},
		},
		"paused before": {
			{"pause", 0, nil, sale.Paused, sale.ByMerchant, 1},
			{"next", 1, nil, sale.Paused, sale.ByMerchant, 2},
			{"recovered", 2, nil, sale.Paused, sale.ByMerchant, 2},
			{"resume", 0, nil, sale.Exposed, "", 2},
		},
		"paused meanwhile": {
			{"next", 1, nil, sale.Paused, sale.Recovering, 2},
			{"pause", 0, nil, sale.Paused, sale.ByMerchant, 2},
			{"recovered", 2, nil, sale.Paused, sale.ByMerchant, 2},
			{"resume", 0, nil, sale.Exposed, "", 2},
		},
		"paused and resumed meanwhile": {
			{"next", 1, nil, sale.Paused, sale.Recovering, 2},
			{"resume", 0, nil, sale.Paused, sale.Recovering, 2}, // its inventory is not available
			{"pause", 0, nil, sale.Paused, sale.ByMerchant, 2},
			{"next", 2, nil, sale.Paused, sale.ByMerchant, 3},
			{"resume", 0, nil, sale.Paused, sale.Recovering, 3},
			{"recovered", 3, nil, sale.Exposed, "", 3},
		},
		"ended meanwhile": {
			{"next", 1, nil, sale.Paused, sale.Recovering, 2},
			{"kill", 0, nil, sale.Ended, sale.Killed, 2},
			{"recovered", 2, nil, sale.Ended, sale.Killed, 2},
			{"next", 2, sale.ErrConflict, sale.Ended, sale.Killed, 2},
			{"resume", 0, sale.ErrConflict, sale.Ended, sale.Killed, 2},
		},
	} {
		s := d.exposed(3, 1)
		for i, p := range steps {
			var err error
			switch p.do {
			case "next":
				_, err = d.NextEpoch(d.ctx, s.ID, p.epoch, Start())
			case "recovered":
				_, err = d.MarkRecovered(d.ctx, s.ID, p.epoch, Start())
			case "pause":
				_, err = d.SetState(d.ctx, "shop", s.ID, sale.Paused, sale.ByMerchant, Start(), sale.Exposed)
			case "resume":
				_, err = d.SetState(d.ctx, "shop", s.ID, sale.Exposed, "", Start(), sale.Paused)
			case "kill":
				_, err = d.SetState(d.ctx, "shop", s.ID, sale.Ended, sale.Killed, Start(), sale.Exposed, sale.Paused)
			}
			if !errors.Is(err, p.fails) {
				t.Fatalf("%s, step %d: %v, want %v", name, i, err, p.fails)
			}
			got, err := d.Sale(d.ctx, s.ID)
			d.must(err)
			if got.State != p.state || got.StateReason != p.why || got.Epoch != p.at {
				t.Fatalf("%s, step %d: %s (%s) at %d, want %s (%s) at %d", name, i, got.State, got.StateReason, got.Epoch, p.state, p.why, p.at)
			}
		}
		d.check(s)
	}
	draft, err := d.Create(d.ctx, "shop", "", Draft(1, 1), Start())
	d.must(err)
	_, err = d.NextEpoch(d.ctx, draft.ID, 0, Start())
	d.wantError("NextEpoch of a draft", err, sale.ErrConflict)
}

func opening(t *testing.T, d *tester) {
	s := d.exposed(10, 1)
	rs := batch(s, 5)
	for i := range rs {
		rs[i].At = rs[i].At.Add(time.Duration(i) * time.Millisecond)
	}
	d.place(rs, fresh, fresh, fresh, fresh, fresh)
	d.pay(rs[0], "p", Start())
	_, err := d.Cancel(d.ctx, rs[1].User, rs[1].ID, Start())
	d.must(err)
	d.must(d.MarkLost(d.ctx, Reservation(s, "lost", 1), Start()))
	o, err := d.InitialState(d.ctx, s.ID)
	d.must(err)
	want := []sale.Reservation{rs[0], rs[2], rs[3], rs[4]}
	if !slices.Equal(o.Reserved, want) || len(o.Pending) != 0 || o.Sale.Sold != 4 || o.Sale.Stock != 10 {
		t.Fatalf("InitialState = %+v, want the four with units", o)
	}
	if len(o.Unpaid) != 1 || o.Unpaid[rs[1].User] != 1 {
		t.Fatalf("InitialState has unpaid orders %v, want the cancelled one of %s", o.Unpaid, rs[1].User)
	}
	p, err := d.Payments(d.ctx, s.ID, 2)
	d.must(err)
	if total(p.After[:]) != 1 {
		t.Fatalf("Payments has paid units after %v, want one", p.After)
	}
	if p.Paid != 1 || p.PerOrder != 1 || p.Unpaid != 1 || len(p.PayBy) != 2 || !p.PayBy[0].Equal(rs[2].PayBy) || p.PayBy[1].Before(p.PayBy[0]) {
		t.Fatalf("Payments = %+v, want 1 paid, 1 unpaid, and the first two of three that are pending", p)
	}
}

// placePartly creates more orders than there are units: the first ones get them.
func placePartly(t *testing.T, d *tester) {
	s := d.exposed(7, 2)
	rs := batch(s, 5)
	d.place(rs, fresh, fresh, fresh, fresh, fresh)
	more := batch(s, 6)
	more[1] = rs[2] // delivered again: it takes no unit
	more[2].User, more[2].Slot = rs[0].User, 1
	d.place(more, fresh, again, rejected, fresh, noUnit, noUnit)
	d.place(more, again, again, refused, again, noUnit, noUnit)
	// A rejected reservation stays rejected when units are added. One without a unit gets one.
	_, err := d.AddStock(d.ctx, "shop", s.ID, "k", 1, Start())
	d.must(err)
	d.place(more, again, again, refused, again, fresh, noUnit)
	if got := d.check(s); got.Sale.Sold != 8 || got.Rejected != 1 {
		t.Fatalf("%+v, want 8 sold and 1 rejected", got)
	}
	if got, err := d.CreateOrders(d.ctx, 1, nil, Start()); err != nil || len(got) != 0 {
		t.Fatalf("CreateOrders without reservations = %v, %v", got, err)
	}
	_, err = d.CreateOrders(d.ctx, 1, batch(s, 1001), Start())
	d.wantError("1,001 reservations", err, sale.ErrInvalid)
	big := d.exposed(2000, 1)
	if got, err := d.CreateOrders(d.ctx, 1, batch(big, 1000), Start()); err != nil || slices.Contains(got, rejected) {
		t.Fatalf("1,000 reservations: %v", err)
	}
	if _, err := d.CreateOrders(d.ctx, 1, batch(big, 500), Start()); err != nil {
		t.Fatal(err)
	}
	d.check(big)
	seen := map[string]bool{} // from EachOrder, many with equal times
	d.must(d.EachOrder(d.ctx, big.ID, func(o sale.Order) error { seen[o.ID] = true; return nil }))
	if len(seen) != 1500 {
		t.Fatalf("EachOrder returned %d orders, want 1,500", len(seen))
	}
}

// placeInvalid mixes one invalid reservation with valid ones: none becomes an order.
func placeInvalid(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	mine := d.pendingOrder(s, "mine")
	for name, c := range map[string]struct {
		edit func(*sale.Reservation)
		want error
	}{
		"no ID":                  {func(r *sale.Reservation) { r.ID = "" }, sale.ErrInvalid},
		"a zero byte in the ID":  {func(r *sale.Reservation) { r.ID = "0123456789abcdef\x00" }, sale.ErrInvalid},
		"no user":                {func(r *sale.Reservation) { r.User = "" }, sale.ErrInvalid},
		"a zero byte":            {func(r *sale.Reservation) { r.User = "a\x00" }, sale.ErrInvalid},
		"broken UTF-8":           {func(r *sale.Reservation) { r.Ticket = "a\xff" }, sale.ErrInvalid},
		"no ticket":              {func(r *sale.Reservation) { r.Ticket = "" }, sale.ErrInvalid},
		"a line in the key":      {func(r *sale.Reservation) { r.Key = "\n" }, sale.ErrInvalid},
		"no time":                {func(r *sale.Reservation) { r.At = time.Time{} }, sale.ErrInvalid},
		"no time to pay":         {func(r *sale.Reservation) { r.PayBy = r.At.Add(-1) }, sale.ErrInvalid},
		"ever to pay":            {func(r *sale.Reservation) { r.PayBy = r.At.AddDate(200, 0, 0) }, sale.ErrInvalid},
		"no epoch":               {func(r *sale.Reservation) { r.Epoch = 0 }, sale.ErrInvalid},
		"an epoch to come":       {func(r *sale.Reservation) { r.Epoch = 2 }, sale.ErrInvalid},
		"no sale":                {func(r *sale.Reservation) { r.Sale = "nothing" }, sale.ErrNotFound},
		"a sale of no such name": {func(r *sale.Reservation) { r.Sale = "'" }, sale.ErrInvalid},
		"another user's":         {func(r *sale.Reservation) { r.ID = mine.ID }, sale.ErrInvalid},
	} {
		rs := batch(s, 3)
		c.edit(&rs[1])
		_, err := d.CreateOrders(d.ctx, 1, rs, Start())
		d.wantError(name, err, c.want)
		for _, r := range []sale.Reservation{rs[0], rs[2]} {
			_, err := d.Order(d.ctx, r.ID)
			d.wantError(name+": order of a valid reservation", err, sale.ErrNotFound)
		}
		d.place([]sale.Reservation{rs[0], rs[2]}, fresh, fresh)
	}
	d.check(s)
}

func placeSeveral(t *testing.T, d *tester) {
	a, b := d.exposed(2, 1), d.exposed(1, 1)
	d.place([]sale.Reservation{Reservation(b, "x", 1), Reservation(a, "x", 1), Reservation(b, "y", 1), Reservation(a, "y", 1), Reservation(a, "z", 1)},
		fresh, fresh, noUnit, fresh, noUnit)
	if x, y := d.check(a), d.check(b); x.Pending != 2 || y.Pending != 1 {
		t.Fatalf("%+v, %+v", x, y)
	}
}

// rule7 creates orders of an earlier epoch, which a process may have kept during a recovery.
func rule7(t *testing.T, d *tester) {
	s, other := d.exposed(3, 1), d.exposed(3, 1)
	before, late := d.pendingOrder(s, "before"), batch(s, 2)
	next, err := d.NextEpoch(d.ctx, s.ID, 1, Start())
	d.must(err)
	// An existing order stays, and orders of another sale in the batch are created.
	d.place([]sale.Reservation{late[0], before, Reservation(other, "o", 1), late[1]}, fenced, again, fresh, fenced)
	d.place(late, fenced, fenced)
	if _, err := d.Order(d.ctx, late[0].ID); !errors.Is(err, sale.ErrNotFound) {
		t.Fatalf("Order of a fenced reservation: %v, want none", err)
	}
	o, err := d.InitialState(d.ctx, s.ID)
	d.must(err)
	if len(o.Reserved) != 1 || o.Sale.Epoch != 2 {
		t.Fatalf("InitialState = %+v, want one order at epoch 2", o)
	}
	_, err = d.MarkRecovered(d.ctx, s.ID, 2, Start())
	d.must(err)
	d.place(late, fenced, fenced)
	// In the stream of the new epoch it becomes an order; lost it never does.
	d.placeAt(next.Epoch, late[:1], fresh)
	d.must(d.MarkLost(d.ctx, late[1], Start()))
	d.placeAt(next.Epoch, late, again, sale.OrderResult{State: sale.Lost})
	d.place(late, again, sale.OrderResult{State: sale.Lost})
	_, err = d.CreateOrders(d.ctx, 3, late, Start())
	d.must(err) // they are known
	_, err = d.CreateOrders(d.ctx, 3, batch(s, 1), Start())
	d.wantError("a stream of an epoch to come", err, sale.ErrInvalid)
	d.check(s)
	d.check(other)
}

func lost(t *testing.T, d *tester) {
	s := d.exposed(1, 1)
	r := d.pendingOrder(s, "a")
	d.wantError("MarkLost of an order", d.MarkLost(d.ctx, r, Start()), sale.ErrConflict)
	lost := Reservation(s, "b", 1)
	for range 2 {
		d.must(d.MarkLost(d.ctx, lost, Start()))
	}
	d.place([]sale.Reservation{lost, lost}, sale.OrderResult{State: sale.Lost}, sale.OrderResult{State: sale.Lost})
	little := sale.Reservation{ID: id(), Sale: s.ID, Epoch: 1, User: "c"} // the fields of a receipt
	d.must(d.MarkLost(d.ctx, little, Start()))
	if o, err := d.Order(d.ctx, little.ID); err != nil || o.State != sale.Lost || o.User != "c" || !o.At.IsZero() {
		t.Fatalf("Order = %+v, %v", o, err)
	}
	no := Reservation(s, "a", 1)
	d.place([]sale.Reservation{no}, rejected)
	d.must(d.MarkLost(d.ctx, no, Start()))
	d.place([]sale.Reservation{no}, refused)
	if got := d.pay(lost, "p", Start()); !got.RefundDue {
		t.Fatalf("Pay of a lost reservation = %+v, want a refund", got)
	}
	_, err := d.Cancel(d.ctx, "b", lost.ID, Start())
	d.wantError("Cancel of a lost reservation", err, sale.ErrConflict)
	nowhere := lost
	nowhere.ID, nowhere.Sale = id(), "nothing"
	d.wantError("MarkLost in an unknown sale", d.MarkLost(d.ctx, nowhere, Start()), sale.ErrNotFound)
	d.wantError("MarkLost without an ID", d.MarkLost(d.ctx, sale.Reservation{Sale: s.ID}, Start()), sale.ErrInvalid)
	if got := d.check(s); got.Lost != 2 || got.Rejected != 1 || got.Pending != 1 {
		t.Fatalf("%+v, want 2 lost", got)
	}
}

// total returns the sum of numbers.
func total(ns []int64) (sum int64) {
	for _, n := range ns {
		sum += n
	}
	return sum
}
