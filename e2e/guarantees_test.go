package e2e_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile("`([a-z0-9/]*)\\.((?:Test|Fuzz)[A-Za-z0-9_]*)`")
	boldText  = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// TestGuarantees checks that the tests which the pages name exist, and that each section and
// each bold statement of the guarantees has a row that names tests.
func TestGuarantees(t *testing.T) {
	for _, page := range []string{"guarantees", "reliability"} {
		text, err := os.ReadFile("../docs/" + page + ".md")
		if err != nil {
			t.Fatal(err)
		}
		named := namedTest.FindAllStringSubmatch(string(text), -1)
		if len(named) < 30 {
			t.Errorf("%s.md names %d tests, want at least 30", page, len(named))
		}
		for _, m := range named {
			if !hasTest(t, filepath.Join("..", m[1]), m[2]) {
				t.Errorf("%s.md: there is no test %s in %q", page, m[2], m[1])
			}
		}
	}

	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	above, table, ok := strings.Cut(string(text), "\n## Tests\n")
	if !ok {
		t.Fatal("guarantees.md has no section Tests")
	}
	above, _, _ = strings.Cut(above, "\n## Not guaranteed\n")
	for _, section := range strings.Split(above, "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		if !strings.Contains(table, "| "+name+" |") {
			t.Errorf("guarantees.md: section %q has no row of tests", name)
		}
		for _, m := range boldText.FindAllStringSubmatch(body, -1) {
			statement := strings.TrimSuffix(m[1], ".")
			if !strings.Contains(table, statement) {
				t.Errorf("guarantees.md: %q has no row of tests", statement)
			}
		}
	}
}

// hasTest reports whether a directory has a test or fuzzer with a name.
func hasTest(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
