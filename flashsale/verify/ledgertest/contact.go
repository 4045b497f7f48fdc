package ledgertest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func Contact(i int) sale.Contact {
	return sale.Contact{Name: fmt.Sprintf("王小明 %d", i), Phone: fmt.Sprintf("+86 (138) 0013-%04d", i)}
}

// Address returns one of the suite's addresses.
func Address(i int) sale.Address {
	return sale.Address{Country: "CN", City: "浙江省杭州市", Street: fmt.Sprintf("文三路 <%d> \"号\"", i), Street2: "3 幢", Postal: fmt.Sprintf("%06d", i)}
}

// contactOf checks the contact of an order in every method that returns it.
func (d *tester) contactOf(r sale.Reservation, want sale.Contact) {
	d.t.Helper()
	o, err := d.Order(d.ctx, r.ID)
	d.must(err)
	mine, err := d.Orders(d.ctx, r.User)
	d.must(err)
	recent, err := d.RecentOrders(d.ctx, r.Sale, "")
	d.must(err)
	all := []sale.Contact{o.Contact}
	for _, o := range append(mine, recent...) {
		if o.ID == r.ID {
			all = append(all, o.Contact)
		}
	}
	d.must(d.EachOrder(d.ctx, r.Sale, func(o sale.Order) error {
		if o.ID == r.ID {
			all = append(all, o.Contact)
		}
		return nil
	}))
	if len(all) != 4 {
		d.t.Fatalf("the order was returned %d times, want 4", len(all))
	}
	for _, c := range all {
		if c != want {
			d.t.Fatalf("contact %q %q, want %q %q", c.Name, c.Phone, want.Name, want.Phone)
		}
	}
}

func rule6(t *testing.T, d *tester) {
	s := d.exposed(10, 1)
	r := d.pendingOrder(s, "a")
	now := Start().Add(3 * time.Second)
	d.contactOf(r, sale.Contact{})
	for i := range 3 {
		o, err := d.SetContact(d.ctx, "a", r.ID, Contact(i), now)
		d.must(err)
		if o.Contact != Contact(i) || o.Reservation != r || o.State != sale.PendingPay || !o.ChangedAt.Equal(Start().Add(2*time.Second)) {
			t.Fatalf("SetContact = %+v", o)
		}
		d.contactOf(r, Contact(i))
	}
	spaced := sale.Contact{Name: " O'Brien; DROP TABLE orders --\t", Phone: "\n12345 "}
	_, err := d.SetContact(d.ctx, "a", r.ID, spaced, now)
	d.must(err)
	d.contactOf(r, spaced.Trimmed())

	// A refused call changes nothing.
	for _, c := range []sale.Contact{{}, {Name: "a"}, {Phone: "12345"}, {Name: "a\x00b", Phone: "12345"}, {Name: "\xff", Phone: "12345"},
		{Name: strings.Repeat("x", 61), Phone: "12345"}, {Name: "a", Phone: "1234"}, {Name: "a", Phone: "12345\x00"}} {
		_, err := d.SetContact(d.ctx, "a", r.ID, c, now)
		d.wantError(fmt.Sprintf("%q %q", c.Name, c.Phone), err, sale.ErrInvalid)
	}
	for _, user := range []string{"b", "", "A", "a\x00", "\xff", "' OR 1=1 --"} {
		_, err := d.SetContact(d.ctx, user, r.ID, Contact(9), now)
		d.wantError("order of another user", err, sale.ErrNotFound)
	}
	for _, id := range []string{id(), "", "\x00", "\xff", "' OR 1=1 --", "%"} {
		_, err := d.SetContact(d.ctx, "a", id, Contact(9), now)
		d.wantError("unknown order", err, sale.ErrNotFound)
	}
	d.contactOf(r, spaced.Trimmed())

	// The contact of a paid order can change; that of an ended order cannot.
	d.pay(r, "p", r.At)
	d.contactOf(r, spaced.Trimmed())
	_, err = d.SetContact(d.ctx, "a", r.ID, Contact(4), now)
	d.must(err)
	d.place([]sale.Reservation{r}, sale.OrderResult{State: sale.Paid}) // delivered again
	d.contactOf(r, Contact(4))

	// The address changes until the order is paid. A contact without one keeps it.
	sent := d.pendingOrder(s, "g")
	where := func(i int) sale.Contact { c := Contact(i); c.Address = Address(i); return c }
	for i := range 2 {
		o, err := d.SetContact(d.ctx, "g", sent.ID, where(i), now)
		d.must(err)
		if o.Contact != where(i) {
			t.Fatalf("SetContact = an order of %q in %q", o.Contact.Name, o.Contact.Address.Street)
		}
	}
	kept := Contact(2)
	kept.Address = Address(1)
	_, err = d.SetContact(d.ctx, "g", sent.ID, Contact(2), now)
	d.must(err)
	d.contactOf(sent, kept)
	d.pay(sent, "p-sent", sent.At)
	_, err = d.SetContact(d.ctx, "g", sent.ID, where(3), now)
	d.wantError("another address of a paid order", err, sale.ErrConflict)
	d.contactOf(sent, kept)
	kept = Contact(4)
	kept.Address = Address(1)
	_, err = d.SetContact(d.ctx, "g", sent.ID, kept, now)
	d.must(err)
	_, err = d.SetContact(d.ctx, "a", r.ID, where(5), now)
	d.wantError("a first address of a paid order", err, sale.ErrConflict)
	wrong := where(6)
	wrong.Address.Country = "china"
	_, err = d.SetContact(d.ctx, "g", sent.ID, wrong, now)
	d.wantError("an invalid address", err, sale.ErrInvalid)
	d.contactOf(sent, kept)

	over := d.pendingOrder(s, "c")
	_, err = d.SetContact(d.ctx, "c", over.ID, Contact(5), now)
	d.must(err)
	_, err = d.Cancel(d.ctx, "c", over.ID, now)
	d.must(err)
	due := d.pendingOrder(s, "e")
	if _, err := d.Expire(d.ctx, due.PayBy.Add(time.Second), 10); err != nil {
		t.Fatal(err)
	}
	lost := Reservation(s, "f", 1)
	d.must(d.MarkLost(d.ctx, lost, Start()))
	for user, r := range map[string]sale.Reservation{"c": over, "e": due, "f": lost} {
		_, err = d.SetContact(d.ctx, user, r.ID, Contact(6), now)
		d.wantError("ended order", err, sale.ErrConflict)
	}
	d.contactOf(over, Contact(5))
	d.contactOf(due, sale.Contact{})
	d.check(s)
}

func recent(t *testing.T, d *tester) {
	s, other := d.exposed(210, 10), d.exposed(1, 1)
	stranger := d.pendingOrder(other, "x")
	var rs []sale.Reservation
	for i := range 203 {
		r := Reservation(s, fmt.Sprint("u", i%50), i/50+1)
		r.At = r.At.Add(time.Duration(i/2) * time.Millisecond) // two with equal times
		rs = append(rs, r)
	}
	want := make([]sale.OrderResult, len(rs))
	for i := range want {
		want[i] = fresh
	}
	d.place(rs, want...)
	d.must(d.MarkLost(d.ctx, Reservation(s, "lost", 1), Start())) // no order
	seen := map[string]bool{}
	after, last := "", Start().Add(time.Hour)
	for page, n := range []int{100, 100, 3, 0} {
		got, err := d.RecentOrders(d.ctx, s.ID, after)
		d.must(err)
		if len(got) != n {
			t.Fatalf("page %d has %d orders, want %d", page, len(got), n)
		}
		for _, o := range got {
			if seen[o.ID] || o.At.After(last) || o.Sale != s.ID {
				t.Fatalf("page %d: %+v: repeated, newer than the previous one, or of another sale", page, o)
			}
			seen[o.ID] = true
			after, last = o.ID, o.At
		}
	}
	for _, x := range []string{stranger.ID, id(), "\x00", "' --"} {
		_, err := d.RecentOrders(d.ctx, s.ID, x)
		d.wantError("RecentOrders after an unknown order", err, sale.ErrNotFound)
	}
	for _, x := range []string{"", "nothing", "\x00"} {
		_, err := d.RecentOrders(d.ctx, x, "")
		d.wantError("RecentOrders of an unknown sale", err, sale.ErrNotFound)
	}
}

// contactAtOnce sets contacts concurrently with the payment of the order: one contact is stored,
// complete.
func contactAtOnce(t *testing.T, d *tester) {
	s := d.exposed(1, 1)
	r := d.pendingOrder(s, "a")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if _, err := d.SetContact(d.ctx, "a", r.ID, Contact(i), Start()); err != nil {
				t.Errorf("SetContact: %v", err)
			}
		})
	}
	all.Go(func() { d.pay(r, "p", r.At) })
	all.Wait()
	o, err := d.Order(d.ctx, r.ID)
	d.must(err)
	whole := false
	for i := range 8 {
		whole = whole || o.Contact == Contact(i)
	}
	if !whole || o.State != sale.Paid {
		t.Fatalf("%s of %q %q, want it paid, with one of the contacts", o.State, o.Contact.Name, o.Contact.Phone)
	}
	d.check(s)
}
