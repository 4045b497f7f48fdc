package weirfile

import (
	"fmt"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile/internal/grammar"
	"github.com/floodweir/weir/weirfile/strict"
)

// limits reads a list of limits with parse. A limit with a fault becomes the zero Limit, so that
// the others keep their positions.
func (d *decoder) limits(p place, places map[string]strict.Node, parse func(place) weir.Limit) []weir.Limit {
	var limits []weir.Limit
	for _, e := range d.elements(p) {
		places[e.field] = e.node
		limits = append(limits, parse(e))
	}
	return limits
}

func (d *decoder) limit(p place) weir.Limit {
	if p.node.Kind() == strict.Map {
		p.shape = p.shape.As(grammar.Map)
		return d.limitMap(p)
	}
	text, ok := d.scalar(p, p.shape.Want)
	if !ok {
		return weir.Limit{}
	}
	if l, ok := d.parsed[text]; ok {
		return l
	}
	l, err := weir.ParseLimit(text)
	if err != nil {
		want := plainError(err, text)
		if !strings.ContainsAny(text, "0123456789/") && p.shape.Want != "" { // such as a misspelled unlimited
			want = p.shape.Want
		}
		d.failIn(p, p.node.String(), "%s", want)
		return l
	}
	if d.parsed == nil {
		d.parsed = map[string]weir.Limit{}
	}
	d.parsed[text] = l
	return l
}

// limitMap reads a limit as a map. It builds the text form from the fields, in their
// order, and parses that.
func (d *decoder) limitMap(p place) weir.Limit {
	before := len(d.Faults())
	m := d.mapping(p)
	var words []string
	for _, f := range m.shape.Fields {
		v := m.at(f.Name)
		switch {
		case !v.there():
		case f.Name == "refill":
			if word, _ := d.word(v); word == "interval" {
				words = append(words, "interval")
			}
			if old := m.at("interval"); old.there() {
				d.failIn(old, old.node.String(), "want refill or interval, not both")
			}
		case f.Name == "interval":
			d.note(v, "interval is the old form of this field: use refill: interval")
			if d.boolean(v) && !m.at("refill").there() {
				words = append(words, "interval")
			}
		case f.Shape.Kind == grammar.Boolean:
			if d.boolean(v) {
				words = append(words, f.Name)
			}
		case f.Shape.Kind == grammar.Word:
			word, _ := d.word(v)
			words = append(words, word)
		default:
			word, ok := d.scalar(v, f.Shape.Want)
			if ok && (len(strings.Fields(word)) != 1 || strings.TrimSpace(word) != word) {
				d.failIn(v, v.node.String(), "want one word: each part of a limit has a field of its own here")
			}
			if f.Name != "rate" {
				words = append(words, f.Name)
			}
			words = append(words, word)
		}
	}
	if len(d.Faults()) > before {
		return weir.Limit{}
	}
	text := strings.Join(words, " ")
	l, err := weir.ParseLimit(text)
	if err != nil {
		want := plainError(err, text)
		name := "rate"
		if about, rest, ok := strings.Cut(want, ": "); ok {
			if about == "interval" && !m.Values[about].There() {
				about = "refill"
			}
			if m.Values[about].There() {
				name, want = about, rest
			}
		}
		want, _, _ = strings.Cut(want, ", got ") // the value stands before it
		d.failIn(m.at(name), m.Values[name].String(), "%s", want)
	}
	return l
}

// plainError returns the text of an error about a limit, without what its position in
// the file already says.
func plainError(err error, text string) string {
	s := err.Error()
	for _, prefix := range []string{fmt.Sprintf("weir: limit %q: ", text), "weir: limit: ", weir.ErrInvalid.Error() + ": "} {
		s = strings.TrimPrefix(s, prefix)
	}
	return strings.Replace(s, weir.ErrInvalid.Error()+": ", "", 1)
}
