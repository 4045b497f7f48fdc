package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// RequestError describes the part of a request that is not accepted.
type RequestError struct {
	Status int    // 400 if zero
	Field  string // the JSON name; empty if it is not about one
	Detail string
}

// Error is the detail.
func (f *RequestError) Error() string { return f.Detail }

// A Member is one that a body may have.
type Member struct {
	Name string
	Text *string // of a text; otherwise it is a whole number
	Num  *int64

	Present bool // whether it stood there
}

// Decode reads data, one flat JSON object, into members.
func Decode(data []byte, members []Member) *RequestError {
	if !utf8.Valid(data) {
		return &RequestError{Detail: "the body is no UTF-8"}
	}
	s := scanner{data: data}
	if !s.next('{') {
		return s.fault("want a JSON object")
	}
	for first := true; !s.next('}'); first = false {
		if !first && !s.next(',') {
			return s.fault("want , or } behind a member")
		}
		name, ok := s.text()
		if !ok {
			return s.fault("want the name of a member in quotes")
		}
		if !s.next(':') {
			return s.fault("want : behind the name of a member")
		}
		if f := s.member(name, members); f != nil {
			return f
		}
	}
	s.space()
	if s.at < len(s.data) {
		return s.fault("want nothing behind the object")
	}
	return nil
}

// A scanner reads JSON from its beginning to its end.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) fault(want string) *RequestError {
	return &RequestError{Detail: fmt.Sprintf("the body, at byte %d: %s", s.at, want)}
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

// next takes c if it is next.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// text takes a string.
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

// member reads the value of the member of this name.
func (s *scanner) member(name string, members []Member) *RequestError {
	var m *Member
	for i := range members {
		if members[i].Name == name {
			m = &members[i]
		}
	}
	wrong := func(got any, want string) *RequestError {
		return &RequestError{Field: name, Detail: fmt.Sprintf("%.60s: %.60v: %s", name, got, want)}
	}
	if m == nil {
		return &RequestError{Field: name[:min(len(name), 60)], Detail: fmt.Sprintf("%.60q: no such field", name)}
	}
	if m.Present {
		return &RequestError{Field: name, Detail: name + ": stands there twice"}
	}
	m.Present = true
	s.space()
	if s.at == len(s.data) {
		return s.fault("want a value")
	}
	if m.Text != nil {
		if c := s.data[s.at]; c != '"' {
			return wrong(string(s.word()), "want a text")
		}
		t, ok := s.text()
		if !ok {
			return s.fault("want the end of a text")
		}
		*m.Text = t
		return nil
	}
	word := s.word()
	n, err := strconv.ParseInt(string(word), 10, 64)
	if err != nil || !isWhole(word) {
		return wrong(string(word), "want a whole number")
	}
	*m.Num = n
	return nil
}

// word takes what stands before the next delimiter.
func (s *scanner) word() []byte {
	rest := s.data[s.at:]
	n := bytes.IndexAny(rest, ",} \t\r\n")
	if n < 0 {
		n = len(rest)
	}
	s.at += n
	return rest[:n]
}

// isWhole reports whether w is a whole number as JSON spells it.
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
