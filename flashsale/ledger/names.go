package ledger

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// validateName returns an error if s is not 1 to 128 bytes of printable text.
func validateName(field, s string) error {
	if len(s) < 1 || len(s) > 128 || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsGraphic(r) }) {
		return fmt.Errorf("%w: %s: got %s, want 1 to 128 bytes of text without control characters", sale.ErrInvalid, field, quote(s))
	}
	return nil
}

// validateID returns an error if s is not low to high letters, digits and hyphens.
func validateID(field, s string, low, high int) error {
	if !isID(s, low, high, "-") {
		return fmt.Errorf("%w: %s: got %s, want %d to %d letters a-z A-Z, digits, -", sale.ErrInvalid, field, quote(s), low, high)
	}
	return nil
}

// isID reports whether s is low to high letters, digits and these signs.
func isID(s string, low, high int, signs string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(signs, c) >= 0) {
			return false
		}
	}
	return len(s) >= low && len(s) <= high
}

// quote quotes untrusted text and shortens it.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%+q… (%d bytes)", s[:most], len(s))
	}
	return fmt.Sprintf("%+q", s)
}

// storableText converts any bytes to text that the database can store, at most 4,096 bytes.
func storableText(s string) string {
	const most = 4096
	if len(s) > most {
		s = s[:most]
	}
	return database.Text(s)
}

// millis returns t in milliseconds, rounded down.
func millis(t time.Time) int64 { return t.UnixMilli() }

// millisUp returns t in milliseconds, rounded up. The result is after a time in whole
// milliseconds exactly if t is.
func millisUp(t time.Time) int64 {
	ms := t.UnixMilli()
	if time.UnixMilli(ms).Before(t) {
		ms++
	}
	return ms
}
