package ratelimit

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Bounds of what a file may nest.
const (
	maxLevels   = 64 // of descriptors
	maxMetadata = 32 // of metadata
)

var descriptorFields = []string{
	"key", "value", "rate_limit", "descriptors", "shadow_mode", "quota_mode",
	"detailed_metric", "value_to_metric", "share_threshold", "metadata",
}

// domain adds the domain of a file to c.
func (d *decoder) domain(root *node, c *Config, merge bool) {
	m := d.mapping(root, "", "domain", "descriptors")
	name := ""
	if n := m.values["domain"]; n != nil {
		name, _ = d.text(n, "domain")
	}
	if name == "" && !d.spent() {
		at := root
		if n := m.keys["domain"]; n != nil {
			at = n
		}
		d.fail(at, "domain", "", "want the name of a domain")
	}
	into := c.domains[name]
	switch {
	case name == "":
		into = &Domain{} // for the faults of what stands below
	case into == nil:
		into = &Domain{Name: name, File: d.file}
		c.domains[name] = into
		c.order = append(c.order, into)
	case !merge:
		d.fail(m.values["domain"], "domain", quoted(name), "want every domain once: %s has it already", into.File)
	}
	if n := m.values["descriptors"]; n != nil {
		into.Descriptors = append(into.Descriptors, d.descriptors(n, "descriptors", "", &into.level, 1, &into.depth)...)
	}
}

// descriptors reads the list n into the level at, whose number is depth.
func (d *decoder) descriptors(n *node, field, parent string, at *level, depth int, deepest *int) []*Descriptor {
	switch {
	case n.Kind != yaml.SequenceNode:
		d.fail(n, field, value(n), "want a list of descriptors")
		return nil
	case depth > maxLevels:
		d.fail(n, field, "", "want at most %d levels of descriptors", maxLevels)
		return nil
	}
	*deepest = max(*deepest, depth)
	var all []*Descriptor
	for i, e := range n.Content {
		if d.spent() {
			break
		}
		name := fmt.Sprintf("%s[%d]", field, i)
		one := d.descriptor(e, d.follow(e), name, parent, depth, deepest)
		if one == nil {
			continue
		}
		if there := at.add(one); there != nil {
			d.fail(e, name, quoted(segment(one.Key, one.Value)), "want every key and value once in a list: %s:%d:%d has it already",
				there.place.file, there.place.line, there.place.column)
			continue
		}
		all = append(all, one)
	}
	return all
}

// descriptor reads n, which stands at the node here. It is nil without a key.
func (d *decoder) descriptor(here, n *node, field, parent string, depth int, deepest *int) *Descriptor {
	m := d.mapping(n, field, descriptorFields...)
	if n.Kind != yaml.MappingNode {
		return nil
	}
	one := &Descriptor{place: place{d.file, here.Line, here.Column}}
	if k := m.values["key"]; k != nil {
		one.Key, _ = d.text(k, field+".key")
	}
	if v := m.values["value"]; v != nil {
		one.Value, _ = d.text(v, field+".value")
	}
	one.DetailedMetric = d.boolean(m, field, "detailed_metric")
	one.ValueToMetric = d.boolean(m, field, "value_to_metric")
	one.ShareThreshold = d.boolean(m, field, "share_threshold")
	shadow, quota := d.boolean(m, field, "shadow_mode"), d.boolean(m, field, "quota_mode")
	if one.Key == "" {
		d.fail(here, field+".key", "", "want the key of an entry, a text")
	}
	if one.ShareThreshold && !strings.Contains(one.Key+one.Value, "*") {
		d.fail(m.keys["share_threshold"], field+".share_threshold", "true",
			"want a value with *, such as files/*: it is matches that share, and %s is one alone", quoted(segment(one.Key, one.Value)))
	}
	one.label = segment(one.Key, one.Value)
	if parent != "" {
		one.label = parent + "." + one.label
	}
	if r := m.values["rate_limit"]; r != nil {
		if one.Limit = d.rateLimit(r, field+".rate_limit"); one.Limit != nil {
			one.Limit.Shadow, one.Limit.Quota = shadow, quota
		}
	}
	if v := m.values["metadata"]; v != nil {
		if v.Kind == yaml.MappingNode {
			one.Metadata, _ = d.metadata(v, field+".metadata", 0).(map[string]any)
		} else {
			d.fail(v, field+".metadata", value(v), "want a map")
		}
	}
	if v := m.values["descriptors"]; v != nil {
		one.Descriptors = d.descriptors(v, field+".descriptors", one.label, &one.level, depth+1, deepest)
	}
	if one.Key == "" {
		return nil
	}
	return one
}

// metadata is n as JSON has it.
func (d *decoder) metadata(n *node, field string, depth int) any {
	if d.spent() {
		return nil
	}
	if depth > maxMetadata {
		d.fail(n, field, "", "want at most %d levels of metadata", maxMetadata)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		m := d.mapping(n, field)
		all := make(map[string]any, len(m.values))
		for _, k := range m.order {
			all[k] = d.metadata(m.values[k], join(field, k), depth+1)
		}
		return all
	case yaml.SequenceNode:
		all := make([]any, 0, len(n.Content))
		for i, e := range n.Content {
			all = append(all, d.metadata(d.follow(e), fmt.Sprintf("%s[%d]", field, i), depth+1))
		}
		return all
	}
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		v, _ := truth(n)
		return v
	case "!!int", "!!float":
		var f float64
		if err := n.Decode(&f); err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			d.fail(n, field, value(n), "want a number that JSON has")
		}
		return f
	}
	return n.Value
}

// text is the text of a value of any type, as it is written.
func (d *decoder) text(n *node, field string) (string, bool) {
	if kind(n) != "a value" || n.Kind != yaml.ScalarNode {
		d.fail(n, field, value(n), "want a text")
		return "", false
	}
	return n.Value, true
}

// truth is n as YAML 1.1 reads it, and whether it is a truth value at all.
func truth(n *node) (v, ok bool) {
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		return false, false
	}
	switch strings.ToLower(n.Value) {
	case "true", "yes", "on", "y":
		return true, true
	case "false", "no", "off", "n":
		return false, true
	}
	return false, false
}

// boolean is the value of a field, false if it is not there.
func (d *decoder) boolean(m mapping, field, name string) bool {
	n := m.values[name]
	if n == nil {
		return false
	}
	v, ok := truth(n)
	if !ok {
		d.fail(n, join(field, name), value(n), "want true or false")
	}
	return v
}

// count is a number of hits.
func (d *decoder) count(n *node, field string, least, most uint64) (uint64, bool) {
	v, err := strconv.ParseUint(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
	if n.Kind != yaml.ScalarNode || n.Tag != "!!int" || err != nil || v < least || v > most {
		d.fail(n, field, value(n), "want a whole number from %d to %d", least, most)
		return 0, false
	}
	return v, true
}
