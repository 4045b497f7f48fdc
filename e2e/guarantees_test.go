package e2e_test

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	namedTest = regexp.MustCompile("`([a-z0-9/]*\\.(?:Test|Fuzz)[A-Za-z0-9_]*)`")
	boldText  = regexp.MustCompile(`\*\*([^*]+)\*\*`)
)

// TestGuarantees checks that the tests which the pages name exist, and that each section and
// each bold statement of the guarantees has a row in guarantees.csv.
func TestGuarantees(t *testing.T) {
	reliability, err := os.ReadFile("../docs/reliability.md")
	if err != nil {
		t.Fatal(err)
	}
	var named []string
	for _, m := range namedTest.FindAllStringSubmatch(string(reliability), -1) {
		named = append(named, m[1])
	}
	if len(named) < 30 {
		t.Errorf("reliability.md names %d tests, want at least 30", len(named))
	}
	shown := shownGuarantees(t)
	for _, tests := range shown {
		named = append(named, strings.Fields(tests)...)
	}
	for _, name := range named {
		if dir, test, ok := strings.Cut(name, "."); !ok || !hasTest(t, filepath.Join("..", dir), test) {
			t.Errorf("there is no test %s", name)
		}
	}

	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	above, _, _ := strings.Cut(string(text), "\n## Not guaranteed\n")
	for _, section := range strings.Split(above, "\n## ")[1:] {
		name, body, _ := strings.Cut(section, "\n")
		if shown[name] == "" {
			t.Errorf("guarantees.md: section %q has no row in guarantees.csv", name)
		}
		for _, m := range boldText.FindAllStringSubmatch(body, -1) {
			statement := strings.ReplaceAll(strings.TrimSuffix(m[1], "."), "`", "")
			if shown[name+": "+statement] == "" {
				t.Errorf("guarantees.md: %q of section %q has no row in guarantees.csv", statement, name)
			}
		}
	}
}

// shownGuarantees returns the tests of guarantees.csv, separated by spaces, by section and by
// "section: guarantee".
func shownGuarantees(t *testing.T) map[string]string {
	t.Helper()
	f, err := os.Open("../docs/guarantees.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]string{}
	for _, row := range rows[1:] {
		if row[2] == "" {
			t.Errorf("guarantees.csv: %q names no test", row[1])
		}
		shown[row[0]], shown[row[0]+": "+row[1]] = row[2], row[2]
	}
	return shown
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
