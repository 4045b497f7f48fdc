package measure

import (
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"
)

// TestProcessorTimeOfChildren checks that CPU time of child processes counts, as for nginx.
func TestProcessorTimeOfChildren(t *testing.T) {
	c := exec.Command("sh", "-c", `(while :; do :; done) & read line; kill $!`)
	in, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	defer in.Close()
	tick, patience := time.NewTicker(10*time.Millisecond), time.NewTimer(time.Minute)
	defer tick.Stop()
	defer patience.Stop()
	for cpuOf(c.Process.Pid) < 100*time.Millisecond { // the shell itself only waits
		select {
		case <-tick.C:
		case <-patience.C:
			t.Fatal("no CPU time of a shell whose child works")
		}
	}
}

// TestQuantiles compares with the exact quantiles: at most 1.6 % higher, never lower.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 10, 99, 100, 101, 20_000} {
		var h Histogram
		var all []time.Duration
		for range n {
			d := time.Duration(rng.ExpFloat64() * float64(rng.IntN(1_000_000_000)))
			all = append(all, d)
			h.Add(d)
		}
		slices.Sort(all)
		q := h.Quantiles()
		if q.Count != int64(n) {
			t.Fatalf("%d values, counted %d", n, q.Count)
		}
		for _, c := range []struct {
			percent int
			got     time.Duration
		}{{50, q.P50}, {90, q.P90}, {99, q.P99}, {100, q.Max}} {
			want := all[(n*c.percent+99)/100-1]
			if c.got < want || float64(c.got) > float64(want)*1.017+2000 {
				t.Errorf("p%d of %d values = %s, want %s or slightly more", c.percent, n, c.got, want)
			}
		}
	}
}

func TestBuckets(t *testing.T) {
	last := -1
	for n := int64(0); n < 1<<20; n++ {
		b := bucketOf(n)
		if b != last && b != last+1 || ceilOf(b) < n || b > 0 && ceilOf(b-1) >= n {
			t.Fatalf("bucket of %d = %d after %d, up to %d", n, b, last, ceilOf(b))
		}
		last = b
	}
	var h Histogram
	for _, d := range []time.Duration{-time.Second, 0, 1 << 62} {
		h.Add(d)
	}
	if q := h.Quantiles(); q.Count != 3 {
		t.Errorf("%+v", q)
	}
}
