//go:build !race

package weir_test

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

// sound is a small tree without a breach.
var sound = map[string]string{
	"go.mod":                 "module github.com/floodweir/weir\n\ngo 1.25.0\n",
	"doc.go":                 "package weir\nimport _ \"github.com/floodweir/weir/internal/algo\"\nvar ErrX = 1\nfunc f() int { x := ErrX; x++; return x }",
	"internal/algo/a.go":     "package algo\nimport (\n\"fmt\"\n\"time\"\n)\nvar _ = fmt.Sprint(time.Second)",
	"memstore/m.go":          "package memstore\nimport (\n\"sync\"\n\"github.com/floodweir/weir\"\n)\nvar pool = sync.Pool{}\nvar _ weir.Limit",
	"policy/p.go":            "package policy\nimport _ \"github.com/floodweir/weir\"",
	"memstore/m_test.go":     "package memstore\nimport (\n\"testing\"\n\"testing/synctest\"\n\"time\"\n)\nfunc TestX(t *testing.T) { synctest.Test(t, func(t *testing.T) { time.Sleep(1) }) }",
	"memstore/testdata/x.go": "not Go",
	"weirfile/go.mod":        "module github.com/floodweir/weir/weirfile\nrequire go.yaml.in/yaml/v4 v4.0.0\n",
	"weirfile/go.sum":        "",
	"weirfile/f.go":          "package weirfile\nimport (\n_ \"github.com/floodweir/weir/policy\"\n_ \"github.com/floodweir/weir/weirfile/strict\"\n)",
	"weirfile/strict/s.go":   "package strict\nimport (\n_ \"github.com/floodweir/weir\"\n_ \"go.yaml.in/yaml/v4\"\n)",
	"weirfile/f_test.go":     "package weirfile\nimport _ \"github.com/rogpeppe/go-internal/testscript\"",
}

// TestLayersBreach breaks the sound tree in each way that the policy forbids.
func TestLayersBreach(t *testing.T) {
	for name, c := range map[string]struct {
		file, text, want string
	}{
		"nothing":               {},
		"up":                    {"internal/algo/b.go", "package algo\nimport _ \"github.com/floodweir/weir\"", "internal/algo/b.go:2:8: internal/algo in layer 0 imports weir in layer 1"},
		"sideways":              {"memstore/b.go", "package memstore\nimport _ \"github.com/floodweir/weir/policy\"", "memstore in layer 2 imports policy in layer 2"},
		"no layer":              {"util/u.go", "package util", "package github.com/floodweir/weir/util has no row in layout"},
		"imports no layer":      {"policy/b.go", "package policy\nimport _ \"github.com/floodweir/weir/util\"", "weir/util, which has no row in layout"},
		"separate program":      {"flashsale/sale/b.go", "package sale\nimport _ \"github.com/floodweir/weir/internal/waitqueue\"", "flashsale/sale imports an internal package of the library: github.com/floodweir/weir/internal/waitqueue"},
		"product on verify":     {"flashsale/shop/b.go", "package shop\nimport _ \"github.com/floodweir/weir/flashsale/verify/ledgertest\"", "product package flashsale/shop imports verification package flashsale/verify/ledgertest"},
		"clock by import":       {"internal/algo/b.go", "package algo\nimport _ \"context\"", "internal/algo may not import context"},
		"clock by call":         {"internal/algo/b.go", "package algo\nimport \"time\"\nvar x = time.Now()", "internal/algo/b.go:3:9: arithmetic has no clock: time.Now"},
		"clock by another name": {"internal/algo/b.go", "package algo\nimport tm \"time\"\nfunc f() { tm.Sleep(1) }", "arithmetic has no clock: time.Sleep"},
		"template":              {"cmd/weir/internal/live/b.go", "package live\nimport _ \"text/template\"", "cmd/weir/internal/live may not import text/template"},
		"unsafe":                {"policy/b.go", "package policy\nimport _ \"unsafe\"", "policy may not import unsafe"},
		"third party below":     {"policy/b_test.go", "package policy\nimport _ \"example.com/x\"", "the library and its tests are standard library only: imports example.com/x"},
		"own module below":      {"policy/b_test.go", "package policy\nimport _ \"github.com/floodweir/weir/weirfile\"", "the library and its tests are standard library only"},
		"third party elsewhere": {"weirfile/strict/b.go", "package strict\nimport _ \"go.yaml.in/yaml/v44\"", "weirfile/strict may not import go.yaml.in/yaml/v44"},
		"require":               {"go.mod", "module github.com/floodweir/weir\nrequire example.com/x v1.0.0\n", "standard library only: require example.com/x"},
		"go.sum":                {"go.sum", "", "it has no go.sum"},
		"misplaced module":      {"weirfile/go.mod", "module github.com/floodweir/file\n", "want github.com/floodweir/weir/weirfile"},
		"sleep":                 {"policy/b_test.go", "package policy\nimport \"time\"\nfunc f() { time.Sleep(1) }", "time.Sleep in a test"},
		"skip":                  {"policy/b_test.go", "package policy\nfunc f(t *testing.T) { t.Skip() }", "a skipped test proves nothing"},
		"init":                  {"policy/b.go", "package policy\nfunc init() {}", "func init"},
		"init in a test":        {"policy/b_test.go", "package policy\nfunc init() {}", "func init"},
		"state assigned":        {"policy/b.go", "package policy\nvar n = map[string]int{}\nfunc f() { n[\"a\"] = 1 }", "policy/b.go:3:12: package variable n changes"},
		"state counted":         {"doc.go", "package weir\nvar n int\nfunc f() { n++ }", "package variable n changes"},
		"state by address":      {"policy/b.go", "package policy\nvar n int\nfunc f() *int { return &n }", "package variable n changes"},
		"state deleted":         {"policy/b.go", "package policy\nvar n map[int]int\nfunc f() { delete(n, 1) }", "package variable n changes"},
		"state locked":          {"policy/b.go", "package policy\nimport \"sync\"\nvar mu sync.Mutex", "package variable with a Mutex"},
		"state atomic":          {"policy/b.go", "package policy\nimport \"sync/atomic\"\nvar n atomic.Int64", "package variable with a Int64"},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(sound)
			if c.file != "" {
				files[c.file] = c.text
			}
			tree := fstest.MapFS{}
			for f, text := range files {
				tree[f] = &fstest.MapFile{Data: []byte(text)}
			}
			broken, _, err := inspect(tree)
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case c.want == "" && len(broken) != 0, c.want != "" && (len(broken) != 1 || !strings.Contains(broken[0], c.want)):
				t.Errorf("inspect = %q, want one breach with %q", broken, c.want)
			}
		})
	}
}
