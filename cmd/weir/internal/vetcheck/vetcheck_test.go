package vetcheck_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis"

	"github.com/floodweir/weir/cmd/weir/internal/vetcheck"
)

func ExampleAsked() {
	fmt.Println(vetcheck.Asked([]string{"-V=full"}), vetcheck.Asked([]string{"-json", "/tmp/b001/vet.cfg"}), vetcheck.Asked([]string{"check", "weir.cfg"}))
	// Output: true true false
}

func TestAsked(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "-flags": true, "-V=full": true, "vet.cfg": true, "-c=1 -json vet.cfg": true,
		"-tags special vet.cfg": true, "-c 1 vet.cfg": true,
		"go vet": false, "check vet.cfg": false, "--help": false, "-vet.cfg": false, "-V": false,
	} {
		if got := vetcheck.Asked(strings.Fields(line)); got != want {
			t.Errorf("Asked(%q) = %v, want %v", line, got, want)
		}
	}
}

func TestAnalyzer(t *testing.T) {
	if err := analysis.Validate([]*analysis.Analyzer{vetcheck.Analyzer()}); err != nil {
		t.Error(err)
	}
}

// TestUnits checks that a unit that cannot be read or compiled is an error, and that
// one without directives is not compiled.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unit := func(source string) string {
		return file("vet.cfg", fmt.Sprintf(`{"ID": "p", "ImportPath": "p", "GoFiles": [%q], "VetxOutput": %q}`, source, filepath.Join(dir, "vetx")))
	}
	file("plain.go", "package p\nvar x int = nothing")
	file("broken.go", "package p\nvar x int = nothing //weir:")
	file("syntax.go", "package p //weir:\nfunc")
	file("on.go", "package p\n\n//weir:limit\nvar x int\n")
	file("old.go", "package p\n\n//weir:limit limit=10 interval=10\nfunc F() error { return nil }\n")
	check(t, filepath.Join(dir, "none.cfg"), "", 1, "", "no such file")
	check(t, file("bad.cfg", "{"), "", 1, "", "unexpected end of JSON input")
	check(t, unit(filepath.Join(dir, "plain.go")), "", 0, "", "")
	check(t, unit(filepath.Join(dir, "broken.go")), "", 1, "", "broken.go:2:13: undefined: nothing")
	check(t, unit(filepath.Join(dir, "syntax.go")), "", 1, "", "syntax.go:2:5: expected")
	check(t, unit(filepath.Join(dir, "gone.go")), "", 1, "", "gone.go: no such file")
	check(t, unit(filepath.Join(dir, "on.go")), "", 1, "", "on.go:3:1: //weir:limit: want it in the doc comment")
	check(t, unit(filepath.Join(dir, "old.go")), "", 1, "", "old.go:3:23: note: interval is the old name of this field: use period=10")
	check(t, unit(filepath.Join(dir, "on.go")), "-json", 0, `"message": "//weir:limit: want it`, "")
}

func check(t *testing.T, cfg, args string, code int, out, said string) {
	t.Helper()
	var stdout, stderr strings.Builder
	got := vetcheck.Main(append(strings.Fields(args), cfg), &stdout, &stderr)
	if got != code || !strings.Contains(stdout.String(), out) || !strings.Contains(stderr.String(), said) || said == "" && stderr.Len() > 0 {
		t.Errorf("%s %s: %d, %q, %q, want %d, %q, %q", args, cfg, got, stdout.String(), stderr.String(), code, out, said)
	}
}
