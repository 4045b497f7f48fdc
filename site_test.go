package weir_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A siteGroup is a task in the sidebar of the site. Its pages are files without .md and .zh-CN.md.
type siteGroup struct {
	English string   `json:"en"`
	Chinese string   `json:"zh"`
	Pages   []string `json:"pages"`
}

// TestSite checks that the sidebar of the site lists each page once, in both languages.
func TestSite(t *testing.T) {
	text, err := os.ReadFile("site/sidebar.json")
	if err != nil {
		t.Fatal(err)
	}
	var groups []siteGroup
	if err := json.Unmarshal(text, &groups); err != nil {
		t.Fatal(err)
	}
	for _, problem := range siteProblems(groups, docsPages(t), exists) {
		t.Error("site/sidebar.json: " + problem)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// siteProblems compares the groups of the sidebar with the files of docs.
func siteProblems(groups []siteGroup, files []string, exists func(file string) bool) []string {
	var problems, listed []string
	for _, g := range groups {
		if g.English == "" || g.Chinese == "" || len(g.Pages) == 0 {
			problems = append(problems, fmt.Sprintf("group %q: got %q and %d pages, want en, zh and pages", g.English, g.Chinese, len(g.Pages)))
		}
		for _, page := range g.Pages {
			if slices.Contains(listed, page) {
				problems = append(problems, page+" is listed twice")
			}
			listed = append(listed, page)
			for _, file := range []string{page + ".md", page + ".zh-CN.md"} {
				if !exists(file) {
					problems = append(problems, "no file "+file)
				}
			}
		}
	}
	for _, file := range files {
		page := strings.TrimSuffix(strings.TrimSuffix(filepath.ToSlash(file), ".md"), ".zh-CN")
		if !slices.Contains(listed, page) {
			problems = append(problems, file+" is missing")
		}
	}
	return problems
}

// TestSiteBreach checks that siteProblems reports each kind of problem.
func TestSiteBreach(t *testing.T) {
	files := []string{"docs/a.md", "docs/a.zh-CN.md"}
	exists := func(file string) bool { return slices.Contains(files, file) }
	for _, test := range []struct {
		group siteGroup
		want  string
	}{
		{siteGroup{"A", "甲", []string{"docs/a"}}, "[]"},
		{siteGroup{"A", "甲", []string{"docs/a", "docs/a"}}, "[docs/a is listed twice]"},
		{siteGroup{"A", "甲", []string{"docs/a", "docs/b"}}, "[no file docs/b.md no file docs/b.zh-CN.md]"},
		{siteGroup{"A", "", []string{"docs/a"}}, `[group "A": got "" and 1 pages, want en, zh and pages]`},
		{siteGroup{"A", "甲", nil}, `[group "A": got "甲" and 0 pages, want en, zh and pages docs/a.md is missing docs/a.zh-CN.md is missing]`},
	} {
		if got := fmt.Sprint(siteProblems([]siteGroup{test.group}, files, exists)); got != test.want {
			t.Errorf("siteProblems(%v) = %s, want %s", test.group, got, test.want)
		}
	}
}
