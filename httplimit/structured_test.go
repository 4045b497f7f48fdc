package httplimit_test

import (
	"fmt"
	"strings"
	"testing"
)

// A small, strict parser of the structured fields (RFC 9651) that the drafts use:
// lists of strings, integers and tokens with parameters, and dictionaries of
// integers.

type sfItem struct {
	value  any // string, int64 or sfToken
	params map[string]any
	order  []string
}

type sfToken string

type sfParser struct{ s string }

// parseList parses a whole field as a List (section 4.2.1).
func parseList(field string) (items []sfItem, err error) {
	p := &sfParser{strings.Trim(field, " ")}
	for p.s != "" {
		it, err := p.item()
		if err != nil {
			return nil, err
		}
		items = append(items, it)
		if more, err := p.comma(); err != nil || !more {
			return items, err
		}
	}
	return items, nil
}

// parseDictionary parses a whole field as a Dictionary (section 4.2.2).
func parseDictionary(field string) (map[string]sfItem, error) {
	p, m := &sfParser{strings.Trim(field, " ")}, map[string]sfItem{}
	for p.s != "" {
		key := p.key()
		if key == "" || !p.take('=') {
			return nil, fmt.Errorf("want key=value at %q", p.s)
		}
		it, err := p.item()
		if err != nil {
			return nil, err
		}
		m[key] = it
		if more, err := p.comma(); err != nil || !more {
			return m, err
		}
	}
	return m, nil
}

// comma consumes the separator of two members; there is none at the end.
func (p *sfParser) comma() (bool, error) {
	p.s = strings.TrimLeft(p.s, " \t")
	if p.s == "" {
		return false, nil
	}
	if !p.take(',') {
		return false, fmt.Errorf("want a comma at %q", p.s)
	}
	p.s = strings.TrimLeft(p.s, " \t")
	if p.s == "" {
		return false, fmt.Errorf("a comma at the end")
	}
	return true, nil
}

func (p *sfParser) take(c byte) bool {
	if p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *sfParser) span(of func(c byte) bool) string {
	i := 0
	for i < len(p.s) && of(p.s[i]) {
		i++
	}
	text := p.s[:i]
	p.s = p.s[i:]
	return text
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

func (p *sfParser) key() string {
	if p.s == "" || !isLower(p.s[0]) && p.s[0] != '*' {
		return ""
	}
	return p.span(func(c byte) bool { return isLower(c) || isDigit(c) || strings.IndexByte("_-.*", c) >= 0 })
}

func (p *sfParser) item() (it sfItem, err error) {
	if it.value, err = p.bare(); err != nil {
		return it, err
	}
	it.params = map[string]any{}
	for p.take(';') {
		p.s = strings.TrimLeft(p.s, " ")
		key := p.key()
		if key == "" || !p.take('=') {
			return it, fmt.Errorf("want a parameter with a value at %q", p.s)
		}
		if it.params[key], err = p.bare(); err != nil {
			return it, err
		}
		it.order = append(it.order, key)
	}
	return it, nil
}

func (p *sfParser) bare() (any, error) {
	switch {
	case p.take('"'):
		text := p.span(func(c byte) bool { return c >= ' ' && c <= '~' && c != '"' && c != '\\' })
		if !p.take('"') {
			return nil, fmt.Errorf("want the end of a string at %q", p.s)
		}
		return text, nil
	case p.s != "" && (isDigit(p.s[0]) || p.s[0] == '-'):
		negative := p.take('-')
		digits := p.span(isDigit)
		var n int64
		if _, err := fmt.Sscanf(digits, "%d", &n); err != nil || len(digits) > 15 || strings.HasPrefix(p.s, ".") {
			return nil, fmt.Errorf("want an integer of at most 15 digits, got %q", digits)
		}
		if negative {
			n = -n
		}
		return n, nil
	}
	token := p.span(func(c byte) bool { return isLower(c) || c >= 'A' && c <= 'Z' })
	if token == "" {
		return nil, fmt.Errorf("want an item at %q", p.s)
	}
	return sfToken(token), nil
}

func TestParserOfTheTests(t *testing.T) {
	items, err := parseList(`"a";q=1;w=2,  "b" ;x=y`)
	if err == nil {
		t.Errorf("a space before a semicolon was accepted: %v", items)
	}
	items, err = parseList(`"a";q=1;qu="x", "b"; r=-2 ,"c"`)
	if err != nil || len(items) != 3 || items[0].value != "a" || items[0].params["q"] != int64(1) || items[0].params["qu"] != "x" || items[1].params["r"] != int64(-2) {
		t.Errorf("parseList = %v, %v", items, err)
	}
	for _, bad := range []string{`"a`, `"a",`, `"a" "b"`, `1000000000000000`, `1.5`, `"a";`, `"a";Q=1`, "\"\x80\"", `"\"`, `,"a"`} {
		if items, err := parseList(bad); err == nil {
			t.Errorf("parseList(%q) = %v, want an error", bad, items)
		}
	}
	m, err := parseDictionary("limit=1, remaining=0,reset=3")
	if err != nil || len(m) != 3 || m["reset"].value != int64(3) {
		t.Errorf("parseDictionary = %v, %v", m, err)
	}
	for _, bad := range []string{"limit", "limit=", "=1", "a=1,"} {
		if m, err := parseDictionary(bad); err == nil {
			t.Errorf("parseDictionary(%q) = %v, want an error", bad, m)
		}
	}
}
