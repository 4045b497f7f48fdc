package memstore_test

import (
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/storetest"
)

func open(tb testing.TB) storetest.Harness {
	var now atomic.Int64
	now.Store(1)
	s, err := memstore.New(memstore.Config{Clock: now.Load})
	if err != nil {
		tb.Fatal(err)
	}
	return storetest.Harness{Store: s, SetNow: now.Store, Close: func() { s.Close() }, Monotonic: true}
}

func TestConformance(t *testing.T) { storetest.Run(t, open) }

func TestDifferential(t *testing.T) {
	decisions := 50_000
	if racing {
		decisions /= 20
	}
	for seed := range uint64(4) {
		storetest.Differential(t, open, storetest.DiffConfig{Seed: 100 + seed, Decisions: decisions, Backward: seed%2 == 1})
	}
}
