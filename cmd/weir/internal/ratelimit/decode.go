package ratelimit

import (
	"math"
	"strconv"
	"strings"

	"github.com/floodweir/weir/weirfile/strict"
)

// The deepest levels of a file.
const (
	maxLevels   = 64 // of descriptors
	maxMetadata = 32 // of metadata
)

var descriptorFields = []string{
	"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
	"detailed_metric", "value_to_metric", "share_threshold", "metadata",
}

// A decoder reads the configuration from a document. After a fault it continues, to
// find the next.
type decoder struct{ *strict.Document }

// fields reads the known fields of a map, or any if none are given.
func (d decoder) fields(n strict.Node, field string, known ...string) strict.Mapping {
	m, _ := d.Map(n, field, known)
	return m
}

// domain adds the domain of a file to c.
func (d decoder) domain(root strict.Node, c *Config, merge bool) {
	m := d.fields(root, "", "domain", "descriptors")
	name := ""
	if n := m.Values["domain"]; n.There() {
		name, _ = d.text(n, "domain")
	}
	if name == "" && !d.Spent() {
		at := root
		if n := m.Names["domain"]; n.There() {
			at = n
		}
		d.Fail(at, "domain", "", "want the name of a domain")
	}
	into := c.domains[name]
	switch {
	case name == "":
		into = &Domain{} // to report faults of its descriptors
	case into == nil:
		into = &Domain{Name: name, File: d.Name()}
		c.domains[name] = into
		c.order = append(c.order, into)
	case !merge:
		d.Fail(m.Values["domain"], "domain", strict.Quoted(name), "want every domain once: %s has it already", into.File)
	}
	if n := m.Values["descriptors"]; n.There() {
		into.Descriptors = append(into.Descriptors, d.descriptors(n, "descriptors", "", &into.level, 1, &into.depth)...)
	}
}

// descriptors reads the list n of level depth into at, and sets deepest to the largest depth.
func (d decoder) descriptors(n strict.Node, field, parent string, at *level, depth int, deepest *int) []*Descriptor {
	switch {
	case n.Kind() != strict.List:
		d.Fail(n, field, n.String(), "want a list of descriptors")
		return nil
	case depth > maxLevels:
		d.Fail(n, field, "", "want at most %d levels of descriptors", maxLevels)
		return nil
	}
	*deepest = max(*deepest, depth)
	var all []*Descriptor
	for i, e := range d.List(n) {
		name := strict.Index(field, i)
		one := d.descriptor(e, name, parent, depth, deepest)
		if one == nil {
			continue
		}
		if there := at.add(one); there != nil {
			d.Fail(e.Here(), name, strict.Quoted(segment(one.Key, one.Value)), "want every key and value once in a list: %s:%d:%d has it already",
				there.place.file, there.place.line, there.place.column)
			continue
		}
		all = append(all, one)
	}
	return all
}

// descriptor reads n. It returns nil if n has no key.
func (d decoder) descriptor(n strict.Node, field, parent string, depth int, deepest *int) *Descriptor {
	m := d.fields(n, field, descriptorFields...)
	if n.Kind() != strict.Map {
		return nil
	}
	here := n.Here()
	one := &Descriptor{place: place{d.Name(), here.Line(), here.Column()}}
	if k := m.Values["key"]; k.There() {
		one.Key, _ = d.text(k, field+".key")
	}
	if v := m.Values["value"]; v.There() {
		one.Value, _ = d.text(v, field+".value")
	}
	one.DetailedMetric = d.boolean(m, field, "detailed_metric")
	one.ValueToMetric = d.boolean(m, field, "value_to_metric")
	one.ShareThreshold = d.boolean(m, field, "share_threshold")
	shadow, quota := d.boolean(m, field, "shadow_mode"), d.boolean(m, field, "quota_mode")
	if one.Key == "" {
		d.Fail(here, field+".key", "", "want the key of an entry, a text")
	}
	if one.ShareThreshold && !strings.Contains(one.Key+one.Value, "*") {
		d.Fail(m.Names["share_threshold"], field+".share_threshold", "true",
			"want a value with *, such as files/*: %s matches one value alone", strict.Quoted(segment(one.Key, one.Value)))
	}
	one.label = segment(one.Key, one.Value)
	if parent != "" {
		one.label = parent + "." + one.label
	}
	if r := m.Values["rate_limit"]; r.There() {
		if one.Limit = d.rateLimit(r, field+".rate_limit"); one.Limit != nil {
			one.Limit.Shadow, one.Limit.Quota = shadow, quota
		}
	}
	if v := m.Values["metadata"]; v.There() {
		if v.Kind() == strict.Map {
			one.Metadata, _ = d.metadata(v, field+".metadata", 0).(map[string]any)
		} else {
			d.Fail(v, field+".metadata", v.String(), "want a map")
		}
	}
	if v := m.Values["descriptors"]; v.There() {
		one.Descriptors = d.descriptors(v, field+".descriptors", one.label, &one.level, depth+1, deepest)
	}
	if one.Key == "" {
		return nil
	}
	return one
}

// metadata returns n as JSON values.
func (d decoder) metadata(n strict.Node, field string, depth int) any {
	if d.Spent() {
		return nil
	}
	if depth > maxMetadata {
		d.Fail(n, field, "", "want at most %d levels of metadata", maxMetadata)
		return nil
	}
	switch n.Kind() {
	case strict.Map:
		m := d.fields(n, field)
		all := make(map[string]any, len(m.Values))
		for _, k := range m.Order {
			all[k] = d.metadata(m.Values[k], strict.Join(field, k), depth+1)
		}
		return all
	case strict.List:
		all := make([]any, 0, n.Len())
		for i, e := range d.List(n) {
			all = append(all, d.metadata(e, strict.Index(field, i), depth+1))
		}
		return all
	case strict.Null:
		return nil
	case strict.Boolean:
		v, _ := truth(n)
		return v
	case strict.Integer, strict.Float:
		f, ok := n.Float()
		if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
			d.Fail(n, field, n.String(), "want a finite number")
		}
		return f
	}
	return n.Text()
}

// text returns the text of n, and whether n is a scalar.
func (d decoder) text(n strict.Node, field string) (string, bool) {
	if !n.Scalar() {
		d.Fail(n, field, n.String(), "want a text")
		return "", false
	}
	return n.Text(), true
}

// truth returns the value of n in YAML 1.1, and whether it is a boolean.
func truth(n strict.Node) (v, ok bool) {
	if n.InQuotes() {
		return false, false
	}
	switch strings.ToLower(n.Text()) {
	case "true", "yes", "on", "y":
		return true, true
	case "false", "no", "off", "n":
		return false, true
	}
	return false, false
}

// boolean returns the value of a field, false if it is absent.
func (d decoder) boolean(m strict.Mapping, field, name string) bool {
	n := m.Values[name]
	if !n.There() {
		return false
	}
	v, ok := truth(n)
	if !ok {
		d.Fail(n, strict.Join(field, name), n.String(), "want true or false")
	}
	return v
}

// count returns a number of hits.
func (d decoder) count(n strict.Node, field string, least, most uint64) (uint64, bool) {
	v, err := strconv.ParseUint(strings.ReplaceAll(n.Text(), "_", ""), 0, 64)
	if n.Kind() != strict.Integer || err != nil || v < least || v > most {
		d.Fail(n, field, n.String(), "want a whole number from %d to %d", least, most)
		return 0, false
	}
	return v, true
}
