package weirfile_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/internal/grammar"
)

// TestSchemaIsCurrent checks that the published schema is that of the grammar.
func TestSchemaIsCurrent(t *testing.T) {
	want, err := grammar.Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "weir.schema.json", string(want))
	if got := weirfile.Schema(); !*update && !bytes.Equal(got, want) {
		t.Error("Schema is not what the grammar makes; run go generate")
	}
	var any map[string]any
	if err := json.Unmarshal(want, &any); err != nil || any["$id"] != grammar.SchemaID {
		t.Errorf("schema: %v, $id %v, want JSON with %s", err, any["$id"], grammar.SchemaID)
	}
	first := weirfile.Schema()
	first[0] = 'x'
	if weirfile.Schema()[0] != '{' {
		t.Error("who changes a schema changes that of others")
	}
}

// shapes returns every map of the grammar once.
func shapes() []*grammar.Shape {
	var all []*grammar.Shape
	seen := map[*grammar.Shape]bool{}
	var visit func(*grammar.Shape)
	visit = func(s *grammar.Shape) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		if s.Kind == grammar.Map {
			all = append(all, s)
		}
		for _, f := range s.Fields {
			visit(f.Shape)
		}
		for _, a := range s.Any {
			visit(a)
		}
		visit(s.Of)
	}
	visit(grammar.File)
	return all
}

// TestGrammar checks that every field has documentation, that patterns compile, and
// that every required field has an error text.
func TestGrammar(t *testing.T) {
	fields := 0
	var check func(where string, s *grammar.Shape)
	check = func(where string, s *grammar.Shape) {
		if _, err := regexp.Compile(s.Pattern); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if k := s.Kind; (k == grammar.ListOrOne || k == grammar.List || k == grammar.Choice) && s.Want == "" {
			t.Errorf("%s: nothing to say of what was expected", where)
		}
		for _, a := range s.Any {
			check(where, a)
		}
		if s.Of != nil {
			check(where, s.Of)
		}
	}
	for _, s := range shapes() {
		for _, f := range s.Fields {
			fields++
			if f.Doc == "" || strings.ContainsAny(f.Doc, "\n") || strings.HasSuffix(f.Doc, ".") {
				t.Errorf("%s: explanation %q, want a line", f.Name, f.Doc)
			}
			if f.Required && f.Shape.Want == "" {
				t.Errorf("%s: nothing to say where it is missing", f.Name)
			}
			check(f.Name, f.Shape)
		}
		for _, name := range slices.Concat(s.OneOf...) {
			if s.Field(name) == nil || s.Want == "" {
				t.Errorf("one of %s: want a field and what is expected", name)
			}
		}
	}
	if fields < 60 {
		t.Errorf("%d fields, want all of them", fields)
	}
}

// TestReferenceHasEveryField checks that the documentation explains every field.
func TestReferenceHasEveryField(t *testing.T) {
	page, err := os.ReadFile("../docs/policies.md")
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("../weir.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range shapes() {
		for _, f := range s.Fields {
			if !regexp.MustCompile("`[a-z_.]*\\b" + f.Name + "\\b[^`\n]*`").Match(page) {
				t.Errorf("docs/policies.md does not explain %s: %s", f.Name, f.Doc)
			}
			if s.Field("rate") == nil && !f.Deprecated && !strings.Contains(string(example), f.Name+":") {
				t.Errorf("weir.example.yaml does not show %s: %s", f.Name, f.Doc)
			}
		}
	}
}
