package ledgertest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func lists(t *testing.T, d *tester) {
	s := d.exposed(105, 10)
	var rs []sale.Reservation
	for i := range 105 {
		r := Reservation(s, fmt.Sprint("u", i%11), i/11+1)
		r.At = r.At.Add(time.Duration(i/2) * time.Millisecond)
		rs = append(rs, r)
		d.place([]sale.Reservation{r}, fresh)
	}
	over := Reservation(s, "u0", 10)
	over.At = over.At.Add(time.Second)
	over.Slot = 10
	d.place([]sale.Reservation{over}, rejected) // the slot is used, or no unit is left
	lost := Reservation(s, "u0", 1)
	d.must(d.MarkLost(d.ctx, lost, Start()))
	for _, r := range rs {
		o, err := d.Order(d.ctx, r.ID)
		d.must(err)
		if o.Reservation != r || o.State != sale.PendingPay || o.Price != 9900 || !o.CreatedAt.Equal(Start().Add(2*time.Second)) || !o.ChangedAt.Equal(o.CreatedAt) {
			t.Fatalf("Order = %+v, want the order of %+v", o, r)
		}
	}
	for r, want := range map[string]sale.OrderState{over.ID: sale.Rejected, lost.ID: sale.Lost} {
		if o, err := d.Order(d.ctx, r); err != nil || o.State != want {
			t.Fatalf("Order = %s, %v, want %s", o.State, err, want)
		}
	}
	mine, err := d.Orders(d.ctx, "u0")
	d.must(err)
	if len(mine) != 12 || mine[0].ID != over.ID {
		t.Fatalf("Orders = %d, want 12, the newest first", len(mine))
	}
	var all []sale.Order
	d.must(d.EachOrder(d.ctx, s.ID, func(o sale.Order) error { all = append(all, o); return nil }))
	if len(all) != 105 {
		t.Fatalf("EachOrder returned %d orders, want 105", len(all))
	}
	for i := range all[1:] {
		if all[i+1].At.Before(all[i].At) {
			t.Fatal("EachOrder is not in order")
		}
	}
	stop := errors.New("stop")
	d.wantError("EachOrder", d.EachOrder(d.ctx, s.ID, func(sale.Order) error { return stop }), stop)
}

func cancel(t *testing.T, d *tester) {
	s := d.exposed(2, 1)
	r := d.pendingOrder(s, "a")
	_, err := d.Cancel(d.ctx, "b", r.ID, Start())
	d.wantError("Cancel of another user's order", err, sale.ErrNotFound)
	_, err = d.Cancel(d.ctx, "a", id(), Start())
	d.wantError("Cancel of an unknown order", err, sale.ErrNotFound)
	for range 2 {
		o, err := d.Cancel(d.ctx, "a", r.ID, Start().Add(3*time.Second))
		d.must(err)
		if o.State != sale.Cancelled || !o.ChangedAt.Equal(Start().Add(3*time.Second)) {
			t.Fatalf("Cancel = %+v", o)
		}
	}
	if got := d.check(s); got.Movements != 2 || got.Cancelled != 1 {
		t.Fatalf("%+v, want the unit back once", got)
	}
	r = d.pendingOrder(s, "c")
	for _, c := range []struct {
		merchant, sale, reason string
		want                   error
	}{
		{"other", s.ID, "typo", sale.ErrNotFound},
		{"shop", d.exposed(1, 1).ID, "typo", sale.ErrNotFound},
		{"shop", s.ID, "", sale.ErrInvalid},
	} {
		_, err := d.CancelBy(d.ctx, c.merchant, c.sale, r.ID, c.reason, Start())
		d.wantError("CancelBy", err, c.want)
	}
	for range 2 {
		o, err := d.CancelBy(d.ctx, "shop", s.ID, r.ID, "typo", Start().Add(time.Second))
		d.must(err)
		if o.State != sale.Cancelled {
			t.Fatalf("CancelBy = %+v", o)
		}
	}
	audit, err := d.AuditLog(d.ctx, s.ID)
	d.must(err)
	recorded := 0
	for _, e := range audit {
		if e.Actor == "shop" && e.Event == "cancelled order "+r.ID+": typo" {
			recorded++
		}
	}
	if got := d.check(s); got.Movements != 2 || got.Cancelled != 2 || recorded != 1 {
		t.Fatalf("%+v with %d entries, want the unit back once and one entry", got, recorded)
	}
	paid := d.pendingOrder(s, "d")
	d.pay(paid, "pay-d", Start().Add(time.Second))
	_, err = d.CancelBy(d.ctx, "shop", s.ID, paid.ID, "typo", Start().Add(time.Second))
	d.wantError("CancelBy of a paid order", err, sale.ErrConflict)
}

func expire(t *testing.T, d *tester) {
	s := d.exposed(10, 1)
	rs := batch(s, 5)
	for i := range rs {
		rs[i].PayBy = rs[i].PayBy.Add(time.Duration(i) * time.Millisecond)
	}
	d.place(rs, fresh, fresh, fresh, fresh, fresh)
	due := func(now time.Time, n, want int) {
		t.Helper()
		got, err := d.Expire(d.ctx, now, n)
		d.must(err)
		if len(got) != want {
			t.Fatalf("%d expired, want %d", len(got), want)
		}
		for _, o := range got {
			if o.State != sale.Expired || !o.PayBy.Before(now) || !o.ChangedAt.After(o.PayBy) {
				t.Fatalf("%+v expired at %v", o, now)
			}
		}
		d.check(s)
	}
	due(rs[0].PayBy, 10, 0) // inclusive
	due(rs[0].PayBy.Add(1), 10, 1)
	due(rs[4].PayBy.Add(time.Second), 0, 0)
	due(rs[4].PayBy.Add(time.Second), 3, 3)
	due(rs[4].PayBy.Add(time.Second), 1<<40, 1)
	due(rs[4].PayBy.Add(time.Second), 10, 0)
}

func returned(t *testing.T, d *tester) {
	s := d.exposed(10, 1)
	rs := batch(s, 4)
	d.place(rs, fresh, fresh, fresh, fresh)
	_, err := d.Cancel(d.ctx, rs[0].User, rs[0].ID, Start())
	d.must(err)
	d.pay(rs[1], "p", Start())
	d.must(d.MarkReturned(d.ctx, rs[1].ID, rs[2].ID)) // these hold their units
	_, err = d.Expire(d.ctx, Start().Add(time.Hour), 10)
	d.must(err)
	got, err := d.Unreturned(d.ctx, 10)
	d.must(err)
	if len(got) != 3 || got[0].ID != rs[0].ID {
		t.Fatalf("Unreturned = %+v, want the cancelled one and two expired ones", got)
	}
	if got, err := d.Unreturned(d.ctx, 2); err != nil || len(got) != 2 {
		t.Fatalf("Unreturned(2) = %d, %v", len(got), err)
	}
	d.must(d.MarkReturned(d.ctx, got[0].ID, got[2].ID, id()))
	d.must(d.MarkReturned(d.ctx, got[0].ID))
	d.must(d.MarkReturned(d.ctx))
	left, err := d.Unreturned(d.ctx, 10)
	d.must(err)
	if len(left) != 1 || left[0].ID != got[1].ID {
		t.Fatalf("Unreturned = %+v, want one", left)
	}
}

// unreturnedFairly checks that Unreturned returns orders of all sales, so that one sale whose
// units cannot be returned does not block the others.
func unreturnedFairly(t *testing.T, d *tester) {
	of := map[string]int{}
	for i, n := range []int{30, 3, 1} {
		s := d.exposed(int64(n), 1)
		_, err := d.CreateOrders(d.ctx, 1, batch(s, n), Start())
		d.must(err)
		_, err = d.Expire(d.ctx, Start().Add(time.Duration(i+1)*time.Hour), n)
		d.must(err)
		of[s.ID] = n
	}
	for _, c := range []struct{ max, all, most, least int }{
		{0, 0, 0, 0}, {2, 2, 1, 1}, {3, 3, 1, 1}, {10, 10, 6, 1}, {20, 20, 16, 1}, {34, 34, 30, 1}, {100, 34, 30, 1},
	} {
		got, err := d.Unreturned(d.ctx, c.max)
		d.must(err)
		count, most, least := map[string]int{}, 0, 0
		for _, o := range got {
			count[o.Sale]++
		}
		for id, n := range count {
			most = max(most, n)
			if least == 0 || n < least {
				least = n
			}
			if n > of[id] {
				t.Errorf("Unreturned(%d) has %d orders of a sale of %d", c.max, n, of[id])
			}
		}
		if len(got) != c.all || most != c.most || least != c.least || c.max > 2 && len(count) != 3 {
			t.Errorf("Unreturned(%d) = %v, want %d, %d of one sale at most, %d at least", c.max, count, c.all, c.most, c.least)
		}
	}
}
