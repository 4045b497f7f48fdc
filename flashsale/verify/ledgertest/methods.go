package ledgertest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/sale"
)

func createAndEdit(t *testing.T, d *tester) {
	want := Draft(10, 2)
	want.Work, want.MembersOnly, want.Address = 12, true, sale.AddressRequired
	s, err := d.Create(d.ctx, "shop", "", want, Start())
	d.must(err)
	if s.Draft != want.WithDefaults() || s.State != sale.Drafted || s.Epoch != 0 || s.Version < 1 || s.Merchant != "shop" || s.Sold != 0 {
		t.Fatalf("Create = %+v", s)
	}
	if got, err := d.Sale(d.ctx, s.ID); err != nil || got != s {
		t.Fatalf("Sale = %+v, %v, want %+v", got, err, s)
	}
	_, err = d.Create(d.ctx, "shop", "", sale.Draft{}, Start())
	d.wantError("Create of an empty draft", err, sale.ErrInvalid)
	_, err = d.Create(d.ctx, "", "", want, Start())
	d.wantError("Create without a merchant", err, sale.ErrInvalid)

	keyed, err := d.Create(d.ctx, "shop", "key", want, Start())
	d.must(err)
	for _, key := range []string{"key", "another"} {
		again, err := d.Create(d.ctx, "shop", key, want, Start().Add(time.Hour))
		d.must(err)
		if (again == keyed) != (key == "key") {
			t.Fatalf("Create with key %q again = %+v, first %+v", key, again, keyed)
		}
	}
	if log, err := d.AuditLog(d.ctx, keyed.ID); err != nil || len(log) != 1 {
		t.Fatalf("the audit log has %v, %v, want one creation", log, err)
	}
	_, err = d.Create(d.ctx, "shop", "key", Draft(3, 1), Start())
	d.wantError("Create of another draft with the same key", err, sale.ErrConflict)
	if other, err := d.Create(d.ctx, "other", "key", want, Start()); err != nil || other.ID == keyed.ID {
		t.Fatalf("the same key of another merchant = %+v, %v", other, err)
	}
	_, err = d.Create(d.ctx, "shop", strings.Repeat("k", 200), want, Start())
	d.wantError("Create with a long key", err, sale.ErrInvalid)
	keyed, err = d.Edit(d.ctx, "shop", keyed.ID, keyed.Version, Draft(4, 1), Start())
	d.must(err)
	if again, err := d.Create(d.ctx, "shop", "key", want, Start()); err != nil || again != keyed {
		t.Fatalf("Create with the key of an edited sale = %+v, %v, want %+v", again, err, keyed)
	}

	in := want
	in.Campaign = "spring-tea"
	first, err := d.Create(d.ctx, "shop", "", in, Start())
	d.must(err)
	if first.Campaign != in.Campaign {
		t.Fatalf("Create in a campaign = %+v", first)
	}
	_, err = d.Create(d.ctx, "other", "", in, Start())
	if f := sale.FieldErrors(err); len(f) != 1 || f[0].Field != "campaign" {
		t.Fatalf("Create in a campaign of another merchant: %v, want the field campaign", err)
	}
	theirs, err := d.Create(d.ctx, "other", "", want, Start())
	d.must(err)
	_, err = d.Edit(d.ctx, "other", theirs.ID, theirs.Version, in, Start())
	d.wantError("Edit to a campaign of another merchant", err, sale.ErrInvalid)
	if twin, err := d.Copy(d.ctx, "shop", first.ID, "twin", Start()); err != nil || twin.Campaign != in.Campaign {
		t.Fatalf("Copy = campaign %q, %v", twin.Campaign, err)
	}

	want.Campaign = "late-spring"
	want.Title, want.Stock, want.Queue, want.Lobby, want.Work = "碧螺春", 20, sale.Shuffled, time.Minute, sale.MaxWork
	want.MembersOnly, want.Address = false, sale.AddressOptional
	edited, err := d.Edit(d.ctx, "shop", s.ID, s.Version, want, Start())
	d.must(err)
	if edited.Draft != want.WithDefaults() || edited.Version <= s.Version || edited.ID != s.ID {
		t.Fatalf("Edit = %+v", edited)
	}
	_, err = d.Edit(d.ctx, "shop", s.ID, s.Version, want, Start())
	d.wantError("Edit of an old version", err, sale.ErrConflict)
	_, err = d.Edit(d.ctx, "other", s.ID, edited.Version, want, Start())
	d.wantError("Edit of another merchant's sale", err, sale.ErrNotFound)
	_, err = d.Edit(d.ctx, "shop", "nothing", 1, want, Start())
	d.wantError("Edit of an unknown sale", err, sale.ErrNotFound)
	_, err = d.Edit(d.ctx, "shop", s.ID, edited.Version, sale.Draft{}, Start())
	d.wantError("Edit to an empty draft", err, sale.ErrInvalid)
}

// copies copies a sale before it starts, and at its start and later, when the copy starts on a
// later day.
func copies(t *testing.T, d *tester) {
	from, err := d.Create(d.ctx, "shop", "", Draft(5, 2), Start())
	d.must(err)
	const day = 24 * time.Hour
	for i, step := range []struct {
		now   time.Time
		shift time.Duration
	}{
		{from.StartsAt.Add(-time.Millisecond), 0},
		{from.StartsAt, day},
		{from.StartsAt.Add(day - time.Millisecond), day},
		{from.StartsAt.Add(day), 2 * day},
	} {
		key := fmt.Sprint("key-", i)
		got, err := d.Copy(d.ctx, "shop", from.ID, key, step.now)
		d.must(err)
		want := from.Draft
		want.StartsAt, want.EndsAt = want.StartsAt.Add(step.shift), want.EndsAt.Add(step.shift)
		if got.Draft != want || got.ID == from.ID || got.State != sale.Drafted || got.Epoch != 0 || got.Sold != 0 {
			t.Fatalf("step %d: the copy is %+v, want the draft %+v", i, got, want)
		}
		want.Title = "edited"
		_, err = d.Edit(d.ctx, "shop", got.ID, got.Version, want, Start())
		d.must(err)
		again, err := d.Copy(d.ctx, "shop", from.ID, key, step.now.Add(3*day))
		d.must(err)
		if again.ID != got.ID || again.Draft != want {
			t.Fatalf("step %d: repeated, the copy is %+v, want %+v", i, again, want)
		}
	}
	all, err := d.Sales(d.ctx, "shop", "")
	d.must(err)
	if len(all) != 5 {
		t.Fatalf("%d sales, want 5", len(all))
	}
	audit, err := d.AuditLog(d.ctx, all[0].ID)
	d.must(err)
	if len(audit) != 2 || audit[1].Actor != "shop" || audit[1].Event != "copied from "+from.ID {
		t.Fatalf("audit log %+v", audit)
	}
	for _, key := range []string{"key-0", "new"} {
		_, err := d.Copy(d.ctx, "other", from.ID, key, Start())
		d.wantError("Copy by another merchant", err, sale.ErrNotFound)
	}
	_, err = d.Copy(d.ctx, "shop", "unknown", "key", Start())
	d.wantError("Copy of an unknown sale", err, sale.ErrNotFound)
	_, err = d.Copy(d.ctx, "shop", from.ID, "", Start())
	d.wantError("Copy without a key", err, sale.ErrInvalid)
}

// invalidTexts passes unknown IDs and texts that could break a statement.
func invalidTexts(t *testing.T, d *tester) {
	texts := []string{"", "\x00", "a\x00b", "\xff\xfe", "'; DROP TABLE orders; --", `\`, "%", "_", "$1", "{}", strings.Repeat("x", 1<<16), "\u202e"}
	for _, x := range texts {
		_, err := d.Sale(d.ctx, x)
		d.wantError("Sale", err, sale.ErrNotFound)
		_, err = d.Order(d.ctx, x)
		d.wantError("Order", err, sale.ErrNotFound)
		_, err = d.Totals(d.ctx, x)
		d.wantError("Totals", err, sale.ErrNotFound)
		_, err = d.InitialState(d.ctx, x)
		d.wantError("InitialState", err, sale.ErrNotFound)
		d.wantError("EachOrder", d.EachOrder(d.ctx, x, func(sale.Order) error { return nil }), sale.ErrNotFound)
		_, err = d.Accounts().Account(d.ctx, x)
		d.wantError("Account", err, sale.ErrNotFound)
		if got, err := d.Accounts().Accounts(d.ctx, x); err != nil || len(got) != 0 {
			t.Fatalf("Accounts(%q) = %v, %v, want none", x, got, err)
		}
		if got, err := d.Accounts().Log(d.ctx, x); err != nil || len(got) != 0 {
			t.Fatalf("Log(%q) = %v, %v, want none", x, got, err)
		}
		_, err = d.Cancel(d.ctx, "u", x, Start())
		d.wantError("Cancel", err, sale.ErrNotFound)
		_, err = d.NextEpoch(d.ctx, x, 1, Start())
		d.wantError("NextEpoch", err, sale.ErrNotFound)
		_, err = d.AddStock(d.ctx, "shop", x, "key", 1, Start())
		d.wantError("AddStock", err, sale.ErrNotFound)
		_, err = d.SetState(d.ctx, "shop", x, sale.Exposed, "", Start(), sale.Drafted)
		d.wantError("SetState", err, sale.ErrNotFound)
		if got, err := d.Orders(d.ctx, x); err != nil || len(got) != 0 {
			t.Fatalf("Orders(%q) = %v, %v, want none", x, got, err)
		}
		if x != "" {
			if got, err := d.Sales(d.ctx, x, ""); err != nil || len(got) != 0 {
				t.Fatalf("Sales(%q) = %v, %v, want none", x, got, err)
			}
			_, err = d.Sales(d.ctx, "", x)
			d.wantError("Sales after an unknown sale", err, sale.ErrNotFound)
		}
		d.must(d.MarkReturned(d.ctx, x))
		d.must(d.AppendAudit(d.ctx, x, x, x, Start()))
		d.must(d.AddDeadLetter(d.ctx, x, 1, sale.Entry{ID: x, Corrupt: x}, x, Start()))
	}
	if got, err := d.AuditLog(d.ctx, ""); err != nil || len(got) != len(texts) {
		t.Fatalf("AuditLog = %d entries, %v, want %d", len(got), err, len(texts))
	}
}

func sales(t *testing.T, d *tester) {
	var ids []string
	for i := range 103 {
		s, err := d.Create(d.ctx, "shop", "", Draft(1, 1), Start().Add(time.Duration(i/2)*time.Millisecond)) // two with equal times
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
			t.Fatalf("sale %d: repeated, or newer than the previous one", i)
		}
		seen[s.ID] = true
	}
	if got, err := d.Sales(d.ctx, "", ""); err != nil || len(got) != 0 {
		t.Fatalf("buyers see %d drafts, %v", len(got), err)
	}
	a, b, c := d.exposed(1, 1), d.exposed(1, 1), d.exposed(1, 1)
	_, err = d.SetState(d.ctx, "shop", b.ID, sale.Paused, sale.ByMerchant, Start(), sale.Exposed)
	d.must(err)
	_, err = d.SetState(d.ctx, "shop", c.ID, sale.Ended, sale.Killed, Start(), sale.Exposed)
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

// states runs the state changes of a merchant.
func states(t *testing.T, d *tester) {
	s, err := d.Create(d.ctx, "shop", "", Draft(5, 1), Start())
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
		_, err := d.SetState(d.ctx, "shop", s.ID, step.to, step.why, Start(), step.from...)
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
	if len(lines) != 6 { // one creation and five changes
		t.Fatalf("the log has %d entries, want 6: %+v", len(lines), lines)
	}
}

func stock(t *testing.T, d *tester) {
	s := d.exposed(5, 1)
	now := Start().Add(time.Minute)
	for i, step := range []struct {
		key   string
		units int64
		fails error
		stock int64
	}{
		{"a", 3, nil, 8},
		{"a", 3, nil, 8}, // repeated
		{"a", 4, sale.ErrConflict, 8},
		{"b", 3, nil, 11},
		{"c", 0, sale.ErrInvalid, 11},
		{"c", -1, sale.ErrInvalid, 11},
		{"c", 1 << 62, sale.ErrInvalid, 11},
		{"c", sale.MaxStock - 10, sale.ErrInvalid, 11},
		{"", 1, sale.ErrInvalid, 11},
		{"a\x00", 1, sale.ErrInvalid, 11},
		{strings.Repeat("k", 129), 1, sale.ErrInvalid, 11},
		{"expose", 1, nil, 12}, // a key is not reserved by the ledger
	} {
		_, err := d.AddStock(d.ctx, "shop", s.ID, step.key, step.units, now)
		if !errors.Is(err, step.fails) {
			t.Fatalf("step %d: %v, want %v", i, err, step.fails)
		}
		if got := d.check(s); got.Sale.Stock != step.stock {
			t.Fatalf("step %d: stock %d, want %d", i, got.Sale.Stock, step.stock)
		}
	}
	draft, err := d.Create(d.ctx, "shop", "", Draft(1, 1), Start())
	d.must(err)
	_, err = d.AddStock(d.ctx, "shop", draft.ID, "a", 1, now)
	d.wantError("AddStock of a draft", err, sale.ErrConflict)
	_, err = d.SetState(d.ctx, "shop", s.ID, sale.Ended, sale.ByMerchant, now, sale.Exposed)
	d.must(err)
	_, err = d.AddStock(d.ctx, "shop", s.ID, "late", 1, now)
	d.wantError("AddStock after the end", err, sale.ErrConflict)
	got, err := d.AddStock(d.ctx, "shop", s.ID, "a", 3, now) // a repeated call still returns its result
	d.must(err)
	if got.Stock != 12 {
		t.Fatalf("stock %d, want 12", got.Stock)
	}
}

func deadLetters(t *testing.T, d *tester) {
	s := d.exposed(10, 1)
	for range 2 { // delivered again
		d.must(d.AddDeadLetter(d.ctx, s.ID, 1, sale.Entry{ID: "1-1", Deliveries: 5, Corrupt: "\xff\x00not JSON"}, "cannot be read", Start()))
	}
	d.must(d.AddDeadLetter(d.ctx, s.ID, 1, sale.Entry{ID: "1-2", Reservation: Reservation(s, "u", 1)}, strings.Repeat("x", 1<<20), Start()))
	d.must(d.AddDeadLetter(d.ctx, s.ID, 2, sale.Entry{ID: "1-1"}, "", Start()))
	if got := d.check(s); got.DeadLetters != 3 {
		t.Fatalf("%d dead letters, want 3", got.DeadLetters)
	}
}

func logs(t *testing.T, d *tester) {
	d.must(d.Ping(d.ctx))
	for i := range 205 {
		d.must(d.AppendAudit(d.ctx, "alice", []string{"a", "b"}[i%2], fmt.Sprint(i), Start().Add(time.Duration(i)*time.Millisecond)))
	}
	all, err := d.AuditLog(d.ctx, "")
	d.must(err)
	if len(all) != 200 || all[0] != (sale.AuditEntry{At: Start().Add(204 * time.Millisecond), Actor: "alice", Sale: "a", Event: "204"}) {
		t.Fatalf("AuditLog = %d entries, %+v first", len(all), all[0])
	}
	if b, err := d.AuditLog(d.ctx, "b"); err != nil || len(b) != 102 || b[0].Event != "203" {
		t.Fatalf("AuditLog of one sale = %d, %v", len(b), err)
	}
	d.must(d.AddMerchant(d.ctx, "tea house 茶", "hash 1"))
	d.must(d.AddMerchant(d.ctx, "tea house 茶", "hash 2"))
	if got, err := d.Accounts().Account(d.ctx, "tea house 茶"); err != nil || got.Hash != "hash 2" || got.Role != account.Owner || got.Merchant != got.Name {
		t.Fatalf("Account = %+v, %v, want an owner with hash 2", got, err)
	}
	for _, x := range [][2]string{{"", "h"}, {"a\n", "h"}, {"a", ""}, {"a", "\x00"}, {strings.Repeat("a", 129), "h"}} {
		d.wantError(fmt.Sprintf("%.20q", x), d.AddMerchant(d.ctx, x[0], x[1]), sale.ErrInvalid)
	}
}
