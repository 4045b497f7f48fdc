package sim_test

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/plot"
	"github.com/floodweir/weir/cmd/weir/internal/sim"
)

var update = flag.Bool("update", false, "write docs/plots")

func traffic(t *testing.T, s sim.Shape) *sim.Traffic {
	t.Helper()
	made, err := sim.NewTraffic(s)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func run(t *testing.T, made *sim.Traffic, c sim.Config, limits ...string) []sim.Result {
	t.Helper()
	results, err := sim.Run(made, limits, c)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// TestRun checks the number of admitted requests against the formula of each algorithm:
// 20/s for 10s, from the first instant on.
func TestRun(t *testing.T) {
	steady := traffic(t, sim.Shape{Kind: sim.Steady, Rate: 20, Span: 10 * time.Second})
	for limit, want := range map[string]int{
		"10/s burst 20":                    119, // the burst, and one each 100ms until 9.95s
		"10/s fixed_window":                100,
		"10/s sliding_log":                 100,
		"10/s leaky_bucket burst 20":       120, // one more is in service
		"10/s leaky_bucket burst 20 queue": 120,
		"10/s burst 20 + 30/m":             34, // both, or none: 30 and one each 2s
		"1 concurrency":                    50, // 200ms each
	} {
		r := run(t, steady, sim.Config{Takes: 200 * time.Millisecond}, limit)[0]
		if r.Admitted != want || r.Denied != 200-want || r.Offered != 200 {
			t.Errorf("%s: %d admitted, %d denied of %d, want %d of 200", limit, r.Admitted, r.Denied, r.Offered, want)
		}
	}
}

// TestDelay checks that a queue passes requests at its rate, after a delay of at most its
// burst.
func TestDelay(t *testing.T) {
	flash := traffic(t, sim.Shape{Kind: sim.Flash, Rate: 5, Peak: 100, Span: 20 * time.Second})
	r := run(t, flash, sim.Config{}, "10/s leaky_bucket burst 20 queue")[0]
	if r.Delay.Max > 2 || r.Delay.Max < 1.9 || r.Delay.P50 > r.Delay.P99 || r.Peak > 12.5+1e-9 {
		t.Errorf("delay = %+v, peak = %v, want at most 2s and 12.5/s in a slot of 400ms", r.Delay, r.Peak)
	}
	sum := 0.0
	for _, v := range r.Series.Admitted {
		sum += v * r.Series.Slot
	}
	if left := float64(r.Admitted) - sum; left < -1e-6 || left > 20 {
		t.Errorf("the slots have %v of %d admitted requests, want all but those still in the queue", sum, r.Admitted)
	}
}

// TestShapes compares the number of requests of each shape with its integral, and checks
// their order.
func TestShapes(t *testing.T) {
	for kind, want := range map[sim.Kind]int{sim.Steady: 1000, sim.Burst: 1000, sim.Ramp: 5000, sim.Flash: 400 + 2000 + 2200} {
		made := traffic(t, sim.Shape{Kind: kind, Rate: 100, Peak: 1000, Span: 10 * time.Second})
		if n := len(made.Arrivals); math.Abs(float64(n-want)) > 1 {
			t.Errorf("%s: %d requests, want %d", kind, n, want)
		}
		if !slices.IsSortedFunc(made.Arrivals, func(a, b sim.Arrival) int { return int(a.At - b.At) }) {
			t.Errorf("%s: requests are out of order", kind)
		}
		if last := made.Arrivals[len(made.Arrivals)-1].At; last >= made.Span {
			t.Errorf("%s: the last request is at %v of %v", kind, last, made.Span)
		}
	}
}

// TestInvalid checks the errors of input that cannot run.
func TestInvalid(t *testing.T) {
	for _, s := range []sim.Shape{
		{Kind: "wave", Rate: 1, Span: time.Second},
		{Kind: sim.Steady, Rate: 1},
		{Kind: sim.Steady, Rate: math.NaN(), Span: time.Second},
		{Kind: sim.Steady, Rate: 1e9, Span: time.Hour},
		{Kind: sim.Ramp, Rate: 1, Span: time.Second},
	} {
		if _, err := sim.NewTraffic(s); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("NewTraffic(%+v) = %v, want an error", s, err)
		}
	}
	if _, err := sim.Run(&sim.Traffic{}, []string{"10/s + 0/s"}, sim.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Run with an invalid limit = %v, want an error", err)
	}
	if _, err := sim.Algorithms(weir.MustLimit("5 concurrency")); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Algorithms of a concurrency limit = %v, want an error", err)
	}
}

// TestPlots compares the plots of the pages with new ones. With -update it writes them.
func TestPlots(t *testing.T) {
	limits, err := sim.Algorithms(weir.MustLimit("100/s burst 100"))
	if err != nil {
		t.Fatal(err)
	}
	for name, shape := range map[string]sim.Shape{
		"flash": {Kind: sim.Flash, Rate: 60, Peak: 300, Span: 10 * time.Second},
		"burst": {Kind: sim.Burst, Rate: 100, Span: 10 * time.Second},
	} {
		made := traffic(t, shape)
		var got bytes.Buffer
		if err := plot.SVG(&got, name+" traffic through each algorithm", sim.Charts(made, run(t, made, sim.Config{}, limits...))); err != nil {
			t.Fatal(err)
		}
		path := "../../../../docs/plots/" + name + ".svg"
		if *update {
			if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s differs from the plot of this program (%v): run go test ./cmd/weir/internal/sim -run TestPlots -update", path, err)
		}
		if got.Len() > 24<<10 {
			t.Errorf("%s has %d bytes, want 24 KiB or fewer", path, got.Len())
		}
	}
}
