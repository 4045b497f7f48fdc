package weirfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What reads a value takes its place, and gives nothing for one that is not there or
// has a fault.

// scalar is the text of a value of any type but nothing.
func (d *decoder) scalar(p place, want string) (string, bool) {
	if !p.there() {
		return "", false
	}
	if kind(p.node) != "a value" {
		d.failIn(p, value(p.node), "%s", want)
		return "", false
	}
	return p.node.Value, d.untagged(p)
}

// text is a text that is not empty.
func (d *decoder) text(p place) (string, bool) {
	s, ok := d.anyText(p)
	if ok && s == "" {
		d.failIn(p, `""`, "%s", p.shape.Want)
		return "", false
	}
	return s, ok
}

// anyText is a text, which may be empty.
func (d *decoder) anyText(p place) (string, bool) {
	s, ok := d.scalar(p, p.shape.Want)
	if ok && p.node.Tag != "!!str" {
		d.failIn(p, value(p.node), "%s, as text: put it in quotes", p.shape.Want)
		return "", false
	}
	return s, ok
}

// word is one of the words of its shape.
func (d *decoder) word(p place) (string, bool) {
	want := p.shape.Want
	if want == "" {
		want = "want " + list(p.shape.Words)
	}
	s, ok := d.scalar(p, want)
	if !ok {
		return "", false
	}
	i := slices.IndexFunc(p.shape.Words, func(w string) bool { return w == s || p.shape.Fold && strings.EqualFold(w, s) })
	if i < 0 || p.node.Tag != "!!str" {
		d.failIn(p, value(p.node), "%s", want)
		return "", false
	}
	return p.shape.Words[i], true
}

// integer is a whole number.
func (d *decoder) integer(p place) int64 {
	want := p.shape.Want
	if want == "" {
		want = fmt.Sprintf("want a whole number from %d to %d", p.shape.Least, p.shape.Most)
	}
	s, ok := d.scalar(p, want)
	if !ok {
		return 0
	}
	i, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 10, 64)
	if p.node.Tag != "!!int" || err != nil || len(s) > 1 && s[0] == '0' || i < p.shape.Least || i > p.shape.Most {
		d.failIn(p, value(p.node), "%s", want)
		return 0
	}
	return i
}

// boolean is true or false.
func (d *decoder) boolean(p place) bool {
	const want = "want true or false"
	s, ok := d.scalar(p, want)
	if ok && (p.node.Tag != "!!bool" || s != "true" && s != "false") {
		d.failIn(p, value(p.node), want)
	}
	return s == "true"
}

// duration is a time.
func (d *decoder) duration(p place) time.Duration {
	if !p.there() {
		return 0
	}
	want := fmt.Sprintf("want a time such as 30s, from %v to %v", p.shape.Shortest, p.shape.Longest)
	s, ok := d.scalar(p, want)
	if !ok {
		return 0
	}
	t, err := time.ParseDuration(s)
	if err != nil || t < p.shape.Shortest || t > p.shape.Longest || p.node.Tag != "!!str" {
		d.failIn(p, value(p.node), "%s", want)
		return 0
	}
	return t
}
