package storetest

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/floodweir/weir/storetest/internal/story"
)

var update = flag.Bool("update", false, "write the Model's answers into trace/*.txt, for review")

func TestModel(t *testing.T) {
	if *update {
		rewrite(t)
		return
	}
	Run(t, OpenModel)
}

func rewrite(t *testing.T) {
	files, err := filepath.Glob("trace/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("trace/*.txt: %d files, %v", len(files), err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := story.Parse(f, string(text))
		if err != nil {
			t.Fatal(err)
		}
		h := OpenModel(t)
		if err := os.WriteFile(f, []byte(s.Rewrite(h.Store, h.SetNow)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
