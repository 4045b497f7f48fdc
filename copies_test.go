package weir_test

import (
	"bytes"
	"os"
	"testing"
)

// TestCopies checks that files which two modules contain, because neither can embed those of
// the other, are the same release: docs/decisions/0010-dependencies.md.
func TestCopies(t *testing.T) {
	for _, name := range []string{"uPlot.js", "uPlot.css", "LICENSE.uplot.txt"} {
		first, err := os.ReadFile("cmd/weir/internal/console/static/lib/" + name)
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile("flashsale/pages/static/lib/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s of the console and of the flash sale differ", name)
		}
	}
}
