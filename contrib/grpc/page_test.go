package weirgrpc_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestPage checks that the code of the page is that of the examples, which compile and run.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	var examples string
	for _, name := range []string{"example_test.go", "../connect/example_test.go"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		examples += flush(string(text))
	}
	snippets := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(snippets) < 5 {
		t.Errorf("the page has %d snippets", len(snippets))
	}
	for _, s := range snippets {
		if !strings.Contains(examples, flush(s[1])) {
			t.Errorf("no example has\n%s", s[1])
		}
	}
}

// flush is text without indentation.
func flush(text string) string {
	return regexp.MustCompile(`(?m)^[\t ]+`).ReplaceAllString(text, "")
}
