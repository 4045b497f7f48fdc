//go:build !race

package memstore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/storetest"
)

// keeper is a store that keeps states itself, and decides by a Scratch.
type keeper struct {
	mu      sync.Mutex
	now     int64
	scratch *memstore.Scratch
	states  map[[2]string]memstore.ScratchState // by key and weir.Limit.State
}

func (k *keeper) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	ds := make([]weir.Decision, 1)
	_, err := k.DoAll(ctx, []weir.Request{r}, ds)
	if err != nil {
		return weir.Decision{}, err
	}
	return ds[0], nil
}

func (k *keeper) DoAll(_ context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	used := map[[2]string]bool{}
	var states []memstore.ScratchState
	add := func(key string, l weir.Limit) {
		name := [2]string{key, l.Spec().State}
		if l.IsZero() || used[name] {
			return
		}
		used[name] = true
		st, ok := k.states[name]
		if !ok {
			st = memstore.ScratchState{Key: key, Limit: l}
		}
		states = append(states, st)
	}
	for i := range rs {
		add(rs[i].Key, rs[i].Limit)
		for _, f := range rs[i].From {
			add(rs[i].Key, f)
		}
	}
	if err := k.scratch.Load(k.now, states); err != nil {
		return false, err
	}
	ok, err := k.scratch.DoAll(rs, ds)
	if err == nil {
		for _, st := range k.scratch.Save(states) {
			k.states[[2]string{st.Key, st.Limit.Spec().State}] = st
		}
	}
	return ok, err
}

func openKeeper(testing.TB) storetest.Harness {
	k := &keeper{scratch: memstore.NewScratch([16]byte{1}), states: map[[2]string]memstore.ScratchState{}}
	return storetest.Harness{Store: k, Monotonic: true, SetNow: func(us int64) {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.now = max(k.now, us)
	}}
}

// TestScratch runs the suite of every store on states that a map keeps.
func TestScratch(t *testing.T) {
	storetest.Run(t, openKeeper)
	storetest.Differential(t, openKeeper, storetest.DiffConfig{Seed: 7, Decisions: 4000})
}

// TestScratchRefuses loads states that a limit cannot have.
func TestScratchRefuses(t *testing.T) {
	x := memstore.NewScratch([16]byte{})
	l := weir.MustLimit("5/s")
	for name, st := range map[string]memstore.ScratchState{
		"too few words":  {Key: "k", Limit: l, Words: []int64{1}},
		"one id twice":   {Key: "k", Limit: l, Reservations: []memstore.ScratchReservation{{ID: 3, Limit: l, Deadline: 9}, {ID: 3, Limit: l, Deadline: 9}}},
		"half an entry":  {Key: "k", Limit: weir.MustLimit("5/s sliding_log"), Words: []int64{1, 2, 3}},
		"an id of zero ": {Key: "k", Limit: l, Reservations: []memstore.ScratchReservation{{Limit: l, Deadline: 9}}},
	} {
		if err := x.Load(1, []memstore.ScratchState{st}); err == nil {
			t.Errorf("Load of a state with %s: no error", name)
		}
	}
}
