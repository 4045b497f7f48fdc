package storetest

import (
	"flag"
	"os"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir/memstore"
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
	return 1_000_000
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
