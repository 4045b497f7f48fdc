package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func drafts(t *testing.T, d *desk) {
	want := Draft(10, 2)
	want.Work = 12
	s, err := d.Create(d.ctx, "shop", want, t0)
	d.must(err)
	if s.Draft != want.WithDefaults() || s.State != sale.Drafted || s.Epoch != 0 || s.Version < 1 || s.Merchant != "shop" || s.Sold != 0 {
		t.Fatalf("Create = %+v", s)
	}
	if got, err := d.Sale(d.ctx, s.ID); err != nil || got != s {
		t.Fatalf("Sale = %+v, %v, want %+v", got, err, s)
	}
	_, err = d.Create(d.ctx, "shop", sale.Draft{}, t0)
	d.wrong("Create of nothing", err, sale.ErrInvalid)
	_, err = d.Create(d.ctx, "", want, t0)
	d.wrong("Create of nobody", err, sale.ErrInvalid)

	want.Title, want.Stock, want.Queue, want.Lobby, want.Work = "碧螺春", 20, sale.Shuffled, time.Minute, sale.MaxWork
	edited, err := d.Edit(d.ctx, "shop", s.ID, s.Version, want)
	d.must(err)
	if edited.Draft != want.WithDefaults() || edited.Version <= s.Version || edited.ID != s.ID {
		t.Fatalf("Edit = %+v", edited)
	}
	_, err = d.Edit(d.ctx, "shop", s.ID, s.Version, want)
	d.wrong("Edit of an old version", err, sale.ErrConflict)
	_, err = d.Edit(d.ctx, "other", s.ID, edited.Version, want)
	d.wrong("Edit of another's", err, sale.ErrNotFound)
	_, err = d.Edit(d.ctx, "shop", "nothing", 1, want)
	d.wrong("Edit of nothing", err, sale.ErrNotFound)
	_, err = d.Edit(d.ctx, "shop", s.ID, edited.Version, sale.Draft{})
	d.wrong("Edit to nothing", err, sale.ErrInvalid)
	e := d.exposed(1, 1)
	_, err = d.Edit(d.ctx, "shop", e.ID, e.Version, want)
	d.wrong("Edit of an exposed sale", err, sale.ErrConflict)
}

// hostile asks for what no ledger can know, and gives it texts that break statements.
func hostile(t *testing.T, d *desk) {
	texts := []string{"", "\x00", "a\x00b", "\xff\xfe", "'; DROP TABLE orders; --", `\`, "%", "_", "$1", "{}", strings.Repeat("x", 1<<16), "\u202e"}
	for _, x := range texts {
		_, err := d.Sale(d.ctx, x)
		d.wrong("Sale", err, sale.ErrNotFound)
		_, err = d.Order(d.ctx, x)
		d.wrong("Order", err, sale.ErrNotFound)
		_, err = d.Totals(d.ctx, x)
		d.wrong("Tally", err, sale.ErrNotFound)
		_, err = d.InitialState(d.ctx, x)
		d.wrong("Opening", err, sale.ErrNotFound)
		d.wrong("Report", d.EachOrder(d.ctx, x, func(sale.Order) error { return nil }), sale.ErrNotFound)
		_, err = d.MerchantHash(d.ctx, x)
		d.wrong("MerchantHash", err, sale.ErrNotFound)
		_, err = d.Cancel(d.ctx, "u", x, t0)
		d.wrong("Cancel", err, sale.ErrNotFound)
		_, err = d.NextEpoch(d.ctx, x, 1, t0)
		d.wrong("NextEpoch", err, sale.ErrNotFound)
		_, err = d.AddStock(d.ctx, "shop", x, "key", 1, t0)
		d.wrong("AddStock", err, sale.ErrNotFound)
		_, err = d.SetState(d.ctx, "shop", x, sale.Exposed, "", t0, sale.Drafted)
		d.wrong("SetState", err, sale.ErrNotFound)
		if got, err := d.Orders(d.ctx, x); err != nil || len(got) != 0 {
			t.Fatalf("Orders(%q) = %v, %v, want none", x, got, err)
		}
		if x != "" {
			if got, err := d.Sales(d.ctx, x, ""); err != nil || len(got) != 0 {
				t.Fatalf("Sales(%q) = %v, %v, want none", x, got, err)
			}
			_, err = d.Sales(d.ctx, "", x)
			d.wrong("Sales after", err, sale.ErrNotFound)
		}
		d.must(d.MarkReturned(d.ctx, x))
		d.must(d.AppendAudit(d.ctx, x, x, x, t0))
		d.must(d.AddDeadLetter(d.ctx, x, 1, sale.Entry{ID: x, Corrupt: x}, x, t0))
	}
	if got, err := d.AuditLog(d.ctx, ""); err != nil || len(got) != len(texts) {
		t.Fatalf("Logged = %d lines, %v, want %d", len(got), err, len(texts))
	}
}

func sales(t *testing.T, d *desk) {
	var ids []string
	for i := range 103 {
		s, err := d.Create(d.ctx, "shop", Draft(1, 1), t0.Add(time.Duration(i/2)*time.Millisecond)) // two at a time
		d.must(err)
		ids = append(ids, s.ID)
	}
	first, err := d.Sales(d.ctx, "shop", "")
	d.must(err)
	if len(first) != 100 {
		t.Fatalf("%d sales, want 100", len(first))
	}
	rest, err := d.Sales(d.ctx, "shop", first[99].ID)
	d.must(err)
	all := append(first, rest...)
	if len(all) != len(ids) {
		t.Fatalf("%d sales on two pages, want %d", len(all), len(ids))
	}
	seen := map[string]bool{}
	for i, s := range all {
		if seen[s.ID] || i > 0 && s.CreatedAt.After(all[i-1].CreatedAt) {
			t.Fatalf("sale %d: twice, or newer than the one before", i)
		}
		seen[s.ID] = true
	}
	if got, err := d.Sales(d.ctx, "", ""); err != nil || len(got) != 0 {
		t.Fatalf("buyers see %d drafts, %v", len(got), err)
	}
	a, b, c := d.exposed(1, 1), d.exposed(1, 1), d.exposed(1, 1)
	_, err = d.SetState(d.ctx, "shop", b.ID, sale.Paused, sale.ByMerchant, t0, sale.Exposed)
	d.must(err)
	_, err = d.SetState(d.ctx, "shop", c.ID, sale.Ended, sale.Killed, t0, sale.Exposed)
	d.must(err)
	if got, err := d.Sales(d.ctx, "", ""); err != nil || len(got) != 3 {
		t.Fatalf("buyers see %d sales, %v, want 3", len(got), err)
	}
	live, err := d.LiveSales(d.ctx)
	d.must(err)
	if len(live) != 2 || live[0].ID != a.ID && live[1].ID != a.ID || live[0].ID == c.ID || live[1].ID == c.ID {
		t.Fatalf("Live = %+v, want the exposed one and the paused one", live)
	}
}

// states are steps of a merchant.
func states(t *testing.T, d *desk) {
	s, err := d.Create(d.ctx, "shop", Draft(5, 1), t0)
	d.must(err)
	for i, step := range []struct {
		to    sale.State
		why   string
		from  []sale.State
		fails error
		state sale.State
		w     string
	}{
		{sale.Paused, sale.ByMerchant, []sale.State{sale.Exposed, sale.Drafted}, sale.ErrConflict, sale.Drafted, ""},
		{sale.Ended, sale.ByMerchant, []sale.State{sale.Drafted}, sale.ErrConflict, sale.Drafted, ""},
		{sale.Exposed, "", []sale.State{sale.Paused}, sale.ErrConflict, sale.Drafted, ""},
		{sale.Exposed, "", nil, sale.ErrConflict, sale.Drafted, ""},
		{sale.Drafted, "", []sale.State{sale.Drafted}, sale.ErrInvalid, sale.Drafted, ""},
		{"open", "", []sale.State{sale.Drafted}, sale.ErrInvalid, sale.Drafted, ""},
		{sale.Exposed, "", []sale.State{sale.Drafted}, nil, sale.Exposed, ""},
		{sale.Exposed, "", []sale.State{sale.Drafted}, sale.ErrConflict, sale.Exposed, ""},
		{sale.Paused, sale.Recovering, []sale.State{sale.Exposed}, sale.ErrInvalid, sale.Exposed, ""},
		{sale.Paused, "", []sale.State{sale.Exposed}, sale.ErrInvalid, sale.Exposed, ""},
		{sale.Paused, sale.ByMerchant, []sale.State{sale.Exposed}, nil, sale.Paused, sale.ByMerchant},
		{sale.Paused, sale.ByMerchant, []sale.State{sale.Exposed}, sale.ErrConflict, sale.Paused, sale.ByMerchant},
		{sale.Exposed, "", []sale.State{sale.Paused}, nil, sale.Exposed, ""},
		{sale.Paused, sale.ByMerchant, []sale.State{sale.Exposed}, nil, sale.Paused, sale.ByMerchant},
		{sale.Ended, sale.Killed, []sale.State{sale.Exposed, sale.Paused}, nil, sale.Ended, sale.Killed},
		{sale.Exposed, "", []sale.State{sale.Ended, sale.Paused}, sale.ErrConflict, sale.Ended, sale.Killed},
		{sale.Paused, sale.ByMerchant, []sale.State{sale.Ended}, sale.ErrConflict, sale.Ended, sale.Killed},
	} {
		_, err := d.SetState(d.ctx, "shop", s.ID, step.to, step.why, t0, step.from...)
		if !errors.Is(err, step.fails) {
			t.Fatalf("step %d: %v, want %v", i, err, step.fails)
		}
		got, err := d.Sale(d.ctx, s.ID)
		d.must(err)
		if got.State != step.state || got.StateReason != step.w || (got.Epoch == 1) == (step.state == sale.Drafted) {
			t.Fatalf("step %d: %s (%s) at epoch %d, want %s (%s)", i, got.State, got.StateReason, got.Epoch, step.state, step.w)
		}
		tally, err := d.Totals(d.ctx, s.ID)
		d.must(err)
		if want := map[bool]int64{true: 0, false: 5}[step.state == sale.Drafted]; tally.Movements != want {
			t.Fatalf("step %d: %d units by movements, want %d", i, tally.Movements, want)
		}
	}
	lines, err := d.AuditLog(d.ctx, s.ID)
	d.must(err)
	if len(lines) != 6 { // created, and five changes
		t.Fatalf("the log has %d lines, want 6: %+v", len(lines), lines)
	}
}

func stock(t *testing.T, d *desk) {
	s := d.exposed(5, 1)
	now := t0.Add(time.Minute)
	for i, step := range []struct {
		key   string
		units int64
		fails error
		stock int64
	}{
		{"a", 3, nil, 8},
		{"a", 3, nil, 8}, // asked again
		{"a", 4, sale.ErrConflict, 8},
		{"b", 3, nil, 11},
		{"c", 0, sale.ErrInvalid, 11},
		{"c", -1, sale.ErrInvalid, 11},
		{"c", 1 << 62, sale.ErrInvalid, 11},
		{"c", sale.MaxStock - 10, sale.ErrInvalid, 11},
		{"", 1, sale.ErrInvalid, 11},
		{"a\x00", 1, sale.ErrInvalid, 11},
		{strings.Repeat("k", 129), 1, sale.ErrInvalid, 11},
		{"expose", 1, nil, 12}, // no word of the ledger's own
	} {
		_, err := d.AddStock(d.ctx, "shop", s.ID, step.key, step.units, now)
		if !errors.Is(err, step.fails) {
			t.Fatalf("step %d: %v, want %v", i, err, step.fails)
		}
		if got := d.check(s); got.Sale.Stock != step.stock {
			t.Fatalf("step %d: stock %d, want %d", i, got.Sale.Stock, step.stock)
		}
	}
	draft, err := d.Create(d.ctx, "shop", Draft(1, 1), t0)
	d.must(err)
	_, err = d.AddStock(d.ctx, "shop", draft.ID, "a", 1, now)
	d.wrong("AddStock of a draft", err, sale.ErrConflict)
	_, err = d.SetState(d.ctx, "shop", s.ID, sale.Ended, sale.ByMerchant, now, sale.Exposed)
	d.must(err)
	_, err = d.AddStock(d.ctx, "shop", s.ID, "late", 1, now)
	d.wrong("AddStock after the end", err, sale.ErrConflict)
	got, err := d.AddStock(d.ctx, "shop", s.ID, "a", 3, now) // what was done is still so
	d.must(err)
	if got.Stock != 12 {
		t.Fatalf("stock %d, want 12", got.Stock)
	}
}

func lists(t *testing.T, d *desk) {
	s := d.exposed(105, 10)
	var rs []sale.Reservation
	for i := range 105 {
		r := reservation(s, fmt.Sprint("u", i%11), i/11+1)
		r.At = r.At.Add(time.Duration(i/2) * time.Millisecond)
		rs = append(rs, r)
		d.place([]sale.Reservation{r}, fresh)
	}
	over := reservation(s, "u0", 10)
	over.At = over.At.Add(time.Second)
	over.Slot = 10
	d.place([]sale.Reservation{over}, rejected) // the slot is taken, or no unit
	lost := reservation(s, "u0", 1)
	d.must(d.MarkLost(d.ctx, lost, t0))
	for _, r := range rs {
		o, err := d.Order(d.ctx, r.ID)
		d.must(err)
		if o.Reservation != r || o.State != sale.PendingPay || o.Price != 9900 || !o.CreatedAt.Equal(t0.Add(2*time.Second)) || !o.ChangedAt.Equal(o.CreatedAt) {
			t.Fatalf("Order = %+v, want that of %+v", o, r)
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
	var told []sale.Order
	d.must(d.EachOrder(d.ctx, s.ID, func(o sale.Order) error { told = append(told, o); return nil }))
	if len(told) != 105 {
		t.Fatalf("Report tells of %d orders, want 105", len(told))
	}
	for i := range told[1:] {
		if told[i+1].At.Before(told[i].At) {
			t.Fatal("Report is not in order")
		}
	}
	stop := errors.New("stop")
	d.wrong("Report", d.EachOrder(d.ctx, s.ID, func(sale.Order) error { return stop }), stop)
}

func cancel(t *testing.T, d *desk) {
	s := d.exposed(2, 1)
	r := d.one(s, "a")
	_, err := d.Cancel(d.ctx, "b", r.ID, t0)
	d.wrong("Cancel of another's", err, sale.ErrNotFound)
	_, err = d.Cancel(d.ctx, "a", id(), t0)
	d.wrong("Cancel of nothing", err, sale.ErrNotFound)
	for range 2 {
		o, err := d.Cancel(d.ctx, "a", r.ID, t0.Add(3*time.Second))
		d.must(err)
		if o.State != sale.Cancelled || !o.ChangedAt.Equal(t0.Add(3*time.Second)) {
			t.Fatalf("Cancel = %+v", o)
		}
	}
	if got := d.check(s); got.Movements != 2 || got.Cancelled != 1 {
		t.Fatalf("%+v, want the unit back once", got)
	}
}

func expire(t *testing.T, d *desk) {
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

func returned(t *testing.T, d *desk) {
	s := d.exposed(10, 1)
	rs := batch(s, 4)
	d.place(rs, fresh, fresh, fresh, fresh)
	_, err := d.Cancel(d.ctx, rs[0].User, rs[0].ID, t0)
	d.must(err)
	d.pay(rs[1], "p", t0)
	d.must(d.MarkReturned(d.ctx, rs[1].ID, rs[2].ID)) // these hold their units
	_, err = d.Expire(d.ctx, t0.Add(time.Hour), 10)
	d.must(err)
	got, err := d.Unreturned(d.ctx, 10)
	d.must(err)
	if len(got) != 3 || got[0].ID != rs[0].ID {
		t.Fatalf("Unreturned = %+v, want the cancelled one and two that expired", got)
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

// returnedShared: sales share what Unreturned returns, so that one whose units stay with it
// keeps no other waiting.
func returnedShared(t *testing.T, d *desk) {
	of := map[string]int{}
	for i, n := range []int{30, 3, 1} {
		s := d.exposed(int64(n), 1)
		_, err := d.CreateOrders(d.ctx, batch(s, n), t0)
		d.must(err)
		_, err = d.Expire(d.ctx, t0.Add(time.Duration(i+1)*time.Hour), n)
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

func bury(t *testing.T, d *desk) {
	s := d.exposed(10, 1)
	for range 2 { // delivered again
		d.must(d.AddDeadLetter(d.ctx, s.ID, 1, sale.Entry{ID: "1-1", Deliveries: 5, Corrupt: "\xff\x00no JSON"}, "cannot be read", t0))
	}
	d.must(d.AddDeadLetter(d.ctx, s.ID, 1, sale.Entry{ID: "1-2", Reservation: reservation(s, "u", 1)}, strings.Repeat("x", 1<<20), t0))
	d.must(d.AddDeadLetter(d.ctx, s.ID, 2, sale.Entry{ID: "1-1"}, "", t0))
	if got := d.check(s); got.DeadLetters != 3 {
		t.Fatalf("%d buried, want 3", got.DeadLetters)
	}
}

func logs(t *testing.T, d *desk) {
	d.must(d.Ping(d.ctx))
	for i := range 205 {
		d.must(d.AppendAudit(d.ctx, "somebody", []string{"a", "b"}[i%2], fmt.Sprint(i), t0.Add(time.Duration(i)*time.Millisecond)))
	}
	all, err := d.AuditLog(d.ctx, "")
	d.must(err)
	if len(all) != 200 || all[0] != (sale.AuditEntry{At: t0.Add(204 * time.Millisecond), Actor: "somebody", Sale: "a", Event: "204"}) {
		t.Fatalf("Logged = %d lines, %+v first", len(all), all[0])
	}
	if b, err := d.AuditLog(d.ctx, "b"); err != nil || len(b) != 102 || b[0].Event != "203" {
		t.Fatalf("Logged of one sale = %d, %v", len(b), err)
	}
	d.must(d.AddMerchant(d.ctx, "tea house 茶", "hash 1"))
	d.must(d.AddMerchant(d.ctx, "tea house 茶", "hash 2"))
	if got, err := d.MerchantHash(d.ctx, "tea house 茶"); err != nil || got != "hash 2" {
		t.Fatalf("MerchantHash = %q, %v", got, err)
	}
	for _, x := range [][2]string{{"", "h"}, {"a\n", "h"}, {"a", ""}, {"a", "\x00"}, {strings.Repeat("a", 129), "h"}} {
		d.wrong(fmt.Sprintf("%.20q", x), d.AddMerchant(d.ctx, x[0], x[1]), sale.ErrInvalid)
	}
}
