package importer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/floodweir/weir/weirfile"
)

// A place is a position in the input.
type place struct {
	file string
	line int
}

func (p place) String() string { return at(p.file, p.line) }

// A draft is a policy under construction. Empty fields are omitted.
type draft struct {
	at   place
	from string // the text of the input, for the comment above it
	name string // the builder makes it valid and unique

	hosts, paths, methods []string
	headers               [][2]string // name and value
	where                 []string    // conditions, all of which must be true
	key                   []string
	limits                []string
	nginx                 []string // fields of limit_req, in place of limits
	status                int
	wait                  string
	mode                  string
	overrides             []override

	notes []note
}

type override struct {
	key   []string
	limit string
}

// A note is a comment above a field.
type note struct{ field, text string }

// differs adds a note about a difference from the input. If field is empty, the note is
// about the policy.
func (d *draft) differs(field, format string, args ...any) {
	d.notes = append(d.notes, note{field, "differs: " + fmt.Sprintf(format, args...)})
}

// A builder writes the policy file.
type builder struct {
	head     []string // comments at the top
	policies []string
	rules    []string // of functions
	names    map[string]bool
	listed   []Item
}

func newBuilder(head ...string) *builder { return &builder{head: head, names: map[string]bool{}} }

// list records what cannot be expressed.
func (b *builder) list(p place, what, why string, args ...any) {
	b.listed = append(b.listed, Item{File: p.file, Line: p.line, What: printable(what), Why: printable(fmt.Sprintf(why, args...))})
}

// add adds a policy to the file if it is valid, and lists it otherwise.
func (b *builder) add(d draft) {
	if !d.valid() {
		b.list(d.at, d.from, "it is not valid UTF-8")
		return
	}
	d.name = unique(b.names, d.name)
	text := d.text()
	_, err := weirfile.Parse("policy", []byte("policies:\n"+text))
	if err == nil {
		b.names[d.name] = true
		b.policies = append(b.policies, text)
		return
	}
	b.list(d.at, d.from, "not a valid policy: %s", reason(err))
}

// addFunction adds a rule for the functions of a name to the file if it is valid, and lists
// it otherwise. It reports whether it is valid.
func (b *builder) addFunction(at place, from, name, fields string, notes []string) bool {
	var s strings.Builder
	comment(&s, "    ", at.String()+": "+from)
	for _, n := range notes {
		comment(&s, "    ", n)
	}
	fmt.Fprintf(&s, "    - name: %s\n      %s\n", quoted(name), fields)
	if _, err := weirfile.Parse("functions", []byte("functions:\n  rules:\n"+s.String())); err != nil {
		b.list(at, from, "not a valid rule: %s", reason(err))
		return false
	}
	b.rules = append(b.rules, s.String())
	return true
}

// reason returns the first error of a policy file, without its position.
func reason(err error) string {
	why := err.Error()
	if errs := (weirfile.Errors)(nil); errors.As(err, &errs) && len(errs) > 0 {
		why = errs[0].Want
		if v := errs[0].Value; v != "" {
			why = v + ": " + why
		}
	}
	return why
}

// valid reports whether all texts of d are valid UTF-8.
func (d *draft) valid() bool {
	texts := slices.Concat(d.hosts, d.paths, d.methods, d.where, d.key, d.limits)
	for _, h := range d.headers {
		texts = append(texts, h[:]...)
	}
	for _, o := range d.overrides {
		texts = append(texts, o.key...)
	}
	return !slices.ContainsFunc(texts, func(s string) bool { return !utf8.ValidString(s) })
}

// unique returns a valid name for a policy or a zone that is not in names.
func unique(names map[string]bool, text string) string {
	const most = 56 // so that a number can follow
	var s strings.Builder
	for _, r := range text {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', s.Len() > 0 && (r == '.' || r == '_'):
			s.WriteRune(r)
		case s.Len() > 0 && !strings.HasSuffix(s.String(), "-"):
			s.WriteByte('-')
		}
		if s.Len() == most {
			break
		}
	}
	base := strings.Trim(s.String(), "-")
	if base == "" {
		base = "policy"
	}
	name := base
	for n := 2; names[name]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return name
}

// result returns the whole file.
func (b *builder) result() *Result {
	var s strings.Builder
	for _, c := range b.head {
		comment(&s, "", c)
	}
	s.WriteString("\n")
	if len(b.policies)+len(b.rules) == 0 {
		s.WriteString("store: memory\n") // a file may not be empty
	}
	if len(b.policies) > 0 {
		s.WriteString("policies:\n" + strings.Join(b.policies, "\n"))
	}
	if len(b.rules) > 0 {
		if len(b.policies) > 0 {
			s.WriteString("\n")
		}
		s.WriteString("# Rules for functions and resources of Go programs, by name: see docs/functions.md.\n")
		s.WriteString("functions:\n  rules:\n" + strings.Join(b.rules, ""))
	}
	if len(b.listed) > 0 {
		s.WriteString("\n# What could not be expressed:\n#\n")
		for _, i := range b.listed {
			comment(&s, "", "  "+i.String())
		}
	}
	return &Result{Text: s.String(), Policies: len(b.policies), Listed: b.listed}
}

// text returns the policy as YAML.
func (d *draft) text() string {
	var s strings.Builder
	comment(&s, "  ", d.at.String()+": "+d.from)
	d.writeNotes(&s, "  ", "")
	fmt.Fprintf(&s, "  - name: %s\n", quoted(d.name))
	if d.hosts != nil || d.paths != nil || d.methods != nil || d.headers != nil || d.where != nil {
		d.writeNotes(&s, "    ", "match")
		s.WriteString("    match:\n")
		for _, f := range []struct {
			name   string
			values []string
		}{{"hosts", d.hosts}, {"paths", d.paths}, {"methods", d.methods}} {
			if f.values != nil {
				fmt.Fprintf(&s, "      %s: %s\n", f.name, list(f.values))
			}
		}
		if d.headers != nil {
			s.WriteString("      headers:\n")
			for _, h := range d.headers {
				fmt.Fprintf(&s, "        %s: %s\n", quoted(h[0]), list(h[1:]))
			}
		}
		if d.where != nil {
			fmt.Fprintf(&s, "      where: %s\n", quoted(all(d.where)))
		}
	} else {
		d.writeNotes(&s, "    ", "match")
	}
	d.writeNotes(&s, "    ", "key")
	fmt.Fprintf(&s, "    key: %s\n", list(d.key))
	d.writeNotes(&s, "    ", "limits")
	if d.nginx != nil {
		fmt.Fprintf(&s, "    nginx: { %s }\n", strings.Join(d.nginx, ", "))
	} else {
		fmt.Fprintf(&s, "    limits: %s\n", list(d.limits))
	}
	d.writeNotes(&s, "    ", "on_denied")
	var answer []string
	if d.status != 0 && d.status != 429 {
		answer = append(answer, fmt.Sprintf("status: %d", d.status))
	}
	if d.wait != "" {
		answer = append(answer, "wait: "+d.wait)
	}
	if answer != nil {
		fmt.Fprintf(&s, "    on_denied: { %s }\n", strings.Join(answer, ", "))
	}
	if d.mode != "" {
		d.writeNotes(&s, "    ", "mode")
		fmt.Fprintf(&s, "    mode: %s\n", d.mode)
	}
	if len(d.overrides) > 0 {
		d.writeNotes(&s, "    ", "overrides")
		s.WriteString("    overrides:\n")
		for _, o := range d.overrides {
			fmt.Fprintf(&s, "      - { key: %s, limits: %s }\n", list(o.key), list([]string{o.limit}))
		}
	}
	return s.String()
}

// writeNotes writes the notes of a field.
func (d *draft) writeNotes(s *strings.Builder, indent, field string) {
	for _, n := range d.notes {
		if n.field == field {
			comment(s, indent, n.text)
		}
	}
}

// comment writes text as comments, wrapped.
func comment(s *strings.Builder, indent, text string) {
	const width = 100
	text = printable(text)
	lead := text[:len(text)-len(strings.TrimLeft(text, " "))]
	line := indent + "# " + lead
	begun := false
	for word := range strings.FieldsSeq(text) {
		switch {
		case !begun:
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			s.WriteString(line + "\n")
			line = indent + "#   " + lead
		default:
			line += " "
		}
		line += word
		begun = true
	}
	s.WriteString(strings.TrimRight(line, " ") + "\n")
}

// list returns texts as a YAML list.
func list(values []string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = quoted(v)
	}
	return "[" + strings.Join(texts, ", ") + "]"
}

// quoted returns a text as YAML, in quotes if necessary.
func quoted(s string) string {
	switch {
	case plain(s):
		return s
	case !strings.Contains(s, `"`) && !strings.Contains(s, `\`) && printable(s) == s:
		return `"` + s + `"`
	case printable(s) == s:
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	return strconv.QuoteToASCII(s)
}

// plain reports whether a text needs no quotes in YAML.
func plain(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' && r != '/') {
			return false
		}
	}
	switch strings.ToLower(s) {
	case "", "true", "false", "null", "yes", "no", "on", "off", "y", "n":
		return false
	}
	return true
}

// printable replaces line breaks and other control characters.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, s)
}

// cel returns a text as a CEL string. Invalid UTF-8 stays, so that valid finds it.
func cel(s string) string {
	if !utf8.ValidString(s) {
		return `"` + s + `"`
	}
	return strconv.Quote(s)
}

// all joins conditions by "and".
func all(conditions []string) string { return join(conditions, " && ", " || ") }

// either joins conditions by "or".
func either(conditions []string) string { return join(conditions, " || ", " && ") }

// join joins conditions by an operator, with parentheses around those that contain the
// other operator.
func join(conditions []string, with, other string) string {
	if len(conditions) == 1 {
		return conditions[0]
	}
	parts := make([]string, len(conditions))
	for i, c := range conditions {
		if parts[i] = c; outside(c, other) {
			parts[i] = "(" + c + ")"
		}
	}
	return strings.Join(parts, with)
}

// not returns an expression that is true if no condition is true.
func not(conditions []string) string {
	if len(conditions) == 1 {
		c := conditions[0]
		if !outside(c, " && ") && !outside(c, " || ") && !outside(c, " == ") && !outside(c, " != ") && !outside(c, " in ") {
			return "!" + c
		}
	}
	return "!(" + either(conditions) + ")"
}

// outside reports whether an operator occurs in an expression outside of parentheses
// and quotes.
func outside(text, operator string) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case depth == 0 && strings.HasPrefix(text[i:], operator):
			return true
		}
	}
	return false
}

// short returns the beginning of a text, for a comment.
func short(s string) string {
	const most = 200
	if len(s) > most {
		return strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
