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
	c := sale.Contact{Name: "Wang", Phone: "13800138000"}
	o := sale.Order{Contact: c}
	var text bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&text, nil), slog.NewJSONHandler(&text, nil)} {
		slog.New(h).Info("paid", "contact", c, "as JSON", o, "order", fmt.Sprintf("%v %+v %#v %s", o, o, o, c), "receipt", fmt.Sprint(sale.Receipt{Contact: c}))
	}
	if got := text.String(); strings.Contains(got, "Wang") || strings.Contains(got, "1380") {
		t.Errorf("the log has a contact: %s", got)
	}
}
