package edit

import (
	"errors"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/weirfile/strict"
)

// A Fault is one error of a file.
type Fault struct {
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
	Field    string `json:"field,omitempty"`
	Value    string `json:"value,omitempty"`
	Expected string `json:"expected,omitempty"`
	Message  string `json:"message"`
}

// Faults lists the errors that err consists of.
func Faults(err error) []Fault {
	var one *strict.Error
	switch all := err.(type) {
	case nil:
		return []Fault{}
	case *strict.Error:
		one = all
	case interface{ Unwrap() []error }:
		var faults []Fault
		for _, e := range all.Unwrap() {
			faults = append(faults, Faults(e)...)
		}
		return faults
	default:
		if !errors.As(err, &one) {
			if list := errors.Unwrap(err); list != nil {
				if many, ok := list.(interface{ Unwrap() []error }); ok && len(many.Unwrap()) > 0 {
					return Faults(list)
				}
			}
			return []Fault{{Message: err.Error()}}
		}
	}
	name := one.Field
	if one.Policy != "" && name != "" {
		name = one.Policy + "." + name
	}
	message := strings.TrimPrefix(one.Error(), one.File)
	if one.File != "" && one.Line > 0 {
		if _, rest, ok := strings.Cut(message, ": "); ok {
			message = rest
		}
	}
	return []Fault{{one.Line, one.Column, name, one.Value, strings.TrimPrefix(one.Want, "want "), message}}
}

// A Change is one line of a difference: Op is " ", "-" or "+"; "@" for the position of the
// lines that follow.
type Change struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// difference returns the unified difference of two texts, with three lines of context.
func difference(before, after string) []Change {
	changes := []Change{}
	if before == after {
		return changes
	}
	text := string(diff.Diff("a", []byte(before), "b", []byte(after)))
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "@@"):
			changes = append(changes, Change{"@", line})
		case len(changes) == 0: // the names of the files
		case line != "" && strings.Contains(" -+", line[:1]):
			changes = append(changes, Change{line[:1], line[1:]})
		}
	}
	return changes
}

// forms returns the fields of each policy as they are in the text, and its line; none if
// text is not YAML.
func forms(text string) []map[string]any {
	all := []map[string]any{}
	d, err := parse(text)
	if err != nil || d.policies() == nil {
		return all
	}
	for _, p := range d.policies().Content {
		if p.Kind != yaml.MappingNode {
			continue
		}
		var fields map[string]any
		if p.Decode(&fields) != nil {
			continue
		}
		if v, err := normal(fields); err == nil {
			form := v.(map[string]any)
			form["line"] = p.Line
			all = append(all, form)
		}
	}
	return all
}
