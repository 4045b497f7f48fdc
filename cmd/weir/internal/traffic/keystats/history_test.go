package keystats_test

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
)

// TestHistory plays one key that is denied at random among many others, on two nodes, and compares
// each step of its history with the true numbers. The key has few requests and most denials, so
// that neither the sample nor the keys with most requests have it.
func TestHistory(t *testing.T) {
	const from, seconds = 1_700_000_007, 385 // neither bound is that of a step
	key := "login|6:victim"
	theta := keystats.Hash(seed, key) // of the keys that are sent, 1,024 have smaller hashes
	var others []string
	for i := 0; len(others) < 1024; i++ {
		if k := fmt.Sprintf("login|8:%08d", i); keystats.Hash(seed, k) < theta {
			others = append(others, k)
		}
	}
	nodes := []*keystats.Collector{keystats.NewCollector(seed, from), keystats.NewCollector(seed, from)}
	want := map[int64]keystats.Step{}
	for s := range int64(seconds) {
		for _, c := range nodes {
			requests, denials := uint64(0), uint64(0)
			add := func(k string, denied bool) {
				c.Add(&keystats.Record{Key: k, Hash: keystats.Hash(seed, k), Weight: 1, Cost: 1, Denied: denied})
				if requests++; denied {
					denials++
				}
			}
			for i, k := range others { // each has more requests than key
				if i < 100 || s%60 == 0 {
					add(k, false)
					add(k, false)
				}
			}
			if s%3 == 0 {
				add(key, s%2 == 0)
				step := want[(from+s)/keystats.StepSeconds]
				if step.Requests++; s%2 == 0 {
					step.Denied++
				}
				want[(from+s)/keystats.StepSeconds] = step
			}
			c.EndSecond(from+s+1, requests, denials)
		}
	}
	two, err := keystats.Decode(nodes[1].Sample().Encode())
	if err != nil {
		t.Fatal(err)
	}
	s, err := keystats.Merge(nodes[0].Sample(), two)
	if err != nil {
		t.Fatal(err)
	}
	first, steps, ok := s.History(seed, key)
	if !ok || first%keystats.StepSeconds != 0 || first > from || int64(len(steps)) != (from+seconds-1)/keystats.StepSeconds-first/keystats.StepSeconds+1 {
		t.Fatalf("History from %d: %d steps, %v; want those from %d", first, len(steps), ok, from)
	}
	denied := uint64(0)
	for i, got := range steps {
		at := first/keystats.StepSeconds + int64(i)
		if at*keystats.StepSeconds < from+2*keystats.StepSeconds {
			continue // the key is chosen for its denials
		}
		if got != want[at] {
			t.Errorf("step %d: %+v, want %+v", i, got, want[at])
		}
		denied += got.Denied
	}
	if denied < 50 {
		t.Errorf("%d denials, want 50 or more", denied)
	}
}
