package sale_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

func draft() sale.Draft {
	start := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	return sale.Draft{SKU: "tea-1.0_x", Title: "龙井 Tea", Price: 9900, Stock: 1000, StartsAt: start, EndsAt: start.Add(time.Hour)}
}

func TestDraftDefaults(t *testing.T) {
	d := draft()
	d.StartsAt = d.StartsAt.Add(1999 * time.Microsecond).In(time.FixedZone("", 3600))
	d = d.WithDefaults()
	want := draft()
	want.StartsAt = want.StartsAt.Add(time.Millisecond)
	want.Currency, want.PerUser, want.Headroom, want.Queue = "CNY", 1, 3, sale.Fifo
	want.PayWithin, want.TokenFor = 15*time.Minute, 30*time.Second
	if d != want {
		t.Errorf("WithDefaults() = %+v, want %+v", d, want)
	}
	if err := d.Validate(); err != nil {
		t.Errorf("Validate() = %v, want nil", err)
	}
}

func TestDraftValidate(t *testing.T) {
	for _, c := range []struct {
		name  string
		edit  func(*sale.Draft)
		field string // empty: accepted
	}{
		{"the largest of all", func(d *sale.Draft) {
			d.SKU, d.Title, d.Price, d.Stock = strings.Repeat("x", 64), strings.Repeat("茶", 120), sale.MaxPrice, sale.MaxStock
			d.PerUser, d.Headroom, d.Queue, d.Lobby = 10, 10, sale.Shuffled, time.Hour
			d.EndsAt, d.PayWithin, d.TokenFor = d.StartsAt.Add(sale.MaxLength), 24*time.Hour, 10*time.Minute
			d.Work = 24
		}, ""},
		{"the smallest of all", func(d *sale.Draft) {
			d.SKU, d.Title, d.Price, d.Stock, d.EndsAt = "x", "x", 0, 1, d.StartsAt.Add(time.Millisecond)
			d.PayWithin, d.TokenFor = time.Second, time.Second
		}, ""},
		{"a family", func(d *sale.Draft) { d.Title = "👩‍👩‍👧 tea" }, ""},
		{"no sku", func(d *sale.Draft) { d.SKU = "" }, "sku = "},
		{"long sku", func(d *sale.Draft) { d.SKU = strings.Repeat("x", 65) }, "sku = "},
		{"sku with a space", func(d *sale.Draft) { d.SKU = "a b" }, "sku = "},
		{"sku of another script", func(d *sale.Draft) { d.SKU = "tеa" }, "sku = "},
		{"sku with a slash", func(d *sale.Draft) { d.SKU = "../a" }, "sku = "},
		{"no title", func(d *sale.Draft) { d.Title = "" }, "title = "},
		{"long title", func(d *sale.Draft) { d.Title = strings.Repeat("茶", 121) }, "title = "},
		{"huge title", func(d *sale.Draft) { d.Title = strings.Repeat("茶", 1<<20) }, "title = "},
		{"broken UTF-8", func(d *sale.Draft) { d.Title = "a\xff" }, "title = "},
		{"a zero byte", func(d *sale.Draft) { d.Title = "a\x00b" }, "title = "},
		{"a line", func(d *sale.Draft) { d.Title = "a\nb" }, "title = "},
		{"a line of Unicode", func(d *sale.Draft) { d.Title = "a\u2028b" }, "title = "},
		{"turned around", func(d *sale.Draft) { d.Title = "a\u202eb" }, "title = "},
		{"isolated", func(d *sale.Draft) { d.Title = "a\u2066b" }, "title = "},
		{"tags", func(d *sale.Draft) { d.Title = "a\U000e0041" }, "title = "},
		{"a byte order mark", func(d *sale.Draft) { d.Title = "\ufeffa" }, "title = "},
		{"private use", func(d *sale.Draft) { d.Title = "a\ue000" }, "title = "},
		{"no character", func(d *sale.Draft) { d.Title = "a\uffff" }, "title = "},
		{"covered by marks", func(d *sale.Draft) { d.Title = "a" + strings.Repeat("\u0301", 9) }, "title = "},
		{"nothing to see", func(d *sale.Draft) { d.Title = "\u3164\u3164" }, "title = "},
		{"only joiners", func(d *sale.Draft) { d.Title = "\u200d" }, "title = "},
		{"only space", func(d *sale.Draft) { d.Title = "\u3000" }, "title = "},
		{"price below", func(d *sale.Draft) { d.Price = -1 }, "price = -1, want 0 to 1000000000000"},
		{"price above", func(d *sale.Draft) { d.Price = sale.MaxPrice + 1 }, "price = "},
		{"currency", func(d *sale.Draft) { d.Currency = "cny" }, "currency = "},
		{"long currency", func(d *sale.Draft) { d.Currency = "CNYX" }, "currency = "},
		{"no units", func(d *sale.Draft) { d.Stock = 0 }, "stock = 0"},
		{"too many units", func(d *sale.Draft) { d.Stock = sale.MaxStock + 1 }, "stock = "},
		{"fewer than none", func(d *sale.Draft) { d.Stock = -1 << 63 }, "stock = "},
		{"per user below", func(d *sale.Draft) { d.PerUser = -1 }, "per_user = -1"},
		{"per user above", func(d *sale.Draft) { d.PerUser = 11 }, "per_user = 11"},
		{"no start", func(d *sale.Draft) { d.StartsAt = time.Time{} }, "starts_at = none"},
		{"an early start", func(d *sale.Draft) { d.StartsAt = time.Unix(-1<<40, 0) }, "starts_at = "},
		{"a late end", func(d *sale.Draft) { d.EndsAt = time.Unix(1<<50, 0) }, "ends_at = "},
		{"end at start", func(d *sale.Draft) { d.EndsAt = d.StartsAt }, "ends_at = "},
		{"too long", func(d *sale.Draft) { d.EndsAt = d.StartsAt.Add(sale.MaxLength + time.Millisecond) }, "ends_at = "},
		{"headroom", func(d *sale.Draft) { d.Headroom = 11 }, "headroom = 11"},
		{"queue", func(d *sale.Draft) { d.Queue = "lifo" }, "queue = "},
		{"lobby of a fifo", func(d *sale.Draft) { d.Lobby = time.Second }, "lobby = 1s"},
		{"long lobby", func(d *sale.Draft) { d.Queue, d.Lobby = sale.Shuffled, time.Hour+time.Millisecond }, "lobby = "},
		{"negative lobby", func(d *sale.Draft) { d.Queue, d.Lobby = sale.Shuffled, -time.Second }, "lobby = "},
		{"work below", func(d *sale.Draft) { d.Work = -1 }, "work = -1, want 0 to 24"},
		{"work above", func(d *sale.Draft) { d.Work = 25 }, "work = 25, want 0 to 24"},
		{"short time to pay", func(d *sale.Draft) { d.PayWithin = 999 * time.Millisecond }, "pay_within = 999ms"},
		{"long time to pay", func(d *sale.Draft) { d.PayWithin = 25 * time.Hour }, "pay_within = "},
		{"short token", func(d *sale.Draft) { d.TokenFor = -1 }, "token_for = "},
		{"long token", func(d *sale.Draft) { d.TokenFor = 11 * time.Minute }, "token_for = "},
	} {
		d := draft()
		c.edit(&d)
		err := d.WithDefaults().Validate()
		if c.field == "" {
			if err != nil {
				t.Errorf("%s: %v, want nil", c.name, err)
			}
			continue
		}
		if !errors.Is(err, sale.ErrInvalid) || !strings.Contains(err.Error(), c.field) {
			t.Errorf("%s: %v, want %q", c.name, err, c.field)
			continue
		}
		if text := err.Error(); len(text) > 600 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' && r != '…' }) {
			t.Errorf("%s: the error shows too much: %q", c.name, text)
		}
	}
}

func TestDraftNamesEveryFault(t *testing.T) {
	err := sale.Draft{}.Validate()
	for _, field := range []string{"sku", "title", "currency", "stock", "per_user", "starts_at", "ends_at", "headroom", "queue", "pay_within", "token_for"} {
		if !strings.Contains(err.Error(), field+" = ") {
			t.Errorf("%v: no %s", err, field)
		}
	}
}

func FuzzDraftTitle(f *testing.F) {
	f.Add("龙井 Tea")
	f.Add("a\u202eb")
	f.Fuzz(func(t *testing.T, title string) {
		d := draft()
		d.Title = title
		d = d.WithDefaults()
		if err := d.Validate(); err == nil && strings.ContainsAny(title, "\x00\n\r\u202e\u2066") {
			t.Errorf("Validate accepts %q", title)
		}
	})
}
