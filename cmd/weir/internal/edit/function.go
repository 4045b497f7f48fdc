package edit

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// setFunction returns text with the limits of the rule for a function, which it adds if there is
// none. All other text stays as it is, except for lists in one line that get a rule.
func setFunction(text, name string, limits any) (string, error) {
	d, err := parse(text)
	if err != nil {
		return "", err
	}
	rule := map[string]any{"name": name, "limits": limits}
	_, functions := field(d.root, "functions")
	_, rules := field(functions, "rules")
	at := -1
	if rules != nil && rules.Kind == yaml.SequenceNode {
		at = slices.IndexFunc(rules.Content, func(r *yaml.Node) bool {
			_, n := field(r, "name")
			return n != nil && n.Value == name
		})
	}
	var after string
	switch {
	case at >= 0:
		after, err = d.set(rules.Content[at], "limits", limits)
	case rules != nil:
		var all []any
		if rules.Decode(&all) != nil {
			return "", errForm
		}
		after, err = d.setValue(rules, append(all, rule), functions.Style&yaml.FlowStyle != 0)
	case functions != nil:
		after, err = d.set(functions, "rules", []any{rule})
	case d.root != nil && (d.root.Kind != yaml.MappingNode || d.root.Style&yaml.FlowStyle != 0):
		return "", errForm
	default:
		var line string
		if line, err = render(rule, true); err == nil {
			after = strings.TrimRight(text, "\n") + "\nfunctions:\n  rules:\n    - " + line + "\n"
		}
	}
	if err != nil {
		return "", err
	}
	return changed(text, after, func(file map[string]any) map[string]any {
		functions, _ := file["functions"].(map[string]any)
		if functions == nil {
			functions = map[string]any{}
			file["functions"] = functions
		}
		rules, _ := functions["rules"].([]any)
		if at < 0 {
			functions["rules"] = append(rules, rule)
		} else if one, ok := rules[at].(map[string]any); ok {
			one["limits"] = limits
		}
		return file
	})
}
