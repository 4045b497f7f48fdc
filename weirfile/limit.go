package weirfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir"
)

const wantLimit = `want a limit such as "10/s burst 20" or { rate: 10/s, burst: 20 }`

// limits reads a list of limits. One that has a fault is the zero Limit, so that the
// others keep their places.
func (d *decoder) limits(n *node, field string, places map[string]*node) []weir.Limit {
	var limits []weir.Limit
	for i, e := range d.elements(n, field, "want at least one limit, such as 10/s burst 20", true) {
		at := element(field, i)
		places[at] = e
		limits = append(limits, d.limit(e, at))
	}
	return limits
}

func (d *decoder) limit(n *node, field string) weir.Limit {
	if n.Kind == yaml.MappingNode {
		return d.limitMap(n, field)
	}
	text, ok := d.scalar(n, field, wantLimit)
	if !ok {
		return weir.Limit{}
	}
	l, err := weir.ParseLimit(text)
	if err != nil {
		d.fail(n, field, value(n), "%s", plainError(err, text))
	}
	return l
}

// The fields of a limit as a map. It is read as the text of the same words, in this
// order.
var (
	limitFields = []string{
		"rate", "algorithm", "burst", "interval", "initial", "warmup", "queue", "delay", "nodelay", "nginx",
		"anchor", "calendar", "segments", "weighted", "lease",
	}
	limitFlags = []string{"interval", "queue", "nodelay", "nginx", "weighted"}
)

var algorithms = []string{
	string(weir.TokenBucket), "gcra", string(weir.LeakyBucket), string(weir.FixedWindow), string(weir.SlidingWindow), string(weir.SlidingLog),
	string(weir.Concurrency),
}

func (d *decoder) limitMap(n *node, field string) weir.Limit {
	before := len(d.errs)
	m := d.mapping(n, field, limitFields...)
	if m.keys["rate"] == nil {
		d.fail(n, field+".rate", "", "want a rate such as 10/s, or a number of slots with algorithm: concurrency")
	}
	var words []string
	for _, name := range limitFields {
		v := m.get(name)
		if v == nil {
			continue
		}
		at := field + "." + name
		if slices.Contains(limitFlags, name) {
			if d.boolean(v, at) {
				words = append(words, name)
			}
			continue
		}
		word, ok := d.scalar(v, at, "want a value")
		switch {
		case !ok:
		case len(strings.Fields(word)) != 1 || strings.TrimSpace(word) != word:
			d.fail(v, at, value(v), "want one word: each part of a limit has a field of its own here")
		case name == "algorithm" && !slices.Contains(algorithms, word):
			d.fail(v, at, value(v), "want %s", list(algorithms))
		}
		if name != "rate" && name != "algorithm" {
			words = append(words, name)
		}
		words = append(words, word)
	}
	if len(d.errs) > before {
		return weir.Limit{}
	}
	text := strings.Join(words, " ")
	l, err := weir.ParseLimit(text)
	if err != nil {
		want := plainError(err, text)
		name := "rate"
		if about, rest, ok := strings.Cut(want, ": "); ok && m.get(about) != nil {
			name, want = about, rest
		}
		want, _, _ = strings.Cut(want, ", got ") // the value stands before it
		d.fail(m.get(name), field+"."+name, value(m.get(name)), "%s", want)
	}
	return l
}

// plainError is an error about a limit without what the place of the fault already
// says.
func plainError(err error, text string) string {
	s := err.Error()
	for _, prefix := range []string{fmt.Sprintf("weir: limit %q: ", text), "weir: limit: ", weir.ErrInvalid.Error() + ": "} {
		s = strings.TrimPrefix(s, prefix)
	}
	return strings.Replace(s, weir.ErrInvalid.Error()+": ", "", 1)
}
