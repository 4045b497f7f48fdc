package strict_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile/strict"
)

// outline describes n in one line, with the position of every scalar. Its depth is
// bounded, since a map can contain itself.
func outline(d *strict.Document, n strict.Node, field string) string {
	var parts []string
	if len(field) > 200 {
		return "…"
	}
	switch n.Kind() {
	case strict.Map:
		m, _ := d.Map(n, field, nil)
		for _, name := range m.Order {
			parts = append(parts, name+":"+outline(d, m.Values[name], strict.Join(field, name)))
		}
		return "{" + strings.Join(parts, " ") + "}"
	case strict.List:
		d.Plain(n, field)
		for i, e := range d.List(n) {
			parts = append(parts, outline(d, e, strict.Index(field, i)))
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	d.Plain(n, field)
	return fmt.Sprintf("%v@%d:%d", n, n.Line(), n.Column())
}

func TestRead(t *testing.T) {
	for _, test := range []struct {
		text, strict, loose string // what is read, or "! " and the faults
	}{
		{"a: 1", `{a:1@1:4}`, `{a:1@1:4}`},
		{"a: [x, 'y', 1.5, ~, true, 2026-01-01]",
			`{a:["x"@1:5 "y"@1:8 1.5@1:13 nothing@1:18 true@1:21 2026-01-01@1:27]}`,
			`{a:["x"@1:5 "y"@1:8 1.5@1:13 nothing@1:18 true@1:21 2026-01-01@1:27]}`},
		{"a: &x [1]\nb: *x", `{a:[1@1:8] b:[1@1:8]}`, `{a:[1@1:8] b:[1@1:8]}`},
		{"a: &x {b: 1}\nc:\n  <<: *x\n  d: 2",
			`! f:3:3: c: "<<": want the fields themselves: merge keys are not read`,
			`{a:{b:1@1:11} c:{d:2@4:6 b:1@1:11}}`},
		{"<<: [{a: 1}, {a: 2, b: 3}]", `! f:1:1: "<<": want the fields themselves: merge keys are not read`, `{a:1@1:10 b:3@1:24}`},
		{"<<: 1", `! f:1:1: "<<": want the fields themselves: merge keys are not read`, `! f:1:5: <<: 1: want a map to merge, or a list of maps`},
		{"1: a", `! f:1:1: 1: want text as the name of a field`, `{1:"a"@1:4}`},
		{"[a]: b", `! f:1:1: a list: want text as the name of a field`, `! f:1:1: a list: want text as the name of a field`},
		{"a: !!binary b", `! f:1:4: a: "!!binary": want a plain value without a tag: put a text that begins with ! in quotes`, `{a:b@1:4}`},
		{"a: 1\nb: 2\na: 3", `! f:3:1: a: want every field once: it stands at f:1:1 already`, `! f:3:1: a: want every field once: it stands at f:1:1 already`},
		{"", `! f:1:1: want a value, got an empty file`, `! f:1:1: want a value, got an empty file`},
		{"# no\n~", `! f:1:1: want a value, got an empty file`, `! f:1:1: want a value, got an empty file`},
		{"a: \xe9", `! f:1:4: the byte 0xe9: want text in UTF-8 without control characters`, `! f:1:4: the byte 0xe9: want text in UTF-8 without control characters`},
		{"a:\n  é\x01", `! f:2:4: the character U+0001: want text in UTF-8 without control characters`, `! f:2:4: the character U+0001: want text in UTF-8 without control characters`},
		{"a:\n\tb: 1", `! f:2:1: a tab: want spaces: YAML does not indent with tabs`, `! f:2:1: a tab: want spaces: YAML does not indent with tabs`},
		{"a: 1\n---\nb: 2", `! f:1:1: want one document, got several: a line of --- begins another`, `! f:1:1: want one document, got several: a line of --- begins another`},
		{"a: b: c", `! f:1:5: want YAML: mapping values are not allowed in this context`, `! f:1:5: want YAML: mapping values are not allowed in this context`},
	} {
		for i, want := range []string{test.strict, test.loose} {
			d := strict.Parse("f", []byte(test.text), strict.Config{Loose: i == 1})
			got := ""
			if root := d.Root(); root.There() {
				got = outline(d, root, "")
			}
			if errs := d.Errors(); len(errs) > 0 {
				got = "! " + errs.Error()
				if !errors.Is(errs, weir.ErrInvalid) {
					t.Errorf("%q: %T, want it to wrap weir.ErrInvalid", test.text, errs)
				}
			}
			if got != want {
				t.Errorf("%q, loose: %v:\n got %s\nwant %s", test.text, i == 1, got, want)
			}
		}
	}
}

// TestKnownFields checks that unknown fields are faults, and that a null field exists
// only for strict readers.
func TestKnownFields(t *testing.T) {
	known := []string{"listen", "trusted_proxies"}
	for text, want := range map[string]string{
		"Listen: 1":         "f:1:1: a.Listen: unknown field, did you mean listen?",
		"trusted: 1":        "f:1:1: a.trusted: unknown field, did you mean trusted_proxies?",
		"port: 1":           "f:1:1: a.port: unknown field, want listen or trusted_proxies",
		"hello":             `f:1:1: a: "hello": want a map with listen or trusted_proxies`,
		"listen: ~":         "",
		"port: 1\nport: 2":  "f:1:1: a.port: unknown field, want listen or trusted_proxies\nf:2:1: a.port: want every field once: it stands at f:1:1 already",
		"? [listen]\n: 1\n": "f:1:3: a: a list: want text as the name of a field",
	} {
		d := strict.Parse("f", []byte(text), strict.Config{})
		m, ok := d.Map(d.Root(), "a", known)
		if got := d.Errors().Error(); got != want || ok != (want == "") {
			t.Errorf("%q: %q, %v, want %q", text, got, ok, want)
		}
		if text == "listen: ~" && m.Values["listen"].Kind() != strict.Null {
			t.Errorf("%q: %v, want nothing", text, m)
		}
	}
	d := strict.Parse("f", []byte("<<: {listen: 1}\nlisten: ~"), strict.Config{Loose: true})
	if m, ok := d.Map(d.Root(), "", known); !ok || len(m.Values) != 0 || !m.Names["listen"].There() {
		t.Errorf("a field that is nothing, read loosely: %v, %v, want none", m, ok)
	}
}

// TestKnownNamesAreText checks that names other than texts are accepted only where any
// name is.
func TestKnownNamesAreText(t *testing.T) {
	d := strict.Parse("f", []byte("- &l listen\n- {*l : 1, 1: 2}"), strict.Config{Loose: true})
	for i, n := range d.List(d.Root()) {
		if i == 1 {
			m, _ := d.Map(n, "", []string{"listen", "1"})
			if at := m.Names["listen"]; at.Line() != 2 || at.Column() != 4 {
				t.Errorf("the name stands at %d:%d, want the place of the alias", at.Line(), at.Column())
			}
		}
	}
	if want := "f:2:12: 1: want text as the name of a field"; d.Errors().Error() != want {
		t.Errorf("%v, want %s", d.Errors(), want)
	}
}

// TestHere checks the positions of an alias and of its value.
func TestHere(t *testing.T) {
	d := strict.Parse("f", []byte("- &a x\n- *a\n"), strict.Config{})
	var at []string
	for i, n := range d.List(d.Root()) {
		h := n.Here()
		at = append(at, fmt.Sprintf("%d: %s %d:%d, here %s %d:%d", i, n.Text(), n.Line(), n.Column(), h.Text(), h.Line(), h.Column()))
	}
	if got, want := strings.Join(at, "\n"), "0: x 1:3, here x 1:3\n1: x 1:3, here x 2:3"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestValues(t *testing.T) {
	d := strict.Parse("f", []byte(`[1, 1.5, 0x10, .nan, x, "1", [2], true]`), strict.Config{})
	var got []string
	for _, n := range d.List(d.Root()) {
		f, ok := n.Float()
		got = append(got, fmt.Sprint(f, ok, n.InQuotes(), n.Scalar(), n.Len()))
	}
	want := "1 true false true 0; 1.5 true false true 0; 16 true false true 0; NaN true false true 0; " +
		"0 false false true 0; 0 false true true 0; 0 false false false 1; 0 false false true 0"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

// TestWithin checks the position of every character of a text.
func TestWithin(t *testing.T) {
	for _, text := range []string{
		"a: one two", `a: "one two"`, "a: 'one two'", `a: "\x6fne two"`, "a: 'it''s one two'", "a: &x one two", "a: |\n  one\n  two",
		"a: >\n  one\n  two", "a: one\n  two", "\ufeffa: é two", "a: one\r\n  two",
	} {
		d := strict.Parse("f", []byte(text), strict.Config{})
		m, _ := d.Map(d.Root(), "", nil)
		n := m.Values["a"]
		i := len([]rune(n.Text()[:strings.Index(n.Text(), "two")]))
		line, column := d.Within(n, i)
		lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
		if rest := string([]rune(lines[line-1])[column-1:]); !strings.HasPrefix(rest, "two") {
			t.Errorf("%q: the character %d stands at %d:%d, where there is %q", text, i, line, column, rest)
		}
	}
	d := strict.Parse("f", []byte("a: |2\n   one two"), strict.Config{})
	m, _ := d.Map(d.Root(), "", nil)
	if line, column := d.Within(m.Values["a"], 5); line != 1 || column != 4 {
		t.Errorf("within a block with an indentation of its own: %d:%d, want where it begins", line, column)
	}
}

func TestBounds(t *testing.T) {
	d := strict.Parse("f", []byte("abc"), strict.Config{MaxSize: 2, Empty: "nothing"})
	if want := "f:1:1: more than 2 bytes: want a file of at most 2 bytes"; d.Root().There() || d.Errors().Error() != want {
		t.Errorf("a large file: %v, want %s", d.Errors(), want)
	}
	if d := strict.Parse("f", nil, strict.Config{Empty: "want colours"}); d.Errors().Error() != "f:1:1: want colours" {
		t.Errorf("an empty file: %v", d.Errors())
	}

	d = strict.Parse("f", []byte("["+strings.Repeat("x,", 5000)+"]"), strict.Config{})
	for i, n := range d.List(d.Root()) {
		d.Fail(n, strict.Index("", i), "", "want none")
	}
	if !d.Spent() || len(d.Faults()) != 2000 {
		t.Errorf("%d faults, want no more than 2000", len(d.Faults()))
	}
	errs := d.Errors().Cut()
	if len(errs) != 201 || errs[200].Want != "and at least 1800 more faults" || errs[200].Column != errs[199].Column {
		t.Errorf("%d errors, the last %v, want 200 and how many more", len(errs), errs[len(errs)-1])
	}
	if errs := errs[:200]; len(errs.Cut()) != 200 {
		t.Errorf("200 errors are cut to %d", len(errs.Cut()))
	}

	bomb := "a0: &a0 [x]\n"
	for i := range 20 {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 20), ","))
	}
	for _, text := range []string{bomb, "&a [*a, *a]", "&a {b: *a, c: *a}"} {
		d := strict.Parse("f", []byte(text), strict.Config{})
		outline(d, d.Root(), "")
		if errs := d.Errors(); len(errs) != 1 || !strings.Contains(errs.Error(), "want fewer aliases") {
			t.Errorf("%.30q: %v, want one error about aliases", text, errs)
		}
	}
	d = strict.Parse("f", []byte("&a {<<: *a}"), strict.Config{Loose: true})
	outline(d, d.Root(), "")
	if errs := d.Errors(); len(errs) != 1 || !strings.Contains(errs.Error(), "want fewer aliases") {
		t.Errorf("a map merged with itself: %v, want one error about aliases", errs)
	}
}

// TestOrder checks that errors are in the order of the file, each once.
func TestOrder(t *testing.T) {
	d := strict.Parse("f", []byte("a"), strict.Config{})
	d.FailAt(2, 1, "b", "", "second")
	d.FailAt(1, 5, "", "1", "first")
	d.FailAt(2, 1, "b", "", "second")
	d.FailAt(0, 0, "a\nb", "", "at the start")
	want := "f:1:1: a?b: at the start\nf:1:5: 1: first\nf:2:1: b: second"
	if got := d.Errors().Error(); got != want || len(d.Faults()) != 4 || d.Name() != "f" {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestWords(t *testing.T) {
	for _, test := range [][2]string{
		{strict.Quoted("a\nb"), `"a\nb"`},
		{strict.Quoted(strings.Repeat("x", 61)), `"` + strings.Repeat("x", 60) + `"… (61 bytes)`},
		{strict.Printable("a\nb\x00é"), "a?b?é"},
		{strict.Printable(strings.Repeat("é", 101)), strings.Repeat("é", 100) + "…"},
		{strict.Printable("a" + strings.Repeat("é", 101)), "a" + strings.Repeat("é", 99) + "…"},
		{strict.OneOf([]string{"a"}), "a"},
		{strict.OneOf([]string{"a", "b", "c"}), "a, b or c"},
		{strict.Join("", "a"), "a"},
		{strict.Index(strict.Join("a", "b"), 2), "a.b[2]"},
	} {
		if test[0] != test[1] {
			t.Errorf("got %s, want %s", test[0], test[1])
		}
	}
}

// FuzzParse checks that no input makes a reader panic or hang, and that every fault has
// a position in the file.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"a: 1", "a: &x {b: *x}", "<<: [{a: 1}, {b: ~}]", "a: |2\n  b", "- 'it''s'\n- \"\\x41\"", "a: \xe9", "a:\n\tb", "!!set {a}", "---\n---"} {
		f.Add([]byte(text), false)
		f.Add([]byte(text), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, loose bool) {
		d := strict.Parse("f", data, strict.Config{Loose: loose})
		if root := d.Root(); root.There() {
			outline(d, root, "")
			line, column := d.Within(root, 3)
			if line < 1 || column < 1 {
				t.Errorf("within: %d:%d", line, column)
			}
		} else if len(d.Errors()) == 0 {
			t.Error("neither a value nor a fault")
		}
		for _, e := range d.Errors().Cut() {
			if text := e.Error(); e.Line < 1 || e.Column < 1 || e.Want == "" || len(text) > 1000 || strings.ContainsAny(text, "\n\x00") {
				t.Errorf("%q, want one line with a place", text)
			}
		}
	})
}
