package orchestrion_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/floodweir/weir/contrib/orchestrion"
	"github.com/floodweir/weir/guard"
)

// templates are the texts of orchestrion.yml under "template: |-".
func templates(t *testing.T, yml string) (all []string) {
	t.Helper()
	lines := strings.Split(yml, "\n")
	for i, line := range lines {
		head, found := strings.CutSuffix(line, "template: |-")
		if !found {
			continue
		}
		var text strings.Builder
		for _, l := range lines[i+1:] {
			if l != "" && !strings.HasPrefix(l, head+"  ") {
				break
			}
			text.WriteString(strings.TrimPrefix(l, head+"  ") + "\n")
		}
		all = append(all, text.String())
	}
	return all
}

// TestAspects shows that the templates are such, and that the Go code in them names what is
// there. That orchestrion weaves it is not shown here, as it is no part of this module.
func TestAspects(t *testing.T) {
	yml, err := os.ReadFile("orchestrion.yml")
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]any{
		"context.Background": context.Background,
		"errors.Is":          errors.Is,
		"guard.ErrDenied":    guard.ErrDenied,
		"guard.Key":          guard.Key,
		"weir.MustGuard":     orchestrion.MustGuard,
		"weirEntry.Done":     (*guard.Entry).Done,
	}
	named := map[string]bool{}
	all := templates(t, string(yml))
	if len(all) != 4 {
		t.Fatalf("%d templates, want 4", len(all))
	}
	for _, text := range all {
		if _, err := template.New("").Parse(text); err != nil {
			t.Error(err)
		}
		for _, name := range regexp.MustCompile(`\b(?:weir|guard|errors|weirEntry|context)\.[A-Z]\w*`).FindAllString(text, -1) {
			if name != "context.Context" { // a type that is searched for
				named[name] = true
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(exists)); !slices.Equal(got, want) {
		t.Errorf("the templates name %v, want %v", got, want)
	}
	for _, path := range []string{"github.com/floodweir/weir/contrib/orchestrion", "github.com/floodweir/weir/guard"} {
		if !strings.Contains(string(yml), ": "+path+"\n") {
			t.Errorf("%s is not imported", path)
		}
	}
}
