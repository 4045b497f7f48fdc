package ledger

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/sale"
)

// name says what is wrong with a name that is kept: 1 to 128 bytes of text that can be shown.
func name(field, s string) error {
	if len(s) < 1 || len(s) > 128 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("%w: %s = %s, want 1 to 128 bytes of text without control characters", sale.ErrInvalid, field, show(s))
	}
	return nil
}

// word says what is wrong with an ID: low to high letters, digits and hyphens.
func word(field, s string, low, high int) error {
	ok := len(s) >= low && len(s) <= high
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		ok = c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
	}
	if !ok {
		return fmt.Errorf("%w: %s = %s, want %d to %d letters a-z A-Z, digits, -", sale.ErrInvalid, field, show(s), low, high)
	}
	return nil
}

// known is s if it can be in the database at all: what cannot is nothing's name. (A text in
// PostgreSQL has no zero byte and is UTF-8.)
func known(s string) string {
	if len(s) > 512 || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return ""
	}
	return s
}

// show shows a text that anybody may have sent.
func show(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%+q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%+q", s)
}

// clean makes any bytes a text that the database takes, at most 4,096 bytes of it.
func clean(s string) string {
	const most = 4096
	if len(s) > most {
		s = s[:most]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
