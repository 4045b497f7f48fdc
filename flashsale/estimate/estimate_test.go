package estimate_test

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/estimate"
)

// An event is the end of a turn or the moment at which a visitor leaves the queue.
type event struct {
	at      float64
	visitor *visitor // nil at the end of a turn
}

type visitor struct {
	gone      bool
	estimates []sample
}

type sample struct{ at, wait float64 }

type events []event

func (h events) Len() int           { return len(h) }
func (h events) Less(i, j int) bool { return h[i].at < h[j].at }
func (h events) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)        { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// share simulates a queue in virtual time. A share of its visitors leaves before their turn, and
// any visitor leaves after a mean time. It returns the share of estimates that are within a
// quarter or five seconds of the true wait, and their number.
func share(turns int, noShows float64, stay time.Duration, seed uint64) (float64, int) {
	const length = 30
	r := rand.New(rand.NewPCG(seed, 1))
	begin := time.Unix(0, 0)
	var e estimate.Estimator
	var line []*visitor
	var h events
	begun, left, taking, first := int64(0), int64(0), 0, 0
	for range 40 * turns {
		v := &visitor{}
		line = append(line, v)
		if r.Float64() < noShows {
			heap.Push(&h, event{r.Float64() * 40 * length / 2, v}) // is not there when the turn comes
		}
		if stay > 0 {
			heap.Push(&h, event{r.ExpFloat64() * stay.Seconds(), v})
		}
	}
	hits, all := 0, 0
	admit := func(now float64) {
		for first < len(line) && taking < turns {
			v := line[first]
			first++
			if v.gone {
				continue
			}
			for _, s := range v.estimates {
				all++
				if d := math.Abs(s.wait - (now - s.at)); d <= max(0.25*(now-s.at), 5) {
					hits++
				}
			}
			v.gone = true
			taking++
			begun++
			took := 5 + r.Float64()*20 // a turn may take 30 s
			heap.Push(&h, event{now + took, nil})
		}
	}
	admit(0)
	for now := 0.0; first < len(line); now += 0.5 {
		for len(h) > 0 && h[0].at <= now {
			switch x := heap.Pop(&h).(event); {
			case x.visitor == nil:
				taking--
				admit(x.at)
			case !x.visitor.gone:
				x.visitor.gone = true
				left++
			}
		}
		var present []*visitor
		for _, v := range line[first:] {
			if !v.gone {
				present = append(present, v)
			}
		}
		e.Observe(estimate.Sample{At: begin.Add(time.Duration(now * 1e9)), Free: 1000, Turns: int64(turns), Length: length * time.Second,
			Waiting: int64(len(present)), Taking: int64(taking), Begun: begun, Left: left})
		if now < 1.5*length || math.Mod(now, 5) != 0 {
			continue
		}
		for i := r.IntN(7); i < len(present); i += 7 {
			present[i].estimates = append(present[i].estimates, sample{now, e.Wait(int64(i), 1, false).For.Seconds()})
		}
	}
	return float64(hits) / float64(all), all
}

// TestSteadyAdmission checks that at least 90 % of the estimates are within a quarter or five
// seconds of the true wait. Queues differ in size and in how many visitors leave.
func TestSteadyAdmission(t *testing.T) {
	for _, turns := range []int{5, 30, 100} {
		for _, noShows := range []float64{0, 0.3} {
			for _, stay := range []time.Duration{0, 30 * time.Minute, 10 * time.Minute} {
				name := fmt.Sprintf("%d turns, %.0f %% no-shows, stay %v", turns, 100*noShows, stay)
				t.Run(name, func(t *testing.T) {
					got, all := 0.0, 0
					for seed := range uint64(4) {
						g, n := share(turns, noShows, stay, seed)
						got, all = got+g*float64(n), all+n
					}
					got /= float64(all)
					t.Logf("%.1f %% of %d estimates", 100*got, all)
					if got < 0.9 || all < 100 {
						t.Errorf("%.1f %% of %d estimates are right, want 90 %%", 100*got, all)
					}
				})
			}
		}
	}
}

// pending returns the ends of the time to pay of units, one a minute from a time on.
func pending(from time.Time, units int) (ends []time.Time) {
	for i := range units {
		ends = append(ends, from.Add(time.Duration(i+1)*time.Minute))
	}
	return ends
}

// TestReturnedUnits checks estimates while no unit is free. Half of the orders are paid, at once,
// so those that are pending are not paid any more.
func TestReturnedUnits(t *testing.T) {
	now := time.Unix(1000, 0)
	paid := make([]int64, 16)
	paid[0] = 1_000_000
	s := estimate.Sample{At: now, PayBy: pending(now, 10), PayWithin: time.Hour, Paid: paid, Unpaid: 1_000_000}
	var e estimate.Estimator
	e.Observe(s)
	for _, c := range []struct {
		ahead int64
		want  time.Duration // 0 for unlikely
	}{
		{0, time.Minute},
		{1, 2 * time.Minute},
		{9, 10 * time.Minute},
		{10, time.Hour + 1*time.Minute}, // half of them return a second time
		{11, time.Hour + 3*time.Minute},
		{14, time.Hour + 9*time.Minute},
		{16, 2*time.Hour + 6*time.Minute}, // and a quarter a third time
		{30, 0},
		{1 << 40, 0},
	} {
		want := estimate.Wait{For: c.want, Unlikely: c.want == 0}
		for _, buys := range []bool{false, true} {
			if got := e.Wait(c.ahead, 1, buys); got != want {
				t.Errorf("%d ahead, buys %v: %+v, want %+v", c.ahead, buys, got, want)
			}
		}
	}
	if w := e.Wait(1, 1, true); w.Low() != 96*time.Second || w.High() != 150*time.Second {
		t.Errorf("range %v to %v, want 1m36s to 2m30s", w.Low(), w.High())
	}
	// Those ahead take 2.5 units each, and this visitor three.
	s.At, s.PerOrder = now.Add(time.Second), 2.5
	e.Observe(s)
	for ahead, want := range []time.Duration{3*time.Minute - time.Second, 6*time.Minute - time.Second, 8*time.Minute - time.Second} {
		if got := e.Wait(int64(ahead), 3, true); got.For != want {
			t.Errorf("three units behind %d: %+v, want %v", ahead, got, want)
		}
	}
	s.At, s.PayBy = now.Add(2*time.Second), nil
	e.Observe(s)
	if got := e.Wait(0, 1, true); !got.Unlikely {
		t.Errorf("without pending orders: %+v, want unlikely", got)
	}
}

// TestReturnedUnitsSoon checks estimates before the time to pay of any order is over. Buyers who
// pay do so soon, so most orders that are pending after a while will not be paid.
func TestReturnedUnitsSoon(t *testing.T) {
	now := time.Unix(1000, 0)
	paid := make([]int64, 16)
	paid[0], paid[1] = 100, 20
	s := estimate.Sample{At: now, PayBy: pending(now.Add(30*time.Minute), 30), PayWithin: time.Hour, Paid: paid}
	var e estimate.Estimator
	e.Observe(s)
	for ahead, want := range map[int64]time.Duration{0: 31 * time.Minute, 20: 51 * time.Minute} {
		if got := e.Wait(ahead, 1, true); math.Abs((got.For - want).Minutes()) > 2 {
			t.Errorf("%d ahead: %+v, want about %v", ahead, got, want)
		}
	}
	// Most orders that are new are paid.
	s.At, s.PayBy = now.Add(time.Second), pending(now.Add(59*time.Minute), 30)
	e.Observe(s)
	if got := e.Wait(20, 1, true); got.For < 80*time.Minute && !got.Unlikely {
		t.Errorf("20 ahead, new orders: %+v, want much later", got)
	}
	// No buyer pays: every unit returns repeatedly.
	s = estimate.Sample{At: now.Add(2 * time.Second), PayBy: pending(now, 30), PayWithin: 30 * time.Minute, Paid: make([]int64, 16), Unpaid: 1_000_000}
	e.Observe(s)
	for ahead, want := range map[int64]time.Duration{29: 30 * time.Minute, 299: 300 * time.Minute, 100_000: estimate.Longest} {
		if got := e.Wait(ahead, 1, true); math.Abs((got.For-want).Minutes()) > 1 || got.Unlikely {
			t.Errorf("%d ahead, none pays: %+v, want about %v", ahead, got, want)
		}
	}
}

// TestFreeUnits checks that a visitor with a free unit waits for the order writers alone.
func TestFreeUnits(t *testing.T) {
	var e estimate.Estimator
	if got := e.Wait(3, 1, true); got != (estimate.Wait{}) {
		t.Errorf("without a sample: %+v, want unknown", got)
	}
	e.Observe(estimate.Sample{At: time.Unix(1, 0), Free: 100, Turns: 300, Length: 30 * time.Second, Drain: 10})
	if got := e.Wait(50, 1, true); got.For != 5*time.Second || got.Unlikely {
		t.Errorf("50 ahead: %+v, want 5s", got)
	}
	if got := e.Wait(98, 3, true); !got.Unlikely {
		t.Errorf("three of 100 units behind 98: %+v, want unlikely", got)
	}
	if got := e.Wait(100, 1, true); !got.Unlikely {
		t.Errorf("100 ahead of 100 units: %+v, want unlikely", got)
	}
	if got := e.Wait(200, 1, false); got.For != time.Second {
		t.Errorf("200 ahead of 300 turns: %+v, want 1s", got)
	}
	if got := e.Wait(1<<50, 1, false); got.For != estimate.Longest {
		t.Errorf("very many ahead: %+v, want %v", got, estimate.Longest)
	}
}
