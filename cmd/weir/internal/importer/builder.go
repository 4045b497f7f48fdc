package importer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
	except                []exception
	key                   []string
	limits                []string
	block                 bool     // deny all requests, in place of limits; key is only for overrides
	nginx                 []string // fields of limit_req, in place of limits
	function              bool     // the limits are for a function of a Go program
	status                int
	wait                  string
	mode                  string
	overrides             []override

	notes []note
}

// An exception is requests to which the policy does not apply.
type exception struct {
	field  string // hosts, paths or ips
	values []string
}

// An override has a limit, or blocks or unlimited in its place.
type override struct {
	key   []string
	limit string
}

// The texts in place of the limit of an override.
const (
	blocks    = "0"
	unlimited = "unlimited"
)

// A note is a comment above a field.
type note struct{ field, text string }

// differs adds a note about a difference from the input. If field is empty, the note is
// about the policy.
func (d *draft) differs(field, format string, args ...any) {
	d.notes = append(d.notes, note{field, "differs: " + fmt.Sprintf(format, args...)})
}

// A builder writes the policy file.
type builder struct {
	head        []string // comments at the top
	policies    []written
	rules       []string // of functions
	systemRules *systemRules
	names       map[string]bool
	listed      []Item
}

// A written is a policy of the file.
type written struct {
	text, from string
	at         place
}

func newBuilder(head ...string) *builder {
	return &builder{head: head, names: map[string]bool{}, systemRules: &systemRules{}}
}

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
	err := b.check(&d)
	if err == nil {
		b.names[d.name] = true
		b.policies = append(b.policies, written{d.text(), d.from, d.at})
		return
	}
	b.list(d.at, d.from, "not a valid policy: %s", reason(err))
}

// check returns the error of a policy file with d alone, under a valid name.
func (b *builder) check(d *draft) error {
	alone := *d
	alone.name = unique(nil, d.name)
	_, err := weirfile.Parse("policy", []byte("policies:\n"+alone.text()))
	return err
}

// addFunction adds a rule for the functions of a name to the file if it is valid, and lists
// it otherwise.
func (b *builder) addFunction(at place, from, name, fields string, notes []string) {
	var s strings.Builder
	comment(&s, "    ", at.String()+": "+from)
	for _, n := range notes {
		comment(&s, "    ", n)
	}
	fmt.Fprintf(&s, "    - name: %s\n      %s\n", quoted(name), fields)
	if _, err := weirfile.Parse("functions", []byte("functions:\n  rules:\n"+s.String())); err != nil {
		b.list(at, from, "not a valid rule: %s", reason(err))
		return
	}
	b.rules = append(b.rules, s.String())
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
	for _, e := range d.except {
		texts = append(texts, e.values...)
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

// policyList returns the policies as YAML.
func (b *builder) policyList() string {
	texts := make([]string, len(b.policies))
	for i, p := range b.policies {
		texts[i] = p.text
	}
	return "policies:\n" + strings.Join(texts, "\n")
}

// tries is the number of times that withdraw removes single policies.
const tries = 8

var policyIndex = regexp.MustCompile(`^policies\[(\d+)\]`)

// withdraw lists the policies that are valid alone and not with the others, so that the
// file is valid. If that does not end soon, it lists all policies from the first of them on.
func (b *builder) withdraw() {
	for try := 0; len(b.policies) > 0; try++ {
		_, err := weirfile.Parse("policies", []byte(b.policyList()))
		var errs weirfile.Errors
		if !errors.As(err, &errs) {
			return
		}
		reasons, first := map[int]string{}, len(b.policies)
		for _, e := range errs {
			if m := policyIndex.FindStringSubmatch(e.Field); m != nil {
				i, _ := strconv.Atoi(m[1])
				reasons[i], first = strings.TrimPrefix(e.Value+": "+e.Want, ": "), min(first, i)
			}
		}
		var kept []written
		for i, p := range b.policies {
			why, faulty := reasons[i]
			if try >= tries && i >= first {
				why, faulty = reasons[first], true
			}
			if faulty {
				b.list(p.at, p.from, "not valid with the policies before it: %s", why)
			} else {
				kept = append(kept, p)
			}
		}
		if len(kept) == len(b.policies) {
			return
		}
		b.policies = kept
	}
}

// result returns the whole file.
func (b *builder) result() *Result {
	b.withdraw()
	var s strings.Builder
	for _, c := range b.head {
		comment(&s, "", c)
	}
	s.WriteString("\n")
	system := b.systemRules.text()
	switch {
	case len(b.policies)+len(b.rules) == 0 && system == "":
		s.WriteString("store: memory\n") // a file may not be empty
	case system != "" && len(b.policies)+len(b.rules) > 0:
		system += "\n"
	}
	s.WriteString(system)
	if len(b.policies) > 0 {
		s.WriteString(b.policyList())
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
	switch len(d.except) {
	case 0:
	case 1:
		fmt.Fprintf(&s, "    except: { %s: %s }\n", d.except[0].field, list(d.except[0].values))
	default:
		s.WriteString("    except:\n")
		for _, e := range d.except {
			fmt.Fprintf(&s, "      - %s: %s\n", e.field, list(e.values))
		}
	}
	if !d.block || len(d.overrides) > 0 {
		d.writeNotes(&s, "    ", "key")
		fmt.Fprintf(&s, "    key: %s\n", list(d.key))
	}
	d.writeNotes(&s, "    ", "limits")
	switch {
	case d.block:
		s.WriteString("    block: true\n")
	case d.nginx != nil:
		fmt.Fprintf(&s, "    nginx: { %s }\n", strings.Join(d.nginx, ", "))
	default:
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
		writeOverrides(&s, "    ", d.overrides)
	}
	return s.String()
}

func writeOverrides(s *strings.Builder, indent string, all []override) {
	s.WriteString(indent + "overrides:\n")
	for _, o := range all {
		limit := o.limit
		if limit != blocks && limit != unlimited {
			limit = list([]string{limit})
		}
		fmt.Fprintf(s, "%s  - { key: %s, limits: %s }\n", indent, list(o.key), limit)
	}
}

// writeNotes writes the notes of a field.
func (d *draft) writeNotes(s *strings.Builder, indent, field string) {
	for _, n := range d.notes {
		if n.field == field {
			comment(s, indent, n.text)
		}
	}
}
