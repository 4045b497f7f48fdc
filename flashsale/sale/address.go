package sale

import (
	"fmt"
	"log/slog"
	"strings"
)

// AddressRule is whether a sale asks for the delivery address of an order.
type AddressRule string

const (
	NoAddress       AddressRule = "none"
	AddressOptional AddressRule = "optional"
	AddressRequired AddressRule = "required" // an order without an address cannot be paid
)

// Address is the delivery address of an order, a part of its Contact. As that, logs and
// formatted values do not contain it.
type Address struct {
	Country string `json:"-"` // or region: two capital letters of ISO 3166-1
	City    string `json:"-"` // with its state or province: 1 to 80 characters
	Street  string `json:"-"` // 1 to 120 characters
	Street2 string `json:"-"` // the second line: up to 120 characters
	Postal  string `json:"-"` // the postal code: up to 12 letters, digits, spaces and hyphens
}

func (a Address) trimmed() Address {
	return Address{strings.TrimSpace(a.Country), strings.TrimSpace(a.City), strings.TrimSpace(a.Street), strings.TrimSpace(a.Street2), strings.TrimSpace(a.Postal)}
}

// check adds a FieldError for every field that is not accepted.
func (a Address) check(f *fieldErrors) {
	isLetter := func(r rune) bool { return r < 'A' || r > 'Z' }
	f.check(len(a.Country) == 2 && !strings.ContainsFunc(a.Country, isLetter), WrongForm, "country", quote(a.Country), "two capital letters of ISO 3166-1")
	for _, l := range []struct {
		field, text string
		most        int
		required    bool
	}{{"city", a.City, 80, true}, {"street", a.Street, 120, true}, {"street2", a.Street2, 120, false}} {
		if l.text != "" || l.required {
			f.text(l.field, l.text, l.most)
		}
	}
	isOther := func(r rune) bool { return !isWord(r) && r != ' ' }
	f.check(len(a.Postal) <= 12 && !strings.ContainsFunc(a.Postal, isOther) && strings.TrimSpace(a.Postal) == a.Postal,
		WrongForm, "postal", quote(a.Postal), "up to 12 letters a-z A-Z, digits, spaces and hyphens")
}

// CheckAddress returns an error with a FieldError for every field if an order of the sale cannot
// be paid with the address a, or cannot have it.
func (d Draft) CheckAddress(a Address) error {
	var f fieldErrors
	switch none := a == (Address{}); {
	case !none && (d.Address == "" || d.Address == NoAddress):
		f.check(false, NotUsed, "country", quote(a.Country), "none: this sale asks for no address")
	case !none || d.Address == AddressRequired:
		a.check(&f)
	}
	return f.err()
}

// String returns whether there is an address, without its content.
func (a Address) String() string {
	if a == (Address{}) {
		return "none"
	}
	return "an address"
}

// GoString returns the text of String.
func (a Address) GoString() string { return fmt.Sprintf("sale.Address(%s)", a) }

// LogValue returns the text of String.
func (a Address) LogValue() slog.Value { return slog.StringValue(a.String()) }
