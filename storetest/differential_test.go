package storetest

import (
	"flag"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/storetest/internal/story"
)

var (
	seed      = flag.Uint64("seed", 1, "of the differential runs")
	decisions = flag.Int("decisions", usual(), "that the differential runs compare")
)

// usual returns the length of the runs: a few seconds, or the full length if WEIR_LONG
// is set.
func usual() int {
	if os.Getenv("WEIR_LONG") != "" {
		return 5_000_000
	}
	return 200_000
}

func openMemory(tb testing.TB) Harness {
	var now atomic.Int64
	now.Store(origin)
	s, err := memstore.New(memstore.Config{Clock: now.Load, MaxKeys: 1 << 20})
	if err != nil {
		tb.Fatal(err)
	}
	return Harness{Store: s, SetNow: now.Store, Close: func() { s.Close() }, Monotonic: true}
}

func TestDifferentialMemory(t *testing.T) {
	Differential(t, openMemory, DiffConfig{Seed: *seed, Decisions: *decisions})
}

func TestDifferentialMemoryBackward(t *testing.T) {
	Differential(t, openMemory, DiffConfig{Seed: *seed, Decisions: *decisions / 4, Backward: true})
}

func TestDiffAlgo(t *testing.T) {
	DiffAlgo(t, DiffConfig{Seed: *seed, Decisions: *decisions})
}

// TestDifferentialModel checks that the Model differs from no other Model.
func TestDifferentialModel(t *testing.T) {
	Differential(t, OpenModel, DiffConfig{Seed: *seed, Decisions: 20_000})
}

// TestFormattedScenesReplay checks that a formatted history has the same decisions when it is
// read again: also of limits that share a named state, and change within the history.
func TestFormattedScenesReplay(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(*seed, 1))}
	named := 0
	for n := range 400 {
		s := g.newScene(n, origin)
		if s.limits[0].Spec().Named && len(s.limits) > 1 {
			named++
		}
		p := newPair(OpenModel(t), origin)
		steps := make([]story.Step, sceneSteps)
		for i := range steps {
			s.next(&steps[i])
			if diff := p.step(&steps[i]); diff != "" {
				t.Fatal(diff)
			}
			for j := range p.ds {
				s.observe(p.ds[j])
			}
		}
		text := story.Format(steps)
		read, err := story.Parse("formatted", text)
		if err != nil {
			t.Fatalf("scene %d: %v in\n%s", n, err, text)
		}
		m := NewModel(read.Start)
		read.Play(m, m.SetNow, func(line int, wrong string) { t.Errorf("scene %d, line %d: %s", n, line, wrong) })
		if t.Failed() {
			t.Fatalf("%s", text)
		}
	}
	if named < 20 {
		t.Errorf("%d scenes have a state whose limit changes, want 20", named)
	}
}
