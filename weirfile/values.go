package weirfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/weirfile/strict"
)

// What reads a value takes its place, and gives nothing for one that is not there or
// has a fault.

// scalar returns the text of a value of any scalar type.
func (d *decoder) scalar(p place, want string) (string, bool) {
	if !p.there() {
		return "", false
	}
	if !p.node.Scalar() {
		d.failIn(p, p.node.String(), "%s", want)
		return "", false
	}
	return p.node.Text(), d.Plain(p.node, p.field)
}

// text returns a text that is not empty.
func (d *decoder) text(p place) (string, bool) {
	s, ok := d.anyText(p)
	if ok && s == "" {
		d.failIn(p, `""`, "%s", p.shape.Want)
		return "", false
	}
	return s, ok
}

// anyText returns a text, which may be empty.
func (d *decoder) anyText(p place) (string, bool) {
	s, ok := d.scalar(p, p.shape.Want)
	if ok && p.node.Kind() != strict.Text {
		d.failIn(p, p.node.String(), "%s, as text: put it in quotes", p.shape.Want)
		return "", false
	}
	return s, ok
}

// word returns one of the words of the shape.
func (d *decoder) word(p place) (string, bool) {
	want := p.shape.Want
	if want == "" {
		want = "want " + strict.OneOf(p.shape.Words)
	}
	s, ok := d.scalar(p, want)
	if !ok {
		return "", false
	}
	i := slices.IndexFunc(p.shape.Words, func(w string) bool { return w == s || p.shape.Fold && strings.EqualFold(w, s) })
	if i < 0 || p.node.Kind() != strict.Text {
		d.failIn(p, p.node.String(), "%s", want)
		return "", false
	}
	return p.shape.Words[i], true
}

// integer returns an integer.
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
	if p.node.Kind() != strict.Integer || err != nil || len(s) > 1 && s[0] == '0' || i < p.shape.Least || i > p.shape.Most {
		d.failIn(p, p.node.String(), "%s", want)
		return 0
	}
	return i
}

// boolean returns true or false.
func (d *decoder) boolean(p place) bool {
	const want = "want true or false"
	s, ok := d.scalar(p, want)
	if ok && (p.node.Kind() != strict.Boolean || s != "true" && s != "false") {
		d.failIn(p, p.node.String(), want)
	}
	return s == "true"
}

// duration returns a duration.
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
	if err != nil || t < p.shape.Shortest || t > p.shape.Longest || p.node.Kind() != strict.Text {
		d.failIn(p, p.node.String(), "%s", want)
		return 0
	}
	return t
}
