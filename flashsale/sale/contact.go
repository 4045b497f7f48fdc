package sale

import (
	"fmt"
	"log/slog"
	"strings"
	"unicode/utf8"
)

// A Contact is who is to get what an order buys, as the buyer says it. Its buyer and the
// merchant of the sale see it; logs and printed values do not show it.
type Contact struct {
	Name  string `json:"-"`
	Phone string `json:"-"`
}

// Trimmed is c without the spaces around its fields.
func (c Contact) Trimmed() Contact {
	return Contact{strings.TrimSpace(c.Name), strings.TrimSpace(c.Phone)}
}

// Validate returns nil, or one error that wraps ErrInvalid and names every field that is not
// accepted, its value and what was expected: a name of 1 to 60 characters that can be seen,
// and a phone of 5 to 20 digits and spaces, + - ( ).
func (c Contact) Validate() error {
	var f fieldErrors
	f.check(c.Name != "", "name", `""`, "1 to 60 characters")
	if c.Name != "" {
		want := textFault(c.Name, 60)
		f.check(want == "", "name", quote(c.Name), want)
	}
	f.check(isPhone(c.Phone), "phone", quote(c.Phone), "5 to 20 digits, and spaces, + - ( ) between them: 40 characters at most")
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

// String tells whether there is a contact, and not what it is.
func (c Contact) String() string {
	if c == (Contact{}) {
		return "none"
	}
	return "a contact"
}

// GoString is String.
func (c Contact) GoString() string { return fmt.Sprintf("sale.Contact(%s)", c) }

// LogValue is String.
func (c Contact) LogValue() slog.Value { return slog.StringValue(c.String()) }
