//go:build !race

package share

import "testing"

// moving makes all demand that of another node each second.
func (w *world) moving(seconds int, demand float64) {
	for s := range seconds {
		for i, n := range w.nodes {
			n.gap = 1 << 40
			if i == s%len(w.nodes) {
				n.gap = max(1, int64(1e6/(w.perSecond()*demand)))
			}
			n.restream()
		}
		w.run(1_000_000)
	}
}

func (w *world) used() float64 { return float64(w.admitted) / w.perSecond() / float64(w.now) * 1e8 }

// TestMovingDemand checks how much of a limit is used while all demand moves to another process
// once a second.
func TestMovingDemand(t *testing.T) {
	for _, limit := range simulated {
		w := newWorld(1, limit, 5, 0)
		w.moving(60, 3)
		t.Logf("%s: %.1f%% used, %.2f%% local", limit, w.used(), float64(w.local)/float64(w.asked)*100)
		if w.used() < 90 {
			t.Errorf("%s: %.1f%% of the limit used, want 90", limit, w.used())
		}
	}
}

// TestSteadyDemand counts denials while the demand of all processes together is below the limit. One
// limit would deny nothing.
func TestSteadyDemand(t *testing.T) {
	for _, demand := range []struct{ part, denied float64 }{{0.5, 0}, {0.8, 0.001}} {
		for _, limit := range simulated {
			w := newWorld(1, limit, 5, 0)
			for i, n := range w.nodes {
				n.gap = int64(1e6 / (w.perSecond() * demand.part * []float64{0.4, 0.25, 0.2, 0.1, 0.05}[i]))
				n.restream()
			}
			w.run(60_000_000)
			denied := float64(w.asked-w.admitted) / float64(w.asked)
			t.Logf("%s at %.0f%%: %.4f%% of %d requests denied, %.2f%% local", limit, demand.part*100, denied*100, w.asked, float64(w.local)/float64(w.asked)*100)
			if denied > demand.denied {
				t.Errorf("%s at %.0f%%: %.4f%% of requests denied, want %.2f%%", limit, demand.part*100, denied*100, demand.denied*100)
			}
		}
	}
}
