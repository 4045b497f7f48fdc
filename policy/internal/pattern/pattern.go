// Package pattern matches values of keys with the patterns of overrides.
package pattern

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
)

// maxValue is the largest value, in bytes, that is compared with a '*' between other text.
// Clients choose values, and each may be compared with many overrides.
const maxValue = 8 << 10

// A Pattern matches any value and none, or the addresses of Network if it is valid, or a
// text with a gap between each two elements of Text.
type Pattern struct {
	Any     bool
	Network netip.Prefix
	Text    []string
}

// Exact returns the pattern of one value.
func Exact(value string) Pattern { return Pattern{Text: []string{value}} }

// Parse returns the pattern of a text in which '*' stands for any text.
func Parse(text string) Pattern {
	if !strings.Contains(text, "*") {
		return Exact(text)
	}
	empty := func(s string) bool { return s == "" }
	pieces := strings.Split(text, "*")
	last := len(pieces) - 1
	return Pattern{Text: slices.Concat(pieces[:1], slices.DeleteFunc(pieces[1:last:last], empty), pieces[last:])}
}

// Value returns the value of an exact pattern.
func (p *Pattern) Value() (value string, ok bool) {
	if len(p.Text) != 1 {
		return "", false
	}
	return p.Text[0], true
}

// Matches reports whether p matches a value that belongs to an address. It takes time in
// proportion to the value, for any number of gaps.
func (p *Pattern) Matches(value []byte, address func() netip.Addr) bool {
	switch {
	case p.Any:
		return true
	case p.Network.IsValid():
		return p.Network.Contains(address().Unmap().WithZone(""))
	}
	first, last := p.Text[0], len(p.Text)-1
	if last == 0 {
		return string(value) == first
	}
	if len(value) == 0 || len(value) > maxValue || len(value) < len(first)+len(p.Text[last]) ||
		string(value[:len(first)]) != first || string(value[len(value)-len(p.Text[last]):]) != p.Text[last] {
		return false
	}
	value = value[len(first) : len(value)-len(p.Text[last])]
	for _, piece := range p.Text[1:last] { // the first occurrence leaves the most for later pieces
		i := bytes.Index(value, []byte(piece))
		if i < 0 {
			return false
		}
		value = value[i+len(piece):]
	}
	return true
}
