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
	want.Currency, want.PerUser, want.MaxQuantity, want.Headroom, want.Queue, want.Address = "CNY", 1, 1, 3, sale.Fifo, sale.NoAddress
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
			d.PerUser, d.MaxQuantity, d.Headroom, d.Queue, d.Lobby = 10, 10, 10, sale.Shuffled, time.Hour
			d.EndsAt, d.PayWithin, d.TokenFor = d.StartsAt.Add(sale.MaxLength), 24*time.Hour, 10*time.Minute
			d.Work, d.Address, d.Campaign = 24, sale.AddressRequired, strings.Repeat("x", 40)
		}, ""},
		{"the smallest of all", func(d *sale.Draft) {
			d.SKU, d.Title, d.Price, d.Stock, d.EndsAt = "x", "x", 0, 1, d.StartsAt.Add(time.Millisecond)
			d.PayWithin, d.TokenFor = time.Second, time.Second
		}, ""},
		{"a family", func(d *sale.Draft) { d.Title = "👩‍👩‍👧 tea" }, ""},
		{"no sku", func(d *sale.Draft) { d.SKU = "" }, "sku: got "},
		{"long sku", func(d *sale.Draft) { d.SKU = strings.Repeat("x", 65) }, "sku: got "},
		{"sku with a space", func(d *sale.Draft) { d.SKU = "a b" }, "sku: got "},
		{"sku of another script", func(d *sale.Draft) { d.SKU = "tеa" }, "sku: got "},
		{"sku with a slash", func(d *sale.Draft) { d.SKU = "../a" }, "sku: got "},
		{"no title", func(d *sale.Draft) { d.Title = "" }, "title: got "},
		{"long title", func(d *sale.Draft) { d.Title = strings.Repeat("茶", 121) }, "title: got "},
		{"huge title", func(d *sale.Draft) { d.Title = strings.Repeat("茶", 1<<20) }, "title: got "},
		{"broken UTF-8", func(d *sale.Draft) { d.Title = "a\xff" }, "title: got "},
		{"a zero byte", func(d *sale.Draft) { d.Title = "a\x00b" }, "title: got "},
		{"a line", func(d *sale.Draft) { d.Title = "a\nb" }, "title: got "},
		{"a line of Unicode", func(d *sale.Draft) { d.Title = "a\u2028b" }, "title: got "},
		{"turned around", func(d *sale.Draft) { d.Title = "a\u202eb" }, "title: got "},
		{"isolated", func(d *sale.Draft) { d.Title = "a\u2066b" }, "title: got "},
		{"tags", func(d *sale.Draft) { d.Title = "a\U000e0041" }, "title: got "},
		{"a byte order mark", func(d *sale.Draft) { d.Title = "\ufeffa" }, "title: got "},
		{"private use", func(d *sale.Draft) { d.Title = "a\ue000" }, "title: got "},
		{"no character", func(d *sale.Draft) { d.Title = "a\uffff" }, "title: got "},
		{"covered by marks", func(d *sale.Draft) { d.Title = "a" + strings.Repeat("\u0301", 9) }, "title: got "},
		{"nothing to see", func(d *sale.Draft) { d.Title = "\u3164\u3164" }, "title: got "},
		{"only joiners", func(d *sale.Draft) { d.Title = "\u200d" }, "title: got "},
		{"only space", func(d *sale.Draft) { d.Title = "\u3000" }, "title: got "},
		{"price below", func(d *sale.Draft) { d.Price = -1 }, "price: got -1, want 0 to 1000000000000"},
		{"price above", func(d *sale.Draft) { d.Price = sale.MaxPrice + 1 }, "price: got "},
		{"currency", func(d *sale.Draft) { d.Currency = "cny" }, "currency: got "},
		{"long currency", func(d *sale.Draft) { d.Currency = "CNYX" }, "currency: got "},
		{"no units", func(d *sale.Draft) { d.Stock = 0 }, "stock: got 0"},
		{"too many units", func(d *sale.Draft) { d.Stock = sale.MaxStock + 1 }, "stock: got "},
		{"fewer than none", func(d *sale.Draft) { d.Stock = -1 << 63 }, "stock: got "},
		{"per user below", func(d *sale.Draft) { d.PerUser = -1 }, "per_user: got -1"},
		{"quantity below", func(d *sale.Draft) { d.MaxQuantity = -1 }, "max_quantity: got -1"},
		{"quantity above per user", func(d *sale.Draft) { d.PerUser, d.MaxQuantity = 2, 3 }, "max_quantity: got 3, want 1 to 2"},
		{"per user above", func(d *sale.Draft) { d.PerUser = 11 }, "per_user: got 11"},
		{"no start", func(d *sale.Draft) { d.StartsAt = time.Time{} }, "starts_at: got none"},
		{"an early start", func(d *sale.Draft) { d.StartsAt = time.Unix(-1<<40, 0) }, "starts_at: got "},
		{"a late end", func(d *sale.Draft) { d.EndsAt = time.Unix(1<<50, 0) }, "ends_at: got "},
		{"end at start", func(d *sale.Draft) { d.EndsAt = d.StartsAt }, "ends_at: got "},
		{"too long", func(d *sale.Draft) { d.EndsAt = d.StartsAt.Add(sale.MaxLength + time.Millisecond) }, "ends_at: got "},
		{"headroom", func(d *sale.Draft) { d.Headroom = 11 }, "headroom: got 11"},
		{"campaign", func(d *sale.Draft) { d.Campaign = "double-11" }, ""},
		{"long campaign", func(d *sale.Draft) { d.Campaign = strings.Repeat("x", 41) }, "campaign: got "},
		{"campaign in capitals", func(d *sale.Draft) { d.Campaign = "Tea" }, "campaign: got "},
		{"campaign with a slash", func(d *sale.Draft) { d.Campaign = "a/b" }, "campaign: got "},
		{"campaign that ends in a hyphen", func(d *sale.Draft) { d.Campaign = "tea-" }, "campaign: got "},
		{"address", func(d *sale.Draft) { d.Address = "yes" }, "address: got "},
		{"queue", func(d *sale.Draft) { d.Queue = "lifo" }, "queue: got "},
		{"lobby of a fifo", func(d *sale.Draft) { d.Lobby = time.Second }, "lobby: got 1s"},
		{"long lobby", func(d *sale.Draft) { d.Queue, d.Lobby = sale.Shuffled, time.Hour+time.Millisecond }, "lobby: got "},
		{"negative lobby", func(d *sale.Draft) { d.Queue, d.Lobby = sale.Shuffled, -time.Second }, "lobby: got "},
		{"work below", func(d *sale.Draft) { d.Work = -1 }, "work: got -1, want 0 to 24"},
		{"work above", func(d *sale.Draft) { d.Work = 25 }, "work: got 25, want 0 to 24"},
		{"short time to pay", func(d *sale.Draft) { d.PayWithin = 999 * time.Millisecond }, "pay_within: got 999ms"},
		{"long time to pay", func(d *sale.Draft) { d.PayWithin = 25 * time.Hour }, "pay_within: got "},
		{"short token", func(d *sale.Draft) { d.TokenFor = -1 }, "token_for: got "},
		{"long token", func(d *sale.Draft) { d.TokenFor = 11 * time.Minute }, "token_for: got "},
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
		if !strings.Contains(err.Error(), field+": got ") {
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

// TestDraftValidateOrder validates one draft many times: its errors have one order.
func TestDraftValidateOrder(t *testing.T) {
	d := draft().WithDefaults()
	d.Queue = sale.Shuffled
	d.Lobby, d.PayWithin, d.TokenFor = 1500*time.Microsecond, time.Second+1, time.Second+2
	const want = "sale: invalid: lobby: got 1.5ms, want whole milliseconds; " +
		"pay_within: got 1.000000001s, want whole milliseconds; token_for: got 1.000000002s, want whole milliseconds"
	for range 50 {
		if err := d.Validate(); err == nil || err.Error() != want {
			t.Fatalf("Validate() = %v, want %s", err, want)
		}
	}
}

func TestFieldError(t *testing.T) {
	err := sale.Draft{}.WithDefaults().Validate()
	e, ok := errors.AsType[*sale.FieldError](err)
	if !ok || e.Field != "sku" || e.Value != `""` || !errors.Is(e, sale.ErrInvalid) {
		t.Errorf("first field error of %v is %+v, want sku", err, e)
	}
}
