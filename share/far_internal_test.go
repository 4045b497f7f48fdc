//go:build !race

package share

import (
	"testing"

	"github.com/floodweir/weir"
)

// TestFarLedger checks that requests hardly ever wait for a ledger whose calls take 80 ms, whether the demand of
// all processes is less or more than the limit. Every process has a share after 10 s.
func TestFarLedger(t *testing.T) {
	for _, demand := range []struct{ part, local, used float64 }{{0.5, 0.999, 0.5}, {0.8, 0.995, 0.8}, {1.5, 0.999, 0.99}} {
		for seed := range uint64(3) {
			w := newWorld(seed, simulated[0], 5, 0)
			w.far = 40_000
			for i, n := range w.nodes {
				n.gap = int64(1e6 / (w.perSecond() * demand.part * []float64{0.4, 0.25, 0.2, 0.1, 0.05}[i]))
				n.restream()
			}
			w.run(10_000_000) // shares are granted
			asked, local, admitted := w.asked, w.local, w.admitted
			w.run(20_000_000)
			asked, local, admitted = w.asked-asked, w.local-local, w.admitted-admitted
			t.Logf("%.0f%%: %d requests, %.2f%% local, %.2f%% denied", demand.part*100, asked, float64(local)/float64(asked)*100, float64(asked-admitted)/float64(asked)*100)
			if float64(local) < demand.local*float64(asked) {
				t.Errorf("seed %d: %d of %d requests decided without a call, want %.1f%%", seed, local, asked, demand.local*100)
			}
			if used := float64(admitted) / w.perSecond() / 20; used < demand.used*0.985 {
				t.Errorf("seed %d at %.0f%%: %.1f%% of the limit used, want %.1f%%", seed, demand.part*100, used*100, demand.used*100)
			}
			for i, n := range w.nodes {
				if !n.entry.live(n.clock.now()) {
					t.Errorf("seed %d at %.0f%%: process %d has no share", seed, demand.part*100, i)
				}
			}
		}
	}
}

// TestStaleDemand cuts processes off from the ledger, under a demand above the limit. They deny by what they know
// of other processes for a second.
func TestStaleDemand(t *testing.T) {
	w := newWorld(1, simulated[0], 2, 0)
	for _, n := range w.nodes {
		n.gap = int64(1e6 / w.perSecond()) // each asks for the limit
		n.restream()
	}
	w.run(5_000_000)
	check := func(want bool) {
		t.Helper()
		for i, n := range w.nodes {
			if m := n.clock.now(); !n.entry.live(m) || n.entry.exhausted(m) != want {
				t.Errorf("process %d: live %v, exhausted %v, want a share and %v", i, n.entry.live(m), n.entry.exhausted(m), want)
			}
		}
	}
	check(true)
	for _, n := range w.nodes {
		n.cut = true
	}
	w.run(700_000)
	check(true)
	w.run(600_000)
	check(false)
}

// TestAsksBelowTheLimit empties a share while the demand of all processes is below the limit: it does not deny
// without a call.
func TestAsksBelowTheLimit(t *testing.T) {
	w := newWorld(1, simulated[0], 2, 0)
	for _, n := range w.nodes {
		n.gap = int64(1e6 / w.perSecond() / 0.3)
		n.restream()
	}
	w.run(5_000_000)
	n := w.nodes[0]
	m, r, d := n.clock.now(), weir.Request{Verb: weir.TakeUpTo, Key: "key", Limit: n.limit}, weir.Decision{}
	r.N = n.entry.own.Level(n.entry.now(m))
	if !n.entry.decide(&r, m, &d) || r.N == 0 {
		t.Fatalf("decision for %d tokens by the share = %+v, want them all", r.N, d)
	}
	r.Verb, r.N = weir.Take, 5
	if n.entry.decide(&r, m, &d) {
		t.Errorf("decision by an empty share = %+v, want a call of the ledger", d)
	}
	n.entry.rivals = w.perSecond() / 1e6 * float64(w.d.Span)
	if !n.entry.decide(&r, m, &d) || d.OK || d.RetryAfter <= 0 {
		t.Errorf("decision by an empty share of a limit that is short = %+v, want a denial", d)
	}
}
