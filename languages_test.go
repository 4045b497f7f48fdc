package weir_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestLanguages checks that each page has a Chinese one with the same outline, and that both
// link to each other below their titles.
func TestLanguages(t *testing.T) {
	for _, english := range append(docsPages(t), "README.md", "flashsale/README.md", "flashsale/API.md") {
		if strings.HasSuffix(english, ".zh-CN.md") {
			continue
		}
		chinese := strings.TrimSuffix(english, ".md") + ".zh-CN.md"
		en, zh := readPage(t, english), readPage(t, chinese)
		checkLine(t, english, en, "English · [简体中文]("+filepath.Base(chinese)+")")
		checkLine(t, chinese, zh, "[English]("+filepath.Base(english)+") · 简体中文")
		if english == "docs/benchmarks-peers.md" {
			continue // make bench-peers writes it, and the Chinese page explains it
		}
		if line := differs(outline(en), outline(zh)); line != "" {
			t.Errorf("%s differs from %s: %s", chinese, english, line)
		}
	}
}

// docsPages returns the pages of docs in both languages. Decisions are in English only.
func docsPages(t *testing.T) []string {
	t.Helper()
	var pages []string
	for _, g := range []string{"docs/*.md", "docs/coming-from/*.md"} {
		found, err := filepath.Glob(g)
		if err != nil || len(found) < 10 {
			t.Fatalf("%s: pages = %v, %v", g, found, err)
		}
		pages = append(pages, found...)
	}
	return pages
}

func readPage(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

// checkLine checks the first line below the title of a page.
func checkLine(t *testing.T, name string, page []string, link string) {
	t.Helper()
	if len(page) < 3 || page[2] != link {
		t.Errorf("%s: line 3 is not %q", name, link)
	}
}

var (
	headingMark = regexp.MustCompile(`^#+ `)
	codeSpan    = regexp.MustCompile("`[^`]+`")
)

// outline returns the parts of a page that no translation changes: lines of code blocks,
// levels of headings, images, and rows of tables with the code in their first cell.
func outline(page []string) []string {
	var parts []string
	inBlock := false
	for _, line := range page {
		fence := strings.HasPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence || inBlock:
			inBlock = inBlock != fence
			parts = append(parts, line)
		case headingMark.MatchString(line):
			parts = append(parts, headingMark.FindString(line))
		case strings.HasPrefix(line, "!["):
			parts = append(parts, "image")
		case strings.HasPrefix(line, "|"):
			cells := strings.Split(line, "|")
			parts = append(parts, "| "+strings.Join(codeSpan.FindAllString(cells[1], -1), ", "))
		}
	}
	return parts
}

// differs returns the first difference between two outlines, or "".
func differs(en, zh []string) string {
	for i := range max(len(en), len(zh)) {
		switch {
		case i >= len(en):
			return "more: " + zh[i]
		case i >= len(zh):
			return "missing: " + en[i]
		case en[i] != zh[i]:
			return "got " + zh[i] + ", want " + en[i]
		}
	}
	return ""
}

// TestLanguagesBreach checks that an outline shows each kind of difference.
func TestLanguagesBreach(t *testing.T) {
	page := "# T\n\n| a | b |\n|---|---|\n| `x` | y |\n\n```sh\nrun\n```\n\n## H\n\n![i](i.png)\n"
	for _, change := range [][2]string{{"run", "walk"}, {"sh", "console"}, {"## H", "### H"}, {"| `x` | y |\n", ""}, {"`x`", "`z`"}, {"![i](i.png)", ""}} {
		en, zh := strings.Split(page, "\n"), strings.Split(strings.Replace(page, change[0], change[1], 1), "\n")
		if differs(outline(en), outline(zh)) == "" {
			t.Errorf("%q for %q: no difference", change[1], change[0])
		}
	}
	translated := strings.NewReplacer("T", "标题", "H", "节", "a", "甲", "y", "乙").Replace(page)
	if got := differs(outline(strings.Split(page, "\n")), outline(strings.Split(translated, "\n"))); got != "" {
		t.Errorf("a translation differs: %s", got)
	}
}
