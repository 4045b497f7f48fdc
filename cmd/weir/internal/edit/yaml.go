package edit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// errForm reports text that the form cannot edit without changing other text.
var errForm = errors.New("want the YAML edited instead: the form changes only policies and fields in plain YAML, without anchors, tags and texts of several lines")

// A document is the text of a policy file with its syntax tree.
type document struct {
	text  string
	lines []int // offset of each line
	root  *yaml.Node
}

// parse reads the syntax of a policy file, not its meaning.
func parse(text string) (*document, error) {
	d := &document{text: text, lines: []int{0}}
	for i := range text {
		if text[i] == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	var n yaml.Node
	if err := yaml.Unmarshal([]byte(text), &n); err != nil {
		return nil, problem.Invalid("text", problem.Shorten(err.Error()), "YAML")
	}
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		d.root = n.Content[0]
	}
	return d, nil
}

// field returns the key and the value of a field of a map; nil if there is none.
func field(m *yaml.Node, name string) (key, value *yaml.Node) {
	if m != nil && m.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(m.Content); i += 2 {
			if m.Content[i].Value == name {
				return m.Content[i], m.Content[i+1]
			}
		}
	}
	return nil, nil
}

// policies returns the list of policies; nil if there is none.
func (d *document) policies() *yaml.Node {
	if _, list := field(d.root, "policies"); list != nil && list.Kind == yaml.SequenceNode {
		return list
	}
	return nil
}

// policy returns the index of a policy by name; -1 if there is none.
func (d *document) policy(name string) int {
	if list := d.policies(); list != nil {
		return slices.IndexFunc(list.Content, func(p *yaml.Node) bool {
			_, v := field(p, "name")
			return v != nil && v.Value == name
		})
	}
	return -1
}

// offset returns where n begins. Columns count characters.
func (d *document) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(d.lines) {
		return len(d.text)
	}
	at, column := d.lines[n.Line-1], n.Column
	for i := range d.text[at:] {
		if column--; column == 0 {
			return at + i
		}
	}
	return len(d.text)
}

// end returns where n ends.
func (d *document) end(n *yaml.Node) (int, error) {
	at := d.offset(n)
	rest := d.text[at:]
	flow := n.Style&yaml.FlowStyle != 0
	switch {
	case n.Anchor != "" || n.Kind == yaml.AliasNode || n.Style&(yaml.TaggedStyle|yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return 0, errForm
	case n.Kind == yaml.ScalarNode && n.Style&yaml.DoubleQuotedStyle != 0:
		for i := 1; i < len(rest); i++ {
			switch rest[i] {
			case '\\':
				i++
			case '"':
				return at + i + 1, nil
			}
		}
	case n.Kind == yaml.ScalarNode && n.Style&yaml.SingleQuotedStyle != 0:
		for i := 1; i < len(rest); i++ {
			if rest[i] == '\'' {
				if i+1 == len(rest) || rest[i+1] != '\'' {
					return at + i + 1, nil
				}
				i++
			}
		}
	case n.Kind == yaml.ScalarNode && strings.HasPrefix(rest, n.Value):
		return at + len(n.Value), nil
	case flow && (n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode):
		if len(n.Content) > 0 {
			var err error
			if at, err = d.end(n.Content[len(n.Content)-1]); err != nil {
				return 0, err
			}
		} else {
			at++
		}
		for at < len(d.text) { // spaces, a comma and comments
			switch d.text[at] {
			case ']', '}':
				return at + 1, nil
			case '#':
				at += strings.IndexByte(d.text[at:]+"\n", '\n')
			default:
				at++
			}
		}
	case len(n.Content) > 0:
		return d.end(n.Content[len(n.Content)-1])
	}
	return 0, errForm
}

// A span is a part of a text.
type span struct{ from, to int }

func (d *document) span(n *yaml.Node) (s span, err error) {
	s.from = d.offset(n)
	s.to, err = d.end(n)
	return s, err
}

// replace returns the text with s replaced.
func (d *document) replace(s span, text string) string { return d.text[:s.from] + text + d.text[s.to:] }

// lineStart returns the beginning of the line of at, lineEnd the end of the line with its
// break.
func (d *document) lineStart(at int) int { return strings.LastIndexByte(d.text[:at], '\n') + 1 }

func (d *document) lineEnd(at int) int {
	if i := strings.IndexByte(d.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(d.text)
}

// render returns a JSON value as YAML on one line. In a list or a map in flow style more
// texts need quotes.
func render(value any, inFlow bool) (string, error) {
	var n yaml.Node
	if err := n.Encode(value); err != nil {
		return "", err
	}
	flow(&n)
	b, err := yaml.Marshal(&n)
	if err != nil {
		return "", err
	}
	text := strings.TrimSuffix(string(b), "\n")
	if s, ok := value.(string); ok && (strings.Contains(text, "\n") || inFlow && strings.ContainsAny(s, ",[]{}#:")) || strings.Contains(text, "\n") {
		b, err = json.Marshal(value) // JSON is YAML
		text = string(b)
	}
	return text, err
}

// flow sets the style of lists and maps to one line.
func flow(n *yaml.Node) {
	if n.Kind == yaml.SequenceNode || n.Kind == yaml.MappingNode {
		n.Style |= yaml.FlowStyle
	}
	if n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		n.Style = yaml.DoubleQuotedStyle
	}
	for _, c := range n.Content {
		flow(c)
	}
}

// plain returns the value of a text as maps, lists and scalars.
func plain(text string) (v any, err error) {
	err = yaml.Unmarshal([]byte(text), &v)
	return v, err
}

// changed checks that after differs from before as change says, and in nothing else.
func changed(before, after string, change func(file map[string]any) map[string]any) (string, error) {
	old, err := plain(before)
	if err != nil {
		return "", errForm
	}
	got, err := plain(after)
	if err != nil {
		return "", errForm
	}
	file, _ := old.(map[string]any)
	if file == nil {
		file = map[string]any{}
	}
	want, err := normal(change(file))
	if err != nil {
		return "", err
	}
	have, err := normal(got)
	if err != nil || !reflect.DeepEqual(have, want) {
		return "", errForm
	}
	return after, nil
}

// normal returns v after a round trip through JSON, in which numbers have one type.
func normal(v any) (any, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("%w", errForm)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
