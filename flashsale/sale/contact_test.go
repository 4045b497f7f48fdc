package sale_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/floodweir/weir/flashsale/sale"
)

func TestContact(t *testing.T) {
	good := sale.Contact{Name: "王小明", Phone: "+86 138-0013-8000"}
	for _, c := range []struct {
		name, phone string
		want        string // in the error; empty if it is accepted
	}{
		{good.Name, good.Phone, ""},
		{"O'Brien-Müller, Zoë", "(02) 1234 5678", ""},
		{"=1+1", "12345", ""}, // a name is a text, whatever a spreadsheet would do
		{strings.Repeat("名", 60), strings.Repeat("1", 20), ""},
		{"A", "+" + strings.Repeat("1 ", 19) + "1", ""},
		{"", good.Phone, `name: got "", want 1 to 60 characters`},
		{strings.Repeat("名", 61), good.Phone, "not 61"},
		{" A", good.Phone, "no space at its ends"},
		{"a\nb", good.Phone, `name: got "a\nb", want no control characters`},
		{"a\x00b", good.Phone, "no control characters"},
		{"a\u202eb", good.Phone, "cannot be seen"},
		{"a\u2028b", good.Phone, "no control characters"},
		{"\u3164", good.Phone, "something that can be seen"},
		{"\xff", good.Phone, "valid UTF-8"},
		{good.Name, "", `phone: got "", want 5 to 20 digits`},
		{good.Name, "1234", "phone"},
		{good.Name, strings.Repeat("1", 21), "phone"},
		{good.Name, "12345x", `phone: got "12345x"`},
		{good.Name, "12345\t6", "phone"},
		{good.Name, "１２３４５", "phone"},
		{good.Name, " 12345", "phone"},
		{good.Name, "12345" + strings.Repeat(" ", 40) + "6", "phone"},
		{good.Name, "=12345", "phone"},
		{"", "", "; phone"},
	} {
		err := sale.Contact{Name: c.name, Phone: c.phone}.Validate()
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%q, %q: %v", c.name, c.phone, err)
		case c.want != "" && (!errors.Is(err, sale.ErrInvalid) || !strings.Contains(fmt.Sprint(err), c.want)):
			t.Errorf("%q, %q: %v, want %q", c.name, c.phone, err, c.want)
		}
	}
	if got := (sale.Contact{Name: " \t王小明\n", Phone: "\u00a012345 "}).Trimmed(); got != (sale.Contact{Name: "王小明", Phone: "12345"}) {
		t.Errorf("Trimmed = %q, %q", got.Name, got.Phone)
	}
}

// TestContactIsNotLogged prints a contact in every way that logs do.
func TestContactIsNotLogged(t *testing.T) {
	c := sale.Contact{Name: "Wang", Phone: "13800138000", Address: sale.Address{Country: "CN", City: "Hangzhou", Street: "Wensan Road 1"}}
	o := sale.Order{Contact: c}
	var text bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&text, nil)} {
		slog.New(h).Info("paid", "contact", c, "address", c.Address, "as text", fmt.Sprintf("%v %+v %#v %s", c.Address, c.Address, c.Address, c.Address), "as JSON", o, "order", fmt.Sprintf("%v %+v %#v %s", o, o, o, c), "receipt", fmt.Sprint(sale.Receipt{Contact: c}))
	}
	if got := text.String(); strings.Contains(got, "Wang") || strings.Contains(got, "1380") || strings.Contains(got, "Hangzhou") || strings.Contains(got, "Wensan") {
		t.Errorf("the log has a contact: %s", got)
	}
}

// TestAddress checks an address in each rule of a sale, and the fields of its errors.
func TestAddress(t *testing.T) {
	whole := sale.Address{Country: "CN", City: "浙江省杭州市", Street: "文三路 1 号", Street2: "3 幢 502", Postal: "310-12 A"}
	for _, c := range []struct {
		change func(*sale.Address)
		want   string // the fields in the error
	}{
		{func(*sale.Address) {}, ""},
		{func(a *sale.Address) { a.Street2, a.Postal = "", "" }, ""},
		{func(a *sale.Address) { a.City, a.Street = strings.Repeat("城", 80), strings.Repeat("街", 120) }, ""},
		{func(a *sale.Address) { *a = sale.Address{Postal: "1"} }, "country city street"},
		{func(a *sale.Address) { a.Country = "cn" }, "country"},
		{func(a *sale.Address) { a.Country = "CHN" }, "country"},
		{func(a *sale.Address) { a.City = strings.Repeat("城", 81) }, "city"},
		{func(a *sale.Address) { a.Street = "a\nb" }, "street"},
		{func(a *sale.Address) { a.Street = strings.Repeat("街", 121) }, "street"},
		{func(a *sale.Address) { a.Street2 = strings.Repeat("街", 121) }, "street2"},
		{func(a *sale.Address) { a.Street2 = "\u202e" }, "street2"},
		{func(a *sale.Address) { a.Postal = "1234567890123" }, "postal"},
		{func(a *sale.Address) { a.Postal = "=1+1" }, "postal"},
	} {
		a := whole
		c.change(&a)
		err := sale.Contact{Name: "A", Phone: "12345", Address: a}.Validate()
		var got []string
		for _, f := range sale.FieldErrors(err) {
			got = append(got, f.Field)
		}
		if strings.Join(got, " ") != c.want || (c.want != "") != errors.Is(err, sale.ErrInvalid) {
			t.Errorf("%#v: %v, want the fields %q", [...]string{a.Country, a.City, a.Street, a.Street2, a.Postal}, err, c.want)
		}
	}
	for _, c := range []struct {
		rule sale.AddressRule
		of   sale.Address
		ok   bool
	}{
		{"", sale.Address{}, true}, {"", whole, false}, {sale.NoAddress, sale.Address{}, true}, {sale.NoAddress, whole, false},
		{sale.AddressOptional, sale.Address{}, true}, {sale.AddressOptional, whole, true}, {sale.AddressOptional, sale.Address{City: "A"}, false},
		{sale.AddressRequired, sale.Address{}, false}, {sale.AddressRequired, whole, true},
	} {
		if err := (sale.Draft{Address: c.rule}).CheckAddress(c.of); (err == nil) != c.ok {
			t.Errorf("rule %q of %q: %v, want no error: %v", c.rule, c.of.City, err, c.ok)
		}
	}
	spaced := sale.Contact{Address: sale.Address{Country: " CN", City: "A ", Street: "\tB", Street2: " ", Postal: "1 "}}.Trimmed()
	if spaced.Address != (sale.Address{Country: "CN", City: "A", Street: "B", Postal: "1"}) {
		t.Errorf("Trimmed = %q", spaced.Address.City)
	}
}
