package ledgertest

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// editExposed changes each setting of a sale that buyers see.
func editExposed(t *testing.T, d *tester) {
	now := Start().Add(time.Minute)
	s := d.exposed(10, 2)
	audited := 0
	for _, c := range []struct {
		name    string
		change  func(*sale.Draft)
		refused string // the fields, with what is wanted
		audit   string
	}{
		{"sku", func(e *sale.Draft) { e.SKU = "x" }, `sku: got "x", want "tea": it is fixed once buyers see the sale`, ""},
		{"title", func(e *sale.Draft) { e.Title = "碧螺春" }, "", `edited: title "龙井" → "碧螺春"`},
		{"price", func(e *sale.Draft) { e.Price = 1 }, "price: got 1, want 9900: it is fixed once buyers see the sale", ""},
		{"currency", func(e *sale.Draft) { e.Currency = "USD" }, `currency: got "USD", want "CNY": it is fixed`, ""},
		{"stock", func(e *sale.Draft) { e.Stock = 11 }, "stock: got 11, want 10: to add units, use the call for it", ""},
		{"more per user", func(e *sale.Draft) { e.PerUser = 3 }, "", "edited: per_user 2 → 3"},
		{"fewer per user", func(e *sale.Draft) { e.PerUser = 2 }, "per_user: got 2, want 3 to 10: buyers may hold so many units", ""},
		{"start", func(e *sale.Draft) { e.StartsAt = e.StartsAt.Add(-time.Second) }, "starts_at: got 2031-05-01T09:59:59.000Z, want 2031-05-01T10:00:00.000Z: it is fixed", ""},
		{"later end", func(e *sale.Draft) { e.EndsAt = e.EndsAt.Add(time.Hour) }, "", "edited: ends_at 2031-05-01T11:00:00.000Z → 2031-05-01T12:00:00.000Z"},
		{"earlier end", func(e *sale.Draft) { e.EndsAt = now.Add(sale.MinNotice) }, "", "edited: ends_at 2031-05-01T12:00:00.000Z → 2031-05-01T10:02:00.000Z"},
		{"end too early", func(e *sale.Draft) { e.EndsAt = now.Add(sale.MinNotice - time.Millisecond) },
			"ends_at: got 2031-05-01T10:01:59.999Z, want a time from 2031-05-01T10:02:00.000Z on", ""},
		{"headroom", func(e *sale.Draft) { e.Headroom = 9 }, "headroom: got 9, want 3: it is fixed", ""},
		{"queue", func(e *sale.Draft) { e.Queue = sale.Direct }, `queue: got "direct", want "fifo": it is fixed`, ""},
		{"time to pay", func(e *sale.Draft) { e.PayWithin = 2 * time.Minute }, "", "edited: pay_within 1m0s → 2m0s"},
		{"token", func(e *sale.Draft) { e.TokenFor = time.Minute }, "token_for: got 1m0s, want 30s: it is fixed", ""},
		{"work", func(e *sale.Draft) { e.Work = 18 }, "", "edited: work 0 → 18"},
		{"members", func(e *sale.Draft) { e.MembersOnly = true }, "members_only: got true, want false: it is fixed", ""},
		{"two", func(e *sale.Draft) { e.Price, e.SKU = 2, "y" }, "price: got 2", ""},
		{"nothing", func(*sale.Draft) {}, "", ""},
	} {
		want := s.Draft
		c.change(&want)
		got, err := d.Edit(d.ctx, "shop", s.ID, s.Version, want, now)
		if c.refused != "" {
			if !errors.Is(err, sale.ErrInvalid) || !strings.Contains(err.Error(), c.refused) || len(sale.FieldErrors(err)) == 0 {
				t.Fatalf("%s: %v, want %s", c.name, err, c.refused)
			}
			if got, err := d.Sale(d.ctx, s.ID); err != nil || got != s {
				t.Fatalf("%s: the sale is %+v, %v, want %+v", c.name, got, err, s)
			}
			continue
		}
		d.must(err)
		if got.Draft != want || got.Version != s.Version+1 || got.State != sale.Exposed {
			t.Fatalf("%s: %+v, want %+v", c.name, got, want)
		}
		s = got
		if c.audit == "" {
			continue
		}
		audited++
		log, err := d.AuditLog(d.ctx, s.ID)
		if d.must(err); log[0].Event != c.audit || log[0].Actor != "shop" {
			t.Fatalf("%s: the audit log has %q of %s, want %q", c.name, log[0].Event, log[0].Actor, c.audit)
		}
	}
	if log, err := d.AuditLog(d.ctx, s.ID); err != nil || len(log) != 2+audited {
		t.Fatalf("%d entries in the audit log, want %d", len(log), 2+audited)
	}
	_, err := d.Edit(d.ctx, "shop", s.ID, s.Version-1, s.Draft, now)
	d.wantError("Edit of an old version", err, sale.ErrConflict)
	later := s.Draft
	later.EndsAt = later.EndsAt.Add(time.Hour)
	_, err = d.Edit(d.ctx, "shop", s.ID, s.Version, later, s.EndsAt.Add(-4*time.Second))
	d.wantError("Edit of a sale that ends", err, sale.ErrConflict)
	s, err = d.SetState(d.ctx, "shop", s.ID, sale.Ended, sale.Killed, now, sale.Exposed)
	d.must(err)
	_, err = d.Edit(d.ctx, "shop", s.ID, s.Version, s.Draft, now)
	d.wantError("Edit of a sale that has ended", err, sale.ErrConflict)
}
