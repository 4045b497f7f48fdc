package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/floodweir/weir/weirfile/strict"
)

// This file reads rules in YAML: lists of them, and manifests of Kubernetes.

// kinds are the resources of sentinel-golang's data source for Kubernetes.
var kinds = map[string]bool{"FlowRules": true, "HotspotRules": true, "CircuitBreakerRules": true, "SystemRules": true, "IsolationRules": true}

const wantRules = "want an array of rules in JSON or YAML, or manifests of Kubernetes: a ConfigMap, or FlowRules, HotspotRules, CircuitBreakerRules, SystemRules or IsolationRules"

// read returns the rules of a file.
func (s *sentinel) read(data []byte) ([]rule, error) {
	start := bytes.TrimLeft(data, " \t\r\n")
	if len(start) == 0 || start[0] == '[' {
		return s.array(data, 0)
	}
	var rules []rule
	found := false
	for line, text := range documents(data) {
		if blank(text) {
			continue
		}
		// Empty lines before the document make its positions those of the file.
		d := strict.Parse(s.file, append(bytes.Repeat([]byte("\n"), line), text...), strict.Config{Loose: true, MaxSize: 64 << 20})
		root := d.Root()
		var some []rule
		var err error
		switch {
		case !root.There():
		case root.Kind() == strict.List:
			some, err = s.items(d, root, "")
		case root.Kind() != strict.Map:
			err = &Error{s.file, root.Line(), wantRules}
		default:
			some, err = s.manifest(d, root)
		}
		if errs := d.Errors(); len(errs) > 0 {
			return nil, &Error{s.file, errs[0].Line, errs[0].Want}
		}
		if err != nil {
			return nil, err
		}
		found = true
		if rules = append(rules, some...); len(rules) > maxRules {
			return nil, &Error{s.file, line + 1, fmt.Sprintf("want at most %d rules", maxRules)}
		}
	}
	if !found {
		return nil, &Error{s.file, 1, wantRules}
	}
	return rules, nil
}

// documents iterates over the documents of a YAML file, with the number of lines before each.
func documents(data []byte) func(func(int, []byte) bool) {
	return func(yield func(int, []byte) bool) {
		line, from, offset := 0, 0, 0
		for n := 0; offset < len(data); n++ {
			end := len(data)
			if i := bytes.IndexByte(data[offset:], '\n'); i >= 0 {
				end = offset + i + 1
			}
			if text := data[offset:end]; bytes.Equal(bytes.TrimRight(text, " \t\r\n"), []byte("---")) {
				if !yield(line, data[from:offset]) {
					return
				}
				line, from = n+1, end
			}
			offset = end
		}
		yield(line, data[from:])
	}
}

// blank reports whether a document has only comments and empty lines.
func blank(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

// manifest returns the rules of an object of Kubernetes.
func (s *sentinel) manifest(d *strict.Document, n strict.Node) (rules []rule, err error) {
	m, ok := d.Map(n, "", nil)
	if !ok || !m.Values["kind"].There() {
		return nil, &Error{s.file, n.Line(), wantRules}
	}
	at, kind := place{s.file, n.Line()}, m.Values["kind"].Text()
	switch group := m.Values["apiVersion"]; {
	case kind == "List" || strings.HasSuffix(kind, "RulesList"):
		for _, e := range d.List(m.Values["items"]) {
			some, err := s.manifest(d, e)
			if rules = append(rules, some...); err != nil || d.Spent() {
				return rules, err
			}
		}
		return rules, nil
	case kind == "ConfigMap":
		return s.configMap(d, at, m)
	case kinds[kind] && group.There() && strings.HasPrefix(group.Text(), "datasource.sentinel.io/"):
		spec := m.Values["spec"]
		if spec.There() && spec.Kind() == strict.Map {
			fields, _ := d.Map(spec, "spec", nil)
			if list := fields.Values["rules"]; list.There() {
				return s.items(d, list, kind)
			}
		}
		return nil, &Error{s.file, n.Line(), "spec.rules: want a list of rules"}
	}
	s.list(at, "kind: "+short(kind), "it has no rules of Sentinel")
	return nil, nil
}

// configMap returns the rules of the entries of a ConfigMap.
func (s *sentinel) configMap(d *strict.Document, at place, m strict.Mapping) (rules []rule, err error) {
	if n := m.Values["binaryData"]; n.There() {
		s.list(place{s.file, n.Line()}, "binaryData of the ConfigMap", "want the rules as text, in data")
	}
	data := m.Values["data"]
	if !data.There() || data.Kind() != strict.Map {
		s.list(at, "ConfigMap", "it has no data")
		return nil, nil
	}
	entries, _ := d.Map(data, "data", nil)
	for _, name := range entries.Order {
		n := entries.Values[name]
		first, _ := d.Within(n, 0)
		before := append(bytes.Repeat([]byte("\n"), max(0, first-1)), n.Text()...)
		if start := strings.TrimLeft(n.Text(), " \t\r\n"); strings.HasPrefix(start, "[") {
			some, err := s.array([]byte(n.Text()), first-1)
			if rules = append(rules, some...); err != nil {
				return nil, err
			}
			continue
		}
		e := strict.Parse(s.file, before, strict.Config{Loose: true})
		if root := e.Root(); root.There() && root.Kind() == strict.List {
			some, err := s.items(e, root, "")
			if rules = append(rules, some...); err != nil {
				return nil, err
			}
			if len(e.Errors()) == 0 {
				continue
			}
		}
		s.list(place{s.file, n.Line()}, "data: "+short(name), "it is not an array of rules in JSON or YAML")
	}
	return rules, nil
}

// items returns the rules of a list.
func (s *sentinel) items(d *strict.Document, n strict.Node, kind string) (rules []rule, err error) {
	for _, e := range d.List(n) {
		if e.Kind() != strict.Map {
			return nil, &Error{s.file, e.Line(), "want a rule, which is an object"}
		}
		r := rule{place: place{s.file, e.Line()}, fields: map[string]json.RawMessage{}, kind: kind}
		m, _ := d.Map(e, "", nil)
		for _, name := range m.Order {
			field := fieldName(name)
			if r.fields[field] != nil {
				return nil, &Error{s.file, e.Line(), fmt.Sprintf("%q: want every field once", short(field))}
			}
			r.put(field, asJSON(d, m.Values[name], 0))
		}
		if rules = append(rules, r); len(rules) > maxRules || d.Spent() {
			break
		}
	}
	return rules, nil
}

// asJSON returns a value in JSON.
func asJSON(d *strict.Document, n strict.Node, depth int) json.RawMessage {
	const deepest = 8
	parts := []string{}
	switch kind := n.Kind(); {
	case depth > deepest:
	case kind == strict.List:
		for _, e := range d.List(n) {
			parts = append(parts, string(asJSON(d, e, depth+1)))
		}
		return json.RawMessage("[" + strings.Join(parts, ",") + "]")
	case kind == strict.Map:
		m, _ := d.Map(n, "", nil)
		for _, name := range m.Order {
			key, _ := json.Marshal(name)
			parts = append(parts, string(key)+":"+string(asJSON(d, m.Values[name], depth+1)))
		}
		return json.RawMessage("{" + strings.Join(parts, ",") + "}")
	case kind == strict.Null:
		return json.RawMessage("null")
	case kind != strict.Text && json.Valid([]byte(n.Text())):
		return json.RawMessage(n.Text())
	}
	text, _ := json.Marshal(n.Text())
	return text
}

// percent divides a field by 100: the data source for Kubernetes has percentages where
// sentinel-golang has fractions.
func (r *rule) percent(name string) {
	if r.has(name) {
		v := r.rational(name, nil)
		r.put(name, json.RawMessage(decimal(v.Quo(v, big.NewRat(100, 1)))))
	}
}

// systemMetrics are the metrics of system rules of sentinel-golang, and the fields of Sentinel.
var systemMetrics = [...]struct{ name, field string }{
	{"Load", "highestSystemLoad"}, {"AvgRT", "avgRt"}, {"Concurrency", "maxThread"}, {"InboundQPS", "qps"}, {"CpuUsage", "highestCpuUsage"},
}

// metric returns the index of the metric of a system rule: a number or its name.
func (r *rule) metric() int64 {
	var text string
	if json.Unmarshal(r.fields["metricType"], &text) == nil {
		for i, m := range systemMetrics {
			if m.name == text {
				r.put("metricType", json.RawMessage(strconv.Itoa(i)))
			}
		}
	}
	return r.number("metricType", 0)
}
