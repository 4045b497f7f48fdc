package edit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// setField returns text with a field of a policy set to value, a JSON value; nil removes
// the field. All other text stays as it is.
func setField(text, policy, name string, value any) (string, error) {
	d, i, err := find(text, policy)
	if err != nil {
		return "", err
	}
	after, err := d.set(d.policies().Content[i], name, value)
	if err != nil {
		return "", err
	}
	return changed(text, after, func(file map[string]any) map[string]any {
		list, _ := file["policies"].([]any)
		if one, ok := list[i].(map[string]any); ok && value == nil {
			delete(one, name)
		} else if ok {
			one[name] = value
		}
		return file
	})
}

// set returns the text with a field of a map set to value; nil removes it.
func (d *document) set(p *yaml.Node, name string, value any) (string, error) {
	if p.Kind != yaml.MappingNode || p.Anchor != "" {
		return "", errForm
	}
	key, old := field(p, name)
	switch {
	case key == nil && value == nil:
		return d.text, nil
	case key == nil:
		return d.addField(p, name, value)
	case value == nil:
		return d.removeField(p, key, old)
	}
	return d.setValue(old, value, p.Style&yaml.FlowStyle != 0)
}

// find reads text and returns the index of a policy.
func find(text, policy string) (*document, int, error) {
	d, err := parse(text)
	if err != nil {
		return nil, 0, err
	}
	i := d.policy(policy)
	if i < 0 {
		return nil, 0, problem.Invalid("policy", policy, "the name of a policy in the text")
	}
	return d, i, nil
}

// setValue replaces a value. Elements of a list over several lines are replaced one by
// one, so that their comments stay.
func (d *document) setValue(old *yaml.Node, value any, inFlow bool) (string, error) {
	list, isList := value.([]any)
	block := old.Kind == yaml.SequenceNode && old.Style&yaml.FlowStyle == 0
	if block && isList && len(list) > 0 {
		return d.setElements(old, list)
	}
	text, err := render(value, inFlow || old.Style&yaml.FlowStyle != 0)
	if err != nil {
		return "", err
	}
	s, err := d.span(old)
	if err != nil {
		return "", err
	}
	if blockMap := old.Kind == yaml.MappingNode && old.Style&yaml.FlowStyle == 0; block || blockMap {
		// The value begins on a line of its own: it moves behind the colon.
		colon := strings.LastIndexByte(d.text[:s.from], ':')
		if strings.Trim(d.text[colon+1:s.from], " \r\n-") != "" {
			return "", errForm // a comment
		}
		s.from, text = colon+1, " "+text
	}
	return d.replace(s, text), nil
}

// setElements replaces the elements of a list in block style.
func (d *document) setElements(old *yaml.Node, list []any) (string, error) {
	type edit struct {
		span
		text string
	}
	var edits []edit
	for i, e := range old.Content {
		s, err := d.span(e)
		switch {
		case err != nil:
			return "", err
		case i >= len(list):
			s = span{d.lineStart(s.from), d.lineEnd(s.to)}
			edits = append(edits, edit{s, ""})
			continue
		}
		text, err := render(list[i], false)
		if err != nil {
			return "", err
		}
		if d.text[s.from:s.to] != text && !same(e, list[i]) {
			edits = append(edits, edit{s, text})
		}
	}
	if n := len(old.Content); len(list) > n {
		last, err := d.span(old.Content[n-1])
		if err != nil {
			return "", err
		}
		first := d.offset(old.Content[n-1])
		prefix := d.text[d.lineStart(first):first]
		if dash := strings.LastIndexByte(prefix, '-'); dash >= 0 {
			prefix = strings.Repeat(" ", dash) + prefix[dash:]
		}
		var b strings.Builder
		for _, v := range list[n:] {
			text, err := render(v, false)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(&b, "%s%s\n", prefix, text)
		}
		edits = append(edits, edit{d.newLine(last.to), b.String()})
		if at := edits[len(edits)-1].from; at > 0 && d.text[at-1] != '\n' {
			edits[len(edits)-1].text = "\n" + strings.TrimSuffix(b.String(), "\n")
		}
	}
	text := d.text
	for _, e := range slices.Backward(edits) {
		text = text[:e.from] + e.text + text[e.to:]
	}
	return text, nil
}

// same reports whether a node has a value.
func same(n *yaml.Node, value any) bool {
	var v any
	if n.Decode(&v) != nil {
		return false
	}
	a, err := normal(v)
	b, err2 := normal(value)
	return err == nil && err2 == nil && fmt.Sprint(a) == fmt.Sprint(b)
}

// newLine returns the empty span at the beginning of the line after at.
func (d *document) newLine(at int) span {
	end := d.lineEnd(at)
	return span{end, end}
}

// addField adds a field at the end of a map.
func (d *document) addField(p *yaml.Node, name string, value any) (string, error) {
	if len(p.Content) == 0 {
		return "", errForm
	}
	last, err := d.span(p.Content[len(p.Content)-1])
	if err != nil {
		return "", err
	}
	inFlow := p.Style&yaml.FlowStyle != 0
	text, err := render(value, inFlow)
	if err != nil {
		return "", err
	}
	if inFlow {
		return d.replace(span{last.to, last.to}, ", "+name+": "+text), nil
	}
	at := d.newLine(last.to)
	line := strings.Repeat(" ", p.Content[0].Column-1) + name + ": " + text + "\n"
	if at.from > 0 && d.text[at.from-1] != '\n' {
		line = "\n" + strings.TrimSuffix(line, "\n")
	}
	return d.replace(at, line), nil
}

// removeField removes a field with its line, or its part of a map in flow style.
func (d *document) removeField(p, key, value *yaml.Node) (string, error) {
	i := slices.Index(p.Content, key)
	s, err := d.span(value)
	if err != nil {
		return "", err
	}
	s.from = d.offset(key)
	next := i+2 < len(p.Content)
	switch {
	case next && (i == 0 || p.Style&yaml.FlowStyle != 0): // the next field takes its place
		n := p.Content[i+2]
		s.to = d.offset(n)
		if strings.Contains(d.text[s.from:s.to], "#") {
			return "", errForm
		}
	case i == 0:
		return "", errForm
	case p.Style&yaml.FlowStyle != 0:
		if s.from, err = d.end(p.Content[i-1]); err != nil {
			return "", err
		}
	default:
		s = span{d.lineStart(s.from), d.lineEnd(s.to)}
	}
	return d.replace(s, ""), nil
}

// order is the order of the fields of a new policy; others follow by name.
var order = []string{"name", "mode", "percent", "match", "key", "limits"}

// addPolicy returns text with a policy added at the end of the list. Its fields are JSON
// values.
func addPolicy(text, name string, fields map[string]any) (string, error) {
	d, err := parse(text)
	if err != nil {
		return "", err
	}
	if d.policy(name) >= 0 {
		return "", problem.Invalid("policy", name, "a name that no policy has")
	}
	fields = maps.Clone(fields)
	if fields == nil {
		fields = map[string]any{}
	}
	fields["name"] = name
	lines, err := fieldLines(fields)
	if err != nil {
		return "", err
	}
	key, list := field(d.root, "policies")
	var after string
	switch {
	case d.root != nil && d.root.Kind != yaml.MappingNode || d.root != nil && d.root.Style&yaml.FlowStyle != 0:
		return "", errForm
	case key == nil || len(list.Content) == 0 && list.Style&yaml.FlowStyle == 0:
		if key != nil {
			return "", errForm
		}
		after = withBreak(text) + "policies:\n" + item("  ", lines)
	case len(list.Content) == 0: // policies: []
		s, err := d.span(list)
		if err != nil {
			return "", err
		}
		after = d.replace(s, "\n"+strings.TrimSuffix(item("  ", lines), "\n"))
	case list.Style&yaml.FlowStyle != 0:
		one, err := render(fields, true)
		if err != nil {
			return "", err
		}
		end, err := d.end(list.Content[len(list.Content)-1])
		if err != nil {
			return "", err
		}
		after = d.replace(span{end, end}, ", "+one)
	default:
		last, err := d.span(list.Content[len(list.Content)-1])
		if err != nil {
			return "", err
		}
		at := d.newLine(last.to).from
		after = withBreak(d.text[:at]) + item(strings.Repeat(" ", list.Column-1), lines) + d.text[at:]
	}
	return changed(text, after, func(file map[string]any) map[string]any {
		all, _ := file["policies"].([]any)
		file["policies"] = append(all, fields)
		return file
	})
}

func withBreak(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// fieldLines returns one line for each field.
func fieldLines(fields map[string]any) (lines []string, err error) {
	names := slices.SortedFunc(maps.Keys(fields), func(a, b string) int {
		i, j := slices.Index(order, a), slices.Index(order, b)
		switch {
		case i >= 0 && j >= 0:
			return i - j
		case i >= 0:
			return -1
		case j >= 0:
			return 1
		}
		return strings.Compare(a, b)
	})
	for _, name := range names {
		text, err := render(fields[name], false)
		if err != nil {
			return nil, err
		}
		lines = append(lines, name+": "+text)
	}
	return lines, nil
}

// item returns an element of a list in block style.
func item(indent string, lines []string) string {
	var b strings.Builder
	for i, line := range lines {
		dash := "  "
		if i == 0 {
			dash = "- "
		}
		b.WriteString(indent + dash + line + "\n")
	}
	return b.String()
}

// deletePolicy returns text without a policy and the comment directly above it.
func deletePolicy(text, policy string) (string, error) {
	d, i, err := find(text, policy)
	if err != nil {
		return "", err
	}
	list := d.policies()
	s, err := d.span(list.Content[i])
	if err != nil {
		return "", err
	}
	switch inFlow := list.Style&yaml.FlowStyle != 0; {
	case len(list.Content) == 1 && inFlow:
	case len(list.Content) == 1:
		key, _ := field(d.root, "policies")
		all, err := d.span(list)
		if err != nil {
			return "", err
		}
		colon := d.offset(key) + len("policies")
		if d.text[colon] != ':' || strings.Contains(d.text[colon:all.from], "#") {
			return "", errForm
		}
		s = span{colon + 1, all.to}
		return changed(text, d.replace(s, " []"), without(i))
	case inFlow && i+1 < len(list.Content):
		n := list.Content[i+1]
		s.to = d.offset(n)
	case inFlow:
		if s.from, err = d.end(list.Content[i-1]); err != nil {
			return "", err
		}
	default:
		s = span{d.lineStart(s.from), d.lineEnd(s.to)}
		if dash := strings.TrimSpace(d.text[s.from:d.lineEnd(s.from)]); !strings.HasPrefix(dash, "-") {
			return "", errForm // the dash is on a line of its own
		}
		for s.from > 0 {
			above := d.lineStart(s.from - 1)
			if !strings.HasPrefix(strings.TrimSpace(d.text[above:s.from]), "#") {
				break
			}
			s.from = above
		}
	}
	return changed(text, d.replace(s, ""), without(i))
}

// without removes a policy from a file.
func without(i int) func(map[string]any) map[string]any {
	return func(file map[string]any) map[string]any {
		all, _ := file["policies"].([]any)
		file["policies"] = slices.Delete(all, i, i+1)
		return file
	}
}
