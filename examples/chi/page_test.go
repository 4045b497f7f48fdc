package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPage checks that the code of the page is that of the examples, which compile and run.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/frameworks.md")
	if err != nil {
		t.Fatal(err)
	}
	var sources []string
	for _, pattern := range []string{"*.go", "*.yaml", "../consumer/*.go", "../follow/*.go", "../../httplimit/example_test.go", "../../contrib/*/example_test.go"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, string(text))
		}
	}
	all := strings.Join(sources, "\n")
	n := 0
	for i, part := range strings.Split(string(page), "```") {
		kind, text, _ := strings.Cut(part, "\n")
		if i%2 == 0 || kind == "text" {
			continue
		}
		n++
		if !strings.Contains(all, text) {
			t.Errorf("no program or example has\n%s", text)
		}
	}
	if n < 8 {
		t.Errorf("the page has %d pieces of code", n)
	}
}
