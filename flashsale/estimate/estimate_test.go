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

// TestReturnedUnits checks estimates while no unit is free.
func TestReturnedUnits(t *testing.T) {
	now := time.Unix(1000, 0)
	s := estimate.Sample{At: now, PaidShare: 0.5}
	for i := range 10 {
		s.PayBy = append(s.PayBy, now.Add(time.Duration(i+1)*time.Minute))
	}
	var e estimate.Estimator
	e.Observe(s)
	for _, c := range []struct {
		ahead int64
		want  estimate.Wait
	}{
		{0, estimate.Wait{For: 2 * time.Minute}},
		{1, estimate.Wait{For: 4 * time.Minute}},
		{4, estimate.Wait{For: 10 * time.Minute}},
		{5, estimate.Wait{Unlikely: true}},
		{1 << 40, estimate.Wait{Unlikely: true}},
	} {
		for _, buys := range []bool{false, true} {
			if got := e.Wait(c.ahead, 1, buys); got != c.want {
				t.Errorf("%d ahead, buys %v: %+v, want %+v", c.ahead, buys, got, c.want)
			}
		}
	}
	if w := e.Wait(0, 1, true); w.Low() != 96*time.Second || w.High() != 150*time.Second {
		t.Errorf("range %v to %v, want 1m36s to 2m30s", w.Low(), w.High())
	}
	// Those ahead take 2.5 units each, and this visitor three.
	s.At, s.PerOrder = now.Add(time.Second), 2.5
	s.PayBy = append(s.PayBy, s.PayBy[9], s.PayBy[9])
	e.Observe(s)
	for ahead, want := range []estimate.Wait{{For: 6*time.Minute - time.Second}, {For: 10*time.Minute - time.Second}, {Unlikely: true}} {
		if got := e.Wait(int64(ahead), 3, true); got != want {
			t.Errorf("three units behind %d: %+v, want %+v", ahead, got, want)
		}
	}
	s.At, s.PayBy = now.Add(2*time.Second), nil
	e.Observe(s)
	if got := e.Wait(0, 1, true); !got.Unlikely {
		t.Errorf("without pending orders: %+v, want unlikely", got)
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
