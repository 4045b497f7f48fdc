package grammar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// SchemaID identifies the schema and is its URL.
const SchemaID = "https://raw.githubusercontent.com/floodweir/weir/main/weirfile/weir.schema.json"

// Schema returns the JSON Schema (2020-12) of a File. It accepts every file that the
// reader accepts. The reader also checks combinations of fields.
func Schema() ([]byte, error) {
	var g generator
	root := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"$id", SchemaID}, {"title", "A policy file of Weir"},
	}
	root = append(root, g.shape(File, true)...)
	root = append(root, member{"$defs", g.defs})
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("grammar: %w", err)
	}
	return b.Bytes(), nil
}

// An object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		for j, v := range []any{m.name, m.value} {
			if j > 0 {
				b.WriteByte(':')
			}
			e := json.NewEncoder(&b)
			e.SetEscapeHTML(false)
			if err := e.Encode(v); err != nil {
				return nil, err
			}
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// A generator writes shapes and records the named ones.
type generator struct{ defs object }

// shape returns the schema of s: a reference if s is named, unless out is set.
func (g *generator) shape(s *Shape, out bool) object {
	if s.Def != "" && !out {
		g.define(s)
		return object{{"$ref", "#/$defs/" + s.Def}}
	}
	switch s.Kind {
	case Text:
		o := object{{"type", "string"}, {"minLength", 1}}
		if s.Pattern != "" {
			o = append(o, member{"pattern", s.Pattern})
		}
		return o
	case AnyText:
		return object{{"type", "string"}}
	case Word:
		words := object{{"enum", s.Words}}
		if !s.Fold {
			return append(object{{"type", "string"}}, words...)
		}
		return object{{"type", "string"}, {"anyOf", []object{words, {{"pattern", anyCase(s.Words)}}}}}
	case Scalar:
		return object{{"type", []string{"string", "integer"}}}
	case Integer:
		return object{{"type", "integer"}, {"minimum", s.Least}, {"maximum", s.Most}}
	case Boolean:
		return object{{"type", "boolean"}}
	case Duration:
		return object{{"type", "string"}, {"pattern", `^\+?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`}}
	case Named:
		return object{{"type", "object"}, {"additionalProperties", g.shape(s.Of, false)}}
	case List:
		return object{{"type", "array"}, {"minItems", 1}, {"items", g.shape(s.Of, false)}}
	case ListOrOne:
		one := g.shape(s.Of, false)
		return object{{"anyOf", []object{one, {{"type", "array"}, {"minItems", 1}, {"items", one}}}}}
	case Choice:
		var any []object
		for _, a := range s.Any {
			any = append(any, g.shape(a, false))
		}
		return object{{"anyOf", any}}
	default:
		return g.fields(s)
	}
}

// define adds s to the named shapes, once.
func (g *generator) define(s *Shape) {
	for _, m := range g.defs {
		if m.name == s.Def {
			return
		}
	}
	g.defs = append(g.defs, member{s.Def, nil})
	at := len(g.defs) - 1
	g.defs[at].value = g.shape(s, true)
}

func (g *generator) fields(s *Shape) object {
	var properties object
	required := []string{}
	var either []object // fields of which one is required
	for _, f := range s.Fields {
		o := object{{"description", f.Doc}}
		if f.Default != nil {
			o = append(o, member{"default", f.Default})
		}
		if f.Deprecated {
			o = append(o, member{"deprecated", true})
		}
		if f.Examples != nil {
			o = append(o, member{"examples", f.Examples})
		}
		properties = append(properties, member{f.Name, append(o, g.shape(f.Shape, false)...)})
		switch {
		case f.Required && len(f.Unless) == 0:
			required = append(required, f.Name)
		case f.Required:
			var any []object
			for _, name := range append([]string{f.Name}, f.Unless...) {
				any = append(any, object{{"required", []string{name}}})
			}
			either = append(either, object{{"anyOf", any}})
		}
	}
	o := object{{"type", "object"}, {"additionalProperties", false}}
	if len(either) > 0 {
		o = append(o, member{"allOf", either})
	}
	if len(required) > 0 {
		o = append(o, member{"required", required})
	}
	if s.NotEmpty {
		o = append(o, member{"minProperties", 1})
	}
	if len(s.OneOf) > 0 {
		var one []object
		for _, group := range s.OneOf {
			var of []object
			for _, name := range group {
				of = append(of, object{{"required", []string{name}}})
			}
			if len(of) == 1 {
				one = append(one, of[0])
			} else {
				one = append(one, object{{"anyOf", of}})
			}
		}
		o = append(o, member{"oneOf", one})
	}
	return append(o, member{"properties", properties})
}

// anyCase returns a pattern that matches words in any case.
func anyCase(words []string) string {
	var b strings.Builder
	for i, w := range words {
		if i > 0 {
			b.WriteByte('|')
		}
		for _, r := range w {
			if unicode.IsLetter(r) {
				fmt.Fprintf(&b, "[%c%c]", unicode.ToUpper(r), unicode.ToLower(r))
			} else {
				b.WriteRune(r)
			}
		}
	}
	return "^(" + b.String() + ")$"
}
