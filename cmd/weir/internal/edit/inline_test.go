package edit

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile"
)

// TestInline checks that the text with the overrides of other files has the same policies as the
// file, and that all other text stays.
func TestInline(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("table.csv", "\ufeffclient.ip,header:X-Plan,limits\n203.0.113.7,\"say \"\"a, b\"\"\",7/s\n203.0.113.8,*,7/s; 90/24h\n203.0.113.9,null,0\n198.51.100.0/24,true,unlimited\n")
	write("list.yaml", "---\n# partners\n- { key: k1, limits: 10/s } # the first\n\n- key: [k2]\n  limits:\n    - 11/s\n")
	const text = `# head
policies:
  - name: table
    key: [client.ip, header:X-Plan] # both
    overrides: { file: table.csv }  # of sales
    limits: 5/m
  # next
  - name: list
    key: header:X-Key
    limits: 5/m
    overrides:
      file: list.yaml
  - { name: plain, key: client.ip, limits: 5/m }
`
	path := write("weir.yaml", text)
	inlined, err := Inline(path, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"# head\npolicies:", "# both\n", "unlimited\" } # of sales\n    limits: 5/m\n  # next", "# partners", "# the first", "  - { name: plain,"} {
		if !strings.Contains(strings.Join(strings.Fields(inlined), " "), strings.Join(strings.Fields(want), " ")) {
			t.Errorf("no %q in\n%s", want, inlined)
		}
	}
	if strings.Contains(inlined, "file:") {
		t.Errorf("a file is left in\n%s", inlined)
	}
	a, err := weirfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := weirfile.Parse("inlined", []byte(inlined))
	if err != nil {
		t.Fatalf("%v in\n%s", err, inlined)
	}
	for i, p := range a.Policies.Policies() {
		got, want := b.Policies.Policies()[i].Config().Overrides, p.Config().Overrides
		if !reflect.DeepEqual(got, want) || p.Name() != "plain" && len(got) == 0 {
			t.Errorf("policy %s has the overrides\n%+v, want\n%+v", p.Name(), got, want)
		}
	}
	for name, tc := range map[string][2]string{
		"flow.yaml":    {"policies: [{ name: a, key: header:X-Key, limits: 1/s, overrides: { file: list.yaml } }]\n", "block style"},
		"missing.yaml": {"policies:\n  - name: a\n    key: header:X-Key\n    limits: 1/s\n    overrides: { file: none.csv }\n", "none.csv"},
		"broken.yaml":  {"policies:\n  - name: a\n    key: header:X-Key\n    limits: 1/s\n    overrides: { file: broken.csv }\n", "want CSV"},
		"budget.yaml":  {"policies:\n  - name: a\n    key: header:X-Key\n    budget: { limit: 1/24h, warn: { at: [80], url: 'http://127.0.0.1', secret_file: s } }\n", "only its text is published"},
		"large.yaml":   {"policies:\n  - name: a\n    key: header:X-Key\n    limits: 1/s\n    overrides: { file: large.csv }\n", "want at most"},
	} {
		write("broken.csv", "a,b\nc\n")
		write("large.csv", "key,limits\n"+strings.Repeat("a key of some length,1/s\n", 100_000))
		if got, err := Inline(write(name, tc[0]), tc[0]); err == nil || !strings.Contains(err.Error(), tc[1]) || got != "" {
			t.Errorf("%s: Inline = %q, %v, want an error with %s", name, got, err, tc[1])
		}
	}
}
