package sale

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// Contact is the recipient of an order. The buyer and the merchant of the sale can read it; logs
// and formatted values do not contain it.
type Contact struct {
	Name    string  `json:"-"`
	Phone   string  `json:"-"`
	Address Address `json:"-"` // zero if the buyer has set none
}

// Trimmed returns c without white space around its fields.
func (c Contact) Trimmed() Contact {
	return Contact{strings.TrimSpace(c.Name), strings.TrimSpace(c.Phone), c.Address.trimmed()}
}

// Validate returns an error with a FieldError for every field that is not accepted. A name has
// 1 to 60 visible characters. A phone has 5 to 20 digits, and spaces, + - ( ). There can be an
// address: see Address.
func (c Contact) Validate() error {
	var f fieldErrors
	f.text("name", c.Name, 60)
	f.check(isPhone(c.Phone), WrongForm, "phone", quote(c.Phone), "5 to 20 digits, and spaces, + - ( ) between them: 40 characters at most")
	if c.Address != (Address{}) {
		c.Address.check(&f)
	}
	return f.err()
}

func isPhone(s string) bool {
	digits := 0
	for _, r := range s {
		switch {
		case r >= '0' && r <= '9':
			digits++
		case !strings.ContainsRune(" +-()", r):
			return false
		}
	}
	return digits >= 5 && digits <= 20 && utf8.RuneCountInString(s) <= 40 && strings.TrimSpace(s) == s
}

// Masked returns c for those who may not contact buyers: the first character of the name, the
// last two of the phone, the country and the city.
func (c Contact) Masked() Contact {
	if c == (Contact{}) {
		return c
	}
	first, _ := utf8.DecodeRuneInString(c.Name)
	return Contact{
		Name: string(first) + "**", Phone: "***" + c.Phone[max(0, len(c.Phone)-2):],
		Address: Address{Country: c.Address.Country, City: c.Address.City},
	}
}

// String returns whether there is a contact, without its content.
func (c Contact) String() string {
	if c == (Contact{}) {
		return "none"
	}
	return "a contact"
}

// GoString returns the text of String.
func (c Contact) GoString() string { return fmt.Sprintf("sale.Contact(%s)", c) }

// LogValue returns the text of String.
func (c Contact) LogValue() slog.Value { return slog.StringValue(c.String()) }
