package database

import (
	"strings"
	"time"
	"unicode/utf8"
)

// TimeOf returns the time of a column in milliseconds.
func TimeOf(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// ScanText scans a row of one text.
func ScanText(scan func(...any) error) (s string, err error) {
	err = scan(&s)
	return s, err
}

// Storable returns s if a column can store it, and an empty string, which is no ID, otherwise. A
// text in PostgreSQL is UTF-8 without zero bytes.
func Storable(s string) string {
	if len(s) > 512 || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
		return ""
	}
	return s
}

// Text converts any bytes to text that a column can store.
func Text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
