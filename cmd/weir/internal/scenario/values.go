package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/weirfile/strict"
)

// Each of these methods reads one value. It returns the zero value, or the given one, if
// the value is absent or has a fault.

// list returns the elements of a list that is not empty.
func (r *reader) list(n strict.Node, field, want string) []strict.Node {
	if !n.There() {
		return nil
	}
	if value := n.String(); n.Kind() != strict.List || n.Len() == 0 {
		if n.Kind() == strict.List {
			value = "an empty list"
		}
		r.Fail(n, field, value, "%s", want)
		return nil
	}
	var all []strict.Node
	for _, e := range r.List(n) {
		all = append(all, e)
	}
	return all
}

// text reads a text that is not empty.
func (r *reader) text(n strict.Node, field, want string) string {
	switch {
	case !n.There():
		return ""
	case n.Kind() != strict.Text || n.Text() == "":
		r.Fail(n, field, n.String(), "%s, as text", want)
		return ""
	}
	r.Plain(n, field)
	return n.Text()
}

// scalar reads a text, number or boolean as it is written.
func (r *reader) scalar(n strict.Node, field, want string) string {
	if !n.Scalar() {
		r.Fail(n, field, n.String(), "%s", want)
		return ""
	}
	r.Plain(n, field)
	return n.Text()
}

// word reads one of several words.
func (r *reader) word(n strict.Node, field string, words ...string) string {
	if !n.There() {
		return ""
	}
	if !n.Scalar() || !slices.Contains(words, n.Text()) {
		r.Fail(n, field, n.String(), "want %s", strict.OneOf(words))
		return ""
	}
	return n.Text()
}

func (r *reader) integer(n strict.Node, field string, least, most int64) int64 {
	i, err := strconv.ParseInt(strings.ReplaceAll(n.Text(), "_", ""), 10, 64)
	if n.Kind() != strict.Integer || err != nil || i < least || i > most {
		r.Fail(n, field, n.String(), "want a whole number from %d to %d", least, most)
		return least
	}
	return i
}

func (r *reader) duration(n strict.Node, field string, absent time.Duration) time.Duration {
	if !n.There() {
		return absent
	}
	d, err := time.ParseDuration(n.Text())
	if err != nil || d < 0 || d > maxTime || d%time.Microsecond != 0 || !n.Scalar() {
		r.Fail(n, field, n.String(), "want a time such as 1.5s, from 0s to %v", maxTime)
		return absent
	}
	return d
}

// texts reads a map of names and texts.
func (r *reader) texts(n strict.Node, field string) map[string]string {
	all := map[string]string{}
	if n.There() {
		m, _ := r.Map(n, field, nil)
		for _, name := range m.Order {
			all[name] = r.scalar(m.Values[name], strict.Join(field, name), "want a text")
		}
	}
	return all
}

// names reads a list of texts, which may be empty; nil if it is absent.
func (r *reader) names(n strict.Node, field string) []string {
	switch {
	case !n.There():
		return nil
	case n.Kind() != strict.List:
		r.Fail(n, field, n.String(), "want a list of policies; [] for none")
	}
	all := []string{}
	for i, e := range r.List(n) {
		all = append(all, r.text(e, strict.Index(field, i), "want the name of a policy"))
	}
	return all
}

// maxDepth bounds the depth of a JSON value. A YAML map can contain itself.
const maxDepth = 32

// json reads any value as encoding/json decodes it.
func (r *reader) json(n strict.Node, field string, depth int) any {
	if depth > maxDepth {
		r.Fail(n, field, "", "want at most %d levels", maxDepth)
		return nil
	}
	switch n.Kind() {
	case strict.Map:
		all := map[string]any{}
		m, _ := r.Map(n, field, nil)
		for _, name := range m.Order {
			all[name] = r.json(m.Values[name], strict.Join(field, name), depth+1)
		}
		return all
	case strict.List:
		all := []any{}
		for i, e := range r.List(n) {
			all = append(all, r.json(e, strict.Index(field, i), depth+1))
		}
		return all
	case strict.Integer:
		if i, err := strconv.ParseInt(n.Text(), 10, 64); err == nil {
			return i
		}
	case strict.Boolean:
		return strings.EqualFold(n.Text(), "true")
	case strict.Null:
		return nil
	}
	if f, ok := n.Float(); ok {
		return f
	}
	return n.Text()
}
