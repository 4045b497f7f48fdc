// Package curvetest is the conformance suite of sale.Curves.
package curvetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
)

// Ledger is a ledger that stores curves.
type Ledger interface {
	sale.Ledger
	Curves() sale.Curves
}

// Run runs the tests of a sale.Curves. open returns an empty ledger.
func Run(t *testing.T, open func(t *testing.T) Ledger) {
	for name, test := range map[string]func(*tester){
		"Figures": figures, "Unchanged": unchanged, "Bound": bound, "Processes": processes,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			test(&tester{l, t, t.Context()})
		})
	}
}

type tester struct {
	Ledger
	t   *testing.T
	ctx context.Context
}

// exposed creates and exposes a sale.
func (d *tester) exposed(stock int64) sale.Sale {
	d.t.Helper()
	s, err := d.Create(d.ctx, "shop", "", ledgertest.Draft(stock, 1), at(-3600))
	if err == nil {
		s, err = d.SetState(d.ctx, "shop", s.ID, sale.Exposed, "", at(-3600), sale.Drafted)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return s
}

// at returns the time n seconds after the start of the suite's sales.
func at(n int) time.Time { return ledgertest.Start().Add(time.Duration(n) * time.Second) }

func (d *tester) add(samples ...sale.CurveSample) {
	d.t.Helper()
	if err := d.Curves().AddSamples(d.ctx, "p", samples); err != nil {
		d.t.Fatal(err)
	}
}

func (d *tester) points(id string) []sale.CurvePoint {
	d.t.Helper()
	points, err := d.Curves().Points(d.ctx, id)
	if err != nil {
		d.t.Fatal(err)
	}
	return points
}

func (d *tester) want(id string, want ...sale.CurvePoint) {
	d.t.Helper()
	if got := d.points(id); !slices.Equal(got, want) {
		d.t.Errorf("points\n%+v, want\n%+v", got, want)
	}
}

// figures checks that orders, payments and free units are those of the ledger, that admissions
// add up, and that the queue keeps its length while no process knows it.
func figures(d *tester) {
	s, other := d.exposed(5), d.exposed(2)
	d.add(
		sale.CurveSample{Sale: s.ID, At: at(1), Admitted: 2, Waiting: 7, Counted: true},
		sale.CurveSample{Sale: other.ID, At: at(1), Waiting: 1, Counted: true},
		sale.CurveSample{Sale: "nosuchsale", At: at(1), Admitted: 9},
	)
	d.want(s.ID, sale.CurvePoint{At: at(0), Admitted: 2, Waiting: 7, Free: 5})
	rs := []sale.Reservation{ledgertest.Reservation(s, "a", 1), ledgertest.Reservation(s, "b", 1), ledgertest.Reservation(s, "c", 1)}
	if _, err := d.CreateOrders(d.ctx, 1, rs, at(2)); err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.Pay(d.ctx, sale.Payment{ID: "pay-a", Reservation: rs[0].ID, Amount: s.Price}, at(3)); err != nil {
		d.t.Fatal(err)
	}
	if _, err := d.Cancel(d.ctx, "b", rs[1].ID, at(3)); err != nil {
		d.t.Fatal(err)
	}
	d.add(sale.CurveSample{Sale: s.ID, At: at(4), Admitted: 3})
	d.add(sale.CurveSample{Sale: s.ID, At: at(4), Admitted: 3}) // repeated
	d.want(s.ID, sale.CurvePoint{At: at(0), Admitted: 3, Reserved: 3, Paid: 1, Waiting: 7, Free: 3})
	if _, err := d.Cancel(d.ctx, "c", rs[2].ID, at(6)); err != nil {
		d.t.Fatal(err)
	}
	d.add(sale.CurveSample{Sale: s.ID, At: at(6)}, sale.CurveSample{Sale: other.ID, At: at(6), Counted: true})
	d.add(sale.CurveSample{Sale: s.ID, At: at(11), Waiting: 0, Counted: true})
	d.want(s.ID, sale.CurvePoint{At: at(0), Admitted: 3, Reserved: 3, Paid: 1, Waiting: 7, Free: 3},
		sale.CurvePoint{At: at(5), Admitted: 3, Reserved: 3, Paid: 1, Waiting: 7, Free: 4},
		sale.CurvePoint{At: at(10), Admitted: 3, Reserved: 3, Paid: 1, Free: 4})
	d.want(other.ID, sale.CurvePoint{At: at(0), Waiting: 1, Free: 2}, sale.CurvePoint{At: at(5), Free: 2})
	d.want("nosuchsale")

	// A process that is killed loses its admissions, and every order had one.
	last := d.exposed(1)
	if _, err := d.CreateOrders(d.ctx, 1, []sale.Reservation{ledgertest.Reservation(last, "a", 1)}, at(2)); err != nil {
		d.t.Fatal(err)
	}
	d.add(sale.CurveSample{Sale: last.ID, At: at(5)})
	d.want(last.ID, sale.CurvePoint{At: at(5), Admitted: 1, Reserved: 1})
}

// unchanged checks that a sample adds a point only if a figure changes.
func unchanged(d *tester) {
	s := d.exposed(5)
	for i := range 10 {
		d.add(sale.CurveSample{Sale: s.ID, At: at(10 * i), Waiting: 3, Counted: true})
		d.add(sale.CurveSample{Sale: s.ID, At: at(10*i + 5)})
	}
	d.want(s.ID, sale.CurvePoint{At: at(0), Waiting: 3, Free: 5})
	d.add(sale.CurveSample{Sale: s.ID, At: at(5000), Admitted: 1})
	d.want(s.ID, sale.CurvePoint{At: at(0), Waiting: 3, Free: 5}, sale.CurvePoint{At: at(5000), Admitted: 1, Waiting: 3, Free: 5})
}

// bound checks that merged points keep the time of the sale, every admission and the longest
// queue.
func bound(d *tester) {
	s, other := d.exposed(5), d.exposed(5)
	d.add(sale.CurveSample{Sale: other.ID, At: at(0), Admitted: 1})
	const samples, peak = 320, 137
	admitted, most := int64(0), 0
	for i := range samples {
		p := sale.CurveSample{Sale: s.ID, At: at(5 * i), Admitted: admitted + int64(i%3), Waiting: int64(i % 2), Counted: true}
		if i == peak {
			p.Waiting = 10_000
		}
		admitted = p.Admitted
		d.add(p)
		if i%10 == 0 {
			most = max(most, len(d.points(s.ID)))
		}
	}
	points := d.points(s.ID)
	if most > sale.MaxCurvePoints || len(points) < sale.MaxCurvePoints/3 {
		d.t.Errorf("up to %d points, %d at the end, want at most %d", most, len(points), sale.MaxCurvePoints)
	}
	// The first point is merged from two.
	if first, last := points[0], points[len(points)-1]; !first.At.Equal(at(5)) || !last.At.Equal(at(5*(samples-1))) || last.Admitted != admitted {
		d.t.Errorf("points from %+v to %+v, want %d admitted", first, last, admitted)
	}
	longest := int64(0)
	for i, p := range points {
		longest = max(longest, p.Waiting)
		if i > 0 && (!p.At.After(points[i-1].At) || p.Admitted < points[i-1].Admitted) {
			d.t.Errorf("point %+v follows %+v", p, points[i-1])
		}
	}
	if longest != 10_000 {
		d.t.Errorf("the longest queue is %d, want 10000", longest)
	}
	d.want(other.ID, sale.CurvePoint{At: at(0), Admitted: 1, Free: 5})
}

// processes checks that samples of several processes at once add up, also while points are
// merged.
func processes(d *tester) {
	s := d.exposed(5)
	var all sync.WaitGroup
	const each = 110
	for p := range 3 {
		all.Go(func() {
			for i := range each {
				err := d.Curves().AddSamples(d.ctx, fmt.Sprint("p", p), []sale.CurveSample{{Sale: s.ID, At: at(5 * (3*i + p)), Admitted: int64(i + 1)}})
				if err != nil {
					d.t.Errorf("AddSamples: %v", err)
				}
			}
		})
	}
	all.Wait()
	points := d.points(s.ID)
	if last := points[len(points)-1]; last.Admitted != 3*each || len(points) > sale.MaxCurvePoints {
		d.t.Errorf("%d points, the last %+v, want %d admitted", len(points), last, 3*each)
	}
}
