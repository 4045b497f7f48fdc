package pgstore

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
)

// longest is the largest number of bytes of a key or a limit in a name. A longer one is
// replaced by '#', with which no other one begins, and its SHA-256.
const longest = 200

// stateName returns the name of the row of a key under a limit, PREFIX:KEY LIMIT. Neither the
// prefix has a ':', nor the key a space, so two names are different if any part is.
func (s *Store) stateName(key string, l weir.Limit) string {
	return s.config.Prefix + ":" + bounded(escape(key, ' ')) + " " + bounded(escape(l.Spec().State, 0))
}

func bounded(text string) string {
	if len(text) <= longest {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "#" + hex.EncodeToString(sum[:])
}

// escape replaces '%', '#', the byte also and every byte that is not printable ASCII by '%' and
// two hexadecimal digits. A text of PostgreSQL has neither NUL nor invalid UTF-8.
func escape(text string, also byte) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ' || c > '~' || c == '%' || c == '#' || c == also:
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// An array is an array of PostgreSQL as text, which every driver sends.
type array struct{ b []byte }

func (a *array) next() {
	if a.b == nil {
		a.b = append(a.b, '{')
		return
	}
	a.b = append(a.b, ',')
}

func (a *array) null() {
	a.next()
	a.b = append(a.b, "NULL"...)
}

func (a *array) number(n int64) {
	a.next()
	a.b = strconv.AppendInt(a.b, n, 10)
}

func (a *array) boolean(v bool) {
	a.next()
	a.b = strconv.AppendBool(a.b, v)
}

func (a *array) text(s string) {
	a.next()
	a.b = append(a.b, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			a.b = append(a.b, '\\')
		}
		a.b = append(a.b, s[i])
	}
	a.b = append(a.b, '"')
}

// String returns the array as PostgreSQL reads it.
func (a *array) String() string {
	if a.b == nil {
		return "{}"
	}
	return string(a.b) + "}"
}

func numbers(all []int64) string {
	var a array
	for _, n := range all {
		a.number(n)
	}
	return a.String()
}

// parseNumbers parses an array of numbers.
func parseNumbers(text string) ([]int64, error) {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}")
	if text == "" {
		return nil, nil
	}
	all := make([]int64, 0, strings.Count(text, ",")+1)
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, err
		}
		all = append(all, n)
	}
	return all, nil
}
