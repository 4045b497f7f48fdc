package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/sale"
)

// RequestError describes the part of a request that is not accepted.
type RequestError struct {
	Status int    // 400 if zero
	Field  string // the JSON name; empty if the error is not about one field
	Detail string

	// The reason of an error about one field, as in a sale.FieldError.
	Code     sale.FieldCode
	Min, Max int64
}

// Error returns the detail.
func (f *RequestError) Error() string { return f.Detail }

// Member is one member that a body may have.
type Member struct {
	Name string
	Text *string // set for a string
	Bool *bool   // set for true or false
	Num  *int64  // set for a whole number

	// Min and Max bound a number, or the bytes of a text. Without a Max there is no bound.
	Min, Max int64

	Present bool // set by Decode
}

// Decode decodes data, one flat JSON object, into members.
func Decode(data []byte, members []Member) *RequestError {
	if !utf8.Valid(data) {
		return &RequestError{Detail: "body: not UTF-8"}
	}
	s := scanner{data: data}
	if !s.next('{') {
		return s.fault("want a JSON object")
	}
	for first := true; !s.next('}'); first = false {
		if !first && !s.next(',') {
			return s.fault("want , or } after a member")
		}
		name, ok := s.text()
		if !ok {
			return s.fault("want a member name in quotes")
		}
		if !s.next(':') {
			return s.fault("want : after a member name")
		}
		if f := s.member(name, members); f != nil {
			return f
		}
	}
	s.space()
	if s.at < len(s.data) {
		return s.fault("want nothing after the object")
	}
	for i := range members {
		if f := members[i].bounded(); f != nil {
			return f
		}
	}
	return nil
}

// bounded returns an error if the value of a member, or what it has without one, is out of its
// bounds.
func (m *Member) bounded() *RequestError {
	f := RequestError{Field: m.Name, Code: sale.OutOfRange, Min: m.Min, Max: m.Max}
	var n int64
	unit := ""
	switch {
	case m.Max == 0:
		return nil
	case m.Num != nil:
		n = *m.Num
	default:
		n, unit, f.Code = int64(len(*m.Text)), " bytes", sale.WrongLength
	}
	if n >= m.Min && n <= m.Max {
		return nil
	}
	f.Detail = fmt.Sprintf("%s: got %d%s, want %d to %d", m.Name, n, unit, m.Min, m.Max)
	return &f
}

// scanner reads JSON.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) fault(want string) *RequestError {
	return &RequestError{Detail: fmt.Sprintf("body: byte %d: %s", s.at, want)}
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next consumes c if it is the next byte after white space.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// text consumes a string.
func (s *scanner) text() (string, bool) {
	if !s.next('"') {
		return "", false
	}
	begin, escaped := s.at, false
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '\\':
			escaped = true
			s.at++
		case c < ' ':
			return "", false
		case c == '"':
			raw := s.data[begin:s.at]
			s.at++
			if !escaped {
				return string(raw), true
			}
			var t string
			if json.Unmarshal(s.data[begin-1:s.at], &t) != nil {
				return "", false
			}
			return t, true
		}
	}
	return "", false
}

// member decodes the value of the member with this name.
func (s *scanner) member(name string, members []Member) *RequestError {
	var m *Member
	for i := range members {
		if members[i].Name == name {
			m = &members[i]
		}
	}
	wrong := func(got any, want string) *RequestError {
		return &RequestError{Field: name, Detail: fmt.Sprintf("%.60s: got %.60v, %s", name, got, want)}
	}
	if m == nil {
		return &RequestError{Field: name[:min(len(name), 60)], Detail: fmt.Sprintf("%.60q: unknown field", name)}
	}
	if m.Present {
		return &RequestError{Field: name, Detail: name + ": given twice"}
	}
	m.Present = true
	s.space()
	if s.at == len(s.data) {
		return s.fault("want a value")
	}
	if m.Text != nil {
		if c := s.data[s.at]; c != '"' {
			return wrong(string(s.word()), "want a string")
		}
		t, ok := s.text()
		if !ok {
			return s.fault("want the end of a string")
		}
		*m.Text = t
		return nil
	}
	word := s.word()
	if m.Bool != nil {
		if *m.Bool = string(word) == "true"; !*m.Bool && string(word) != "false" {
			return wrong(string(word), "want true or false")
		}
		return nil
	}
	n, err := strconv.ParseInt(string(word), 10, 64)
	if err != nil || !isWhole(word) {
		return wrong(string(word), "want a whole number")
	}
	*m.Num = n
	return nil
}

// word consumes everything before the next delimiter.
func (s *scanner) word() []byte {
	rest := s.data[s.at:]
	n := bytes.IndexAny(rest, ",} \t\r\n")
	if n < 0 {
		n = len(rest)
	}
	s.at += n
	return rest[:n]
}

// isWhole reports whether w is a whole number in JSON.
func isWhole(w []byte) bool {
	w = bytes.TrimPrefix(w, []byte("-"))
	if len(w) == 0 || len(w) > 1 && w[0] == '0' {
		return false
	}
	for _, c := range w {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
