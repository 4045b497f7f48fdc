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

// A healing is a Model whose clock, when it is set back by more than most, goes
// on from where it was.
type healing struct {
	*Model
	last, ahead, most int64
}

func (h *healing) SetNow(us int64) {
	if back := h.last - (us + h.ahead); back > h.most {
		h.ahead += back
	}
	h.last = us + h.ahead
	h.Model.SetNow(h.last)
}

func TestHeals(t *testing.T) {
	for _, c := range []struct {
		most int64
		ok   bool
	}{{second, true}, {1 << 60, false}} {
		failures := failuresOf(func(tb testing.TB) {
			heals(tb, func(testing.TB) Harness {
				h := &healing{Model: NewModel(origin), most: c.most}
				return Harness{Store: h, SetNow: h.SetNow}
			})
		})
		if ok := len(failures) == 0; ok != c.ok {
			t.Errorf("a clock that goes on when it is set back by more than %d µs: %q, want ok %v", c.most, failures, c.ok)
		}
	}
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
