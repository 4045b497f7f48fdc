package metrics_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

var (
	selectors = regexp.MustCompile(`\b((?:weir|process|go)_[a-z_]+)(?:\{([^}]*)\})?`)
	matchers  = regexp.MustCompile(`([a-z_]+)(?:=~|!=|!~|=)"`)
	grouped   = regexp.MustCompile(`\bby \(([^)]*)\)`)
	fromScope = []string{"job", "instance", "le"} // of Prometheus
)

// testDashboard checks the dashboard of Grafana. Its expressions have metrics and labels that
// there are, and select job and instance. Its panels have a title, a unit and a description.
// The data source is a variable, and nothing has a number of an installation.
func testDashboard(t *testing.T, families map[string]*dto.MetricFamily) {
	const file = "../../../../deploy/grafana/weir.json"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	type source struct{ Type, UID string }
	type grid struct{ H, W, X, Y int }
	var dashboard struct {
		ID         *int
		Templating struct {
			List []struct {
				Name, Type, Query string
				Datasource        *source
			}
		}
		Annotations struct {
			List []struct {
				Expr       string
				Datasource source
			}
		}
		Panels []struct {
			ID                       *int
			Type, Title, Description string
			GridPos                  grid
			Datasource               *source
			FieldConfig              struct{ Defaults struct{ Unit string } }
			Targets                  []struct{ RefID, Expr, LegendFormat string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	right := source{"prometheus", "${datasource}"}
	var used []string
	expression := func(where, text string) {
		t.Helper()
		names := selectors.FindAllStringSubmatch(text, -1)
		if len(names) == 0 || strings.Count(text, "(") != strings.Count(text, ")") || strings.Count(text, "{") != strings.Count(text, "}") {
			t.Errorf("%s: %s: want an expression of a metric", where, text)
		}
		known := slices.Clone(fromScope)
		for _, n := range names {
			family := families[strings.TrimSuffix(n[1], "_bucket")]
			if family == nil {
				t.Errorf("%s: there is no metric %s", where, n[1])
				continue
			}
			used = append(used, family.GetName())
			own := slices.Clone(fromScope)
			for _, l := range family.GetMetric()[0].GetLabel() {
				own = append(own, l.GetName())
			}
			known = append(known, own...)
			for _, m := range matchers.FindAllStringSubmatch(n[2], -1) {
				if !slices.Contains(own, m[1]) {
					t.Errorf("%s: %s has no label %s", where, n[1], m[1])
				}
			}
			if !strings.Contains(n[2], `job=~"$job"`) && where != "variable" {
				t.Errorf("%s: %s does not select the job", where, n[1])
			}
		}
		for _, g := range grouped.FindAllStringSubmatch(text, -1) {
			for label := range strings.SplitSeq(g[1], ",") {
				if !slices.Contains(known, strings.TrimSpace(label)) {
					t.Errorf("%s: no metric of %s has the label %s", where, text, label)
				}
			}
		}
	}
	titles := map[string]bool{}
	var placed []grid
	for _, p := range dashboard.Panels {
		for _, g := range placed {
			if p.GridPos.X < g.X+g.W && g.X < p.GridPos.X+p.GridPos.W && p.GridPos.Y < g.Y+g.H && g.Y < p.GridPos.Y+p.GridPos.H {
				t.Errorf("panel %q overlaps another", p.Title)
			}
		}
		placed = append(placed, p.GridPos)
		if p.Title == "" || titles[p.Title] || p.ID != nil || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q: want a title of its own, no id, and at most 24 columns", p.Title)
		}
		titles[p.Title] = true
		if p.Type == "row" {
			continue
		}
		if p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource == nil || *p.Datasource != right || len(p.Targets) == 0 {
			t.Errorf("panel %q: want a description, a unit, an expression and the data source %v", p.Title, right)
		}
		for _, e := range p.Targets {
			if expression(p.Title, e.Expr); e.RefID == "" || e.LegendFormat == "" {
				t.Errorf("panel %q: %s has no refId or legend", p.Title, e.Expr)
			}
		}
	}
	for _, v := range dashboard.Templating.List {
		if v.Type == "query" {
			expression("variable", v.Query)
			if v.Datasource == nil || *v.Datasource != right {
				t.Errorf("variable %s: want the data source %v", v.Name, right)
			}
		}
	}
	for _, a := range dashboard.Annotations.List {
		if expression("annotation", a.Expr); a.Datasource != right {
			t.Errorf("annotation: data source %v, want %v", a.Datasource, right)
		}
	}
	slices.Sort(used)
	if used = slices.Compact(used); dashboard.ID != nil || len(used) < 30 {
		t.Errorf("%s: want no id, and 30 metrics or more, got %d", file, len(used))
	}
}
