package transport

import (
	"math"
	"net/http"
	"strings"
	"time"
)

// Longer fields, and fields with more members, are ignored.
const (
	maxField   = 8 << 10
	maxMembers = 64
)

// rateLimit returns the longest reset of the limits with nothing remaining in a RateLimit
// field, and whether the field reports what remains.
func rateLimit(h http.Header) (time.Duration, bool) {
	limits, ok := parseMembers(strings.Join(h.Values("Ratelimit"), ", "))
	if !ok {
		return 0, false
	}
	if left, ok := dictionary(limits, "remaining"); ok {
		reset, ok := dictionary(limits, "reset")
		if left > 0 {
			return 0, true
		}
		return seconds(float64(reset)), ok
	}
	var longest time.Duration
	found := false
	for _, m := range limits {
		if m.key != "" || !m.r.ok {
			continue
		}
		if m.r.n > 0 {
			found = true
			continue
		}
		reset := m.t
		if !reset.ok {
			reset = window(h, m.name)
		}
		if reset.ok {
			found = true
			longest = max(longest, seconds(float64(reset.n)))
		}
	}
	return longest, found
}

// window returns the parameter w of the policy called name in RateLimit-Policy.
func window(h http.Header, name string) integer {
	policies, _ := parseMembers(strings.Join(h.Values("Ratelimit-Policy"), ", "))
	for _, p := range policies {
		if p.key == "" && p.name == name {
			return p.w
		}
	}
	return integer{}
}

func dictionary(ms []member, key string) (int64, bool) {
	for _, m := range ms {
		if m.key == key {
			return m.value.n, m.value.ok
		}
	}
	return 0, false
}

// An integer is a non-negative number that may be absent.
type integer struct {
	n  int64
	ok bool
}

// A member holds the parsed parts of one member of a list or a dictionary of structured fields
// (RFC 9651).
type member struct {
	key     string  // of a dictionary; "" in a list
	name    string  // the value, if it is a string or a token
	value   integer // the value, if it is an integer
	r, t, w integer // the parameters of these names
}

// parseMembers parses a list or a dictionary. It reports false for a malformed field. Inner
// lists are not supported: no field here has one.
func parseMembers(text string) ([]member, bool) {
	p := scanner{text}
	p.spaces()
	if len(text) > maxField || p.rest == "" {
		return nil, false
	}
	var ms []member
	for len(ms) < maxMembers {
		m, ok := p.member()
		if !ok {
			return nil, false
		}
		ms = append(ms, m)
		p.spaces()
		if p.rest == "" {
			return ms, true
		}
		if !p.take(',') {
			return nil, false
		}
		p.spaces()
	}
	return nil, false
}

// A scanner holds the rest of a field. Its methods report whether the text that they parse is
// well formed.
type scanner struct{ rest string }

func (p *scanner) spaces() { p.rest = strings.TrimLeft(p.rest, " \t") }

func (p *scanner) take(c byte) bool {
	if p.rest == "" || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// while consumes the longest run of bytes that f accepts.
func (p *scanner) while(f func(byte) bool) string {
	i := 0
	for i < len(p.rest) && f(p.rest[i]) {
		i++
	}
	run := p.rest[:i]
	p.rest = p.rest[i:]
	return run
}

func (p *scanner) member() (m member, ok bool) {
	before := p.rest
	if key := p.key(); key != "" {
		if p.take('=') {
			m.key = key
		} else {
			p.rest = before
		}
	}
	if m.name, m.value, ok = p.item(); !ok {
		return m, false
	}
	for p.take(';') {
		p.spaces()
		key := p.key()
		if key == "" {
			return m, false
		}
		var n integer
		if p.take('=') {
			if _, n, ok = p.item(); !ok {
				return m, false
			}
		}
		switch key {
		case "r":
			m.r = n
		case "t":
			m.t = n
		case "w":
			m.w = n
		}
	}
	return m, true
}

func (p *scanner) key() string {
	if p.rest == "" || !lower(p.rest[0]) && p.rest[0] != '*' {
		return ""
	}
	return p.while(func(c byte) bool { return lower(c) || digit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

// item parses a bare item, and returns its text or its number.
func (p *scanner) item() (text string, n integer, ok bool) {
	if p.rest == "" {
		return "", n, false
	}
	switch c := p.rest[0]; {
	case c == '"':
		text, ok = p.quoted()
		return text, n, ok
	case c == '-' || digit(c):
		n, ok = p.number()
		return "", n, ok
	case c == '@':
		p.take('@')
		_, ok = p.number()
		return "", n, ok
	case c == '?':
		p.take('?')
		return "", n, p.take('0') || p.take('1')
	case c == ':':
		p.take(':')
		p.while(func(c byte) bool { return lower(c) || upper(c) || digit(c) || strings.IndexByte("+/=", c) >= 0 })
		return "", n, p.take(':')
	case c == '*' || lower(c) || upper(c):
		return p.while(func(c byte) bool {
			return lower(c) || upper(c) || digit(c) || strings.IndexByte("!#$%&'*+-.^_`|~:/", c) >= 0
		}), n, true
	}
	return "", n, false
}

func (p *scanner) quoted() (string, bool) {
	p.take('"')
	var b strings.Builder
	for p.rest != "" {
		c := p.rest[0]
		p.rest = p.rest[1:]
		switch {
		case c == '"':
			return b.String(), true
		case c == '\\':
			if p.rest == "" || p.rest[0] != '"' && p.rest[0] != '\\' {
				return "", false
			}
			c = p.rest[0]
			p.rest = p.rest[1:]
		case c < ' ' || c > '~':
			return "", false
		}
		b.WriteByte(c)
	}
	return "", false
}

// number parses an integer or a decimal. A negative number is well formed but not ok; a
// decimal is rounded up.
func (p *scanner) number() (n integer, ok bool) {
	negative := p.take('-')
	whole := p.while(digit)
	if whole == "" || len(whole) > maxDigits {
		return n, false
	}
	fraction := ""
	if p.take('.') {
		if fraction = p.while(digit); fraction == "" || len(fraction) > 3 || len(whole) > 12 {
			return n, false
		}
		whole += "." + fraction
	}
	f, ok := decimal(whole)
	return integer{int64(math.Ceil(f)), ok && !negative}, ok
}

func lower(c byte) bool { return 'a' <= c && c <= 'z' }
func upper(c byte) bool { return 'A' <= c && c <= 'Z' }
func digit(c byte) bool { return '0' <= c && c <= '9' }
