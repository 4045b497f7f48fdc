package edit

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/published"
)

// Inline returns the text of the policy file at path with the overrides of the files that it
// includes, because only its text is published. An error says what cannot be inlined.
func Inline(path, text string) (string, error) {
	names := weirfile.Includes(path)
	if len(names) == 0 {
		return text, nil
	}
	d, err := parse(text)
	if err != nil {
		return "", err
	}
	if list := d.policies(); list != nil {
		for i := len(list.Content) - 1; i >= 0; i-- { // from the end, so that earlier places stay
			p := list.Content[i]
			if _, budget := field(p, "budget"); budget != nil && strings.Contains(nodeText(budget), "file:") {
				return "", fmt.Errorf("%s includes %s: want no file in a budget, only its text is published", path, names[0])
			}
			if err := d.inline(path, p); err != nil {
				return "", err
			}
		}
	}
	if len(d.text) > published.MaxSize {
		return "", fmt.Errorf("%s has %d bytes with the overrides of %s: want at most %d, only its text is published", path, len(d.text), names[0], published.MaxSize)
	}
	return d.text, nil
}

func nodeText(n *yaml.Node) string {
	text, err := yaml.Marshal(n)
	if err != nil {
		return ""
	}
	return string(text)
}

// inline replaces the file of the overrides of a policy by its list.
func (d *document) inline(path string, p *yaml.Node) error {
	key, value := field(p, "overrides")
	_, file := field(value, "file")
	if file == nil {
		return nil
	}
	name := file.Value
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(path), name)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("%s: overrides: %w", path, err)
	}
	s, err := d.span(value)
	if err != nil || p.Style&yaml.FlowStyle != 0 {
		return fmt.Errorf("%s includes %s: want the policy in block style, a field on each line, so that its overrides can be put into the text that is published", path, name)
	}
	indent := strings.Repeat(" ", key.Column+1)
	list, err := elements(name, bytes.TrimPrefix(data, []byte("\ufeff")), indent)
	if err != nil {
		return err
	}
	s.from = d.offset(key) + len(key.Value) // and the colon after it
	s.from += strings.IndexByte(d.text[s.from:], ':') + 1
	d.text = d.replace(s, "\n"+strings.TrimSuffix(list, "\n"))
	return nil
}

// elements returns the overrides of a file, CSV or YAML, as lines of a list.
func elements(name string, data []byte, indent string) (string, error) {
	var b strings.Builder
	if ext := strings.ToLower(filepath.Ext(name)); ext == ".yaml" || ext == ".yml" {
		for line := range strings.Lines(string(data)) {
			if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, "---") {
				b.WriteString(indent + strings.TrimSuffix(line, "\n") + "\n")
			}
		}
		return b.String(), nil
	}
	rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
	if err != nil || len(rows) == 0 {
		return "", fmt.Errorf("%s: want CSV with a line of columns: %v", name, err)
	}
	for _, row := range rows[1:] {
		last := len(row) - 1
		key, err := json.Marshal(row[:last]) // JSON is YAML
		if err != nil {
			return "", err
		}
		limits := strings.TrimSpace(row[last])
		if limits != "0" {
			var all []string
			for one := range strings.SplitSeq(limits, ";") {
				all = append(all, strings.TrimSpace(one))
			}
			list, err := json.Marshal(all)
			if err != nil {
				return "", err
			}
			if limits = string(list); len(all) == 1 {
				limits = strings.Trim(limits, "[]")
			}
		}
		fmt.Fprintf(&b, "%s- { key: %s, limits: %s }\n", indent, key, limits)
	}
	return b.String(), nil
}
