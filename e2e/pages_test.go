package e2e_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/programtest"
)

// TestLinks checks that the file and the heading of every relative link exist.
func TestLinks(t *testing.T) {
	var pages []string
	for _, g := range []string{"../*.md", "../docs/*.md", "../docs/*/*.md", "../flashsale/*.md", "../flashsale/*/*.md", "../edge/*/*.md", "../redisstore/*/*.md", "../examples/*/*.md"} {
		found, err := filepath.Glob(g)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	link := regexp.MustCompile(`\]\(([^)]+)\)`)
	n := 0
	for _, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, heading, _ := strings.Cut(m[1], "#")
			if strings.Contains(target, "://") {
				continue
			}
			n++
			file := p
			if target != "" {
				file = filepath.Join(filepath.Dir(p), target)
			}
			if _, err := os.Stat(file); err != nil {
				t.Errorf("%s: %v", p, err)
			} else if heading != "" && !slices.Contains(anchors(t, file), heading) {
				t.Errorf("%s: %s has no heading #%s", p, file, heading)
			}
		}
	}
	if n < 10 {
		t.Errorf("checked %d links in %v", n, pages)
	}
}

// anchors returns the names by which links refer to the headings of a page.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	prose := regexp.MustCompile("(?ms)^```.*?^```").ReplaceAllString(string(text), "")
	var names []string
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(prose, -1) {
		name := regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// TestFlags compares the flags of weir serve with those on the configuration page.
func TestFlags(t *testing.T) {
	help, err := exec.Command(programtest.Weir(t), "serve", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("weir serve --help: %v\n%s", err, help)
	}
	page, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	_, listed, _ := strings.Cut(string(help), "\nFlags:")
	have := flag.FindAllString(listed, -1)
	for _, f := range have {
		if f != "--help" && !strings.Contains(string(page), "`"+f+"`") {
			t.Errorf("the page has no %s", f)
		}
	}
	for _, m := range regexp.MustCompile("`(--[a-z-]+)`").FindAllStringSubmatch(string(page), -1) {
		if !slices.Contains(have, m[1]) {
			t.Errorf("the page has %s, weir serve does not", m[1])
		}
	}
	if len(have) < 5 {
		t.Errorf("flags of weir serve --help = %v", have)
	}
}

var direct = regexp.MustCompile(`(?m)^(?:require )?\s*(\S+\.\S+/\S+) (v\S+)(?: // (.*))?$`)

// TestDependencies compares the direct requirements of every module with the table of their
// decision record.
func TestDependencies(t *testing.T) {
	table, err := os.ReadFile("../docs/decisions/0010-dependencies.csv")
	if err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]bool{} // true once a module requires it
	for _, line := range lines[1:] {
		rows[line[0]+" "+line[1]] = false
	}
	mods, err := filepath.Glob("../*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	deeper, err := filepath.Glob("../*/*/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, mod := range append(mods, deeper...) {
		text, err := os.ReadFile(mod)
		if err != nil {
			t.Fatal(err)
		}
		tool := regexp.MustCompile(`(?m)^tool (\S+)`).FindSubmatch(text)
		for _, m := range direct.FindAllStringSubmatch(string(text), -1) {
			isTool := tool != nil && strings.HasPrefix(string(tool[1]), m[1]+"/")
			if strings.HasPrefix(m[1], "github.com/floodweir/") || m[3] == "indirect" && !isTool {
				continue
			}
			row := fmt.Sprintf("%s %s", m[1], m[2])
			if _, ok := rows[row]; !ok {
				t.Errorf("%s requires %s, which the record does not have", mod, row)
			}
			rows[row] = true
		}
	}
	for row, required := range rows {
		if !required {
			t.Errorf("no module requires %s, which the record has", row)
		}
	}
}
