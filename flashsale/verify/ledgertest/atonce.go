package ledgertest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// concurrently runs f in n goroutines and waits for all of them.
func concurrently(n int, f func(i int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			f(i)
		})
	}
	close(start)
	all.Wait()
}

// placeAtOnce creates the orders of the same batches concurrently, with more reservations than
// units.
func placeAtOnce(t *testing.T, d *tester) {
	s := d.exposed(60, 1)
	var batches [4][]sale.Reservation
	for i := range batches {
		batches[i] = batch(s, 25)
	}
	var news atomic.Int64
	var mu sync.Mutex
	states := map[string]sale.OrderState{}
	concurrently(12, func(i int) {
		rs := batches[i%len(batches)]
		got, err := d.CreateOrders(d.ctx, 1, rs, Start())
		if err != nil {
			t.Errorf("CreateOrders: %v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for j, p := range got {
			if p.New && p.State == sale.PendingPay {
				news.Add(1)
			}
			if was, ok := states[rs[j].ID]; ok && was != p.State {
				t.Errorf("one reservation is %s and %s", was, p.State)
			}
			states[rs[j].ID] = p.State
		}
	})
	if got := d.check(s); got.Pending != 60 || news.Load() != 60 || got.Rejected != 0 {
		t.Fatalf("%d pending, %d new, %d rejected, want 60, 60, 0", got.Pending, news.Load(), got.Rejected)
	}
}

// fenceAtOnce begins an epoch while orders are created. The InitialState that is read after it
// has every order of the earlier epoch.
func fenceAtOnce(t *testing.T, d *tester) {
	s := d.exposed(1000, 1)
	var opened sale.InitialState
	var news, fences atomic.Int64
	concurrently(9, func(i int) {
		if i == 8 {
			var err error
			if _, err = d.NextEpoch(d.ctx, s.ID, 1, Start()); err == nil {
				opened, err = d.InitialState(d.ctx, s.ID)
			}
			if err != nil {
				t.Errorf("NextEpoch: %v", err)
			}
			return
		}
		for range 5 {
			got, err := d.CreateOrders(d.ctx, 1, batch(s, 10), Start())
			if err != nil {
				t.Errorf("CreateOrders: %v", err)
			}
			for _, p := range got {
				switch p {
				case fresh:
					news.Add(1)
				case fenced:
					fences.Add(1)
				default:
					t.Errorf("CreateOrders = %+v", p)
				}
			}
		}
	})
	if got := d.check(s); got.Pending != news.Load() || int64(len(opened.Reserved)) != got.Pending || news.Load()+fences.Load() != 400 {
		t.Fatalf("%d pending, %d new, %d fenced, %d in the InitialState", got.Pending, news.Load(), fences.Load(), len(opened.Reserved))
	}
}

// everythingAtOnce places, pays, cancels, expires, loses and returns the same reservations.
func everythingAtOnce(t *testing.T, d *tester) {
	s := d.exposed(40, 1)
	rs := batch(s, 60)
	late := rs[0].PayBy.Add(time.Second)
	var paid, cancelled, expired, refunds atomic.Int64
	fail := func(what string, err error, fine ...error) {
		for _, ok := range fine {
			if errors.Is(err, ok) {
				return
			}
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	concurrently(8, func(i int) {
		r := rand.New(rand.NewPCG(uint64(i), 1))
		for n := range 60 {
			x := rs[r.IntN(len(rs))]
			switch r.IntN(6) {
			case 0:
				from := r.IntN(len(rs) - 10)
				_, err := d.CreateOrders(d.ctx, 1, rs[from:from+10], Start())
				fail("Place", err)
			case 1, 2:
				now := x.PayBy.Add(time.Duration(r.IntN(3)-1) * time.Millisecond)
				p, err := d.Pay(d.ctx, sale.Payment{ID: fmt.Sprintf("p-%d-%d", i, n), Reservation: x.ID, Amount: 9900}, now)
				fail("Pay", err, sale.ErrNotFound)
				if err == nil && p.RefundDue {
					refunds.Add(1)
				} else if err == nil {
					paid.Add(1)
				}
			case 3:
				_, err := d.Cancel(d.ctx, x.User, x.ID, Start())
				fail("Cancel", err, sale.ErrNotFound, sale.ErrConflict)
			case 4:
				got, err := d.Expire(d.ctx, late, 3)
				fail("Expire", err)
				expired.Add(int64(len(got)))
			case 5:
				fail("Lose", d.MarkLost(d.ctx, x, Start()), sale.ErrConflict)
				got, err := d.Unreturned(d.ctx, 5)
				fail("Unreturned", err)
				for _, o := range got {
					fail("MarkReturned", d.MarkReturned(d.ctx, o.ID))
				}
			}
		}
	})
	got := d.check(s)
	cancelled.Store(got.Cancelled)
	if got.Paid != paid.Load() || got.Expired != expired.Load() || got.RefundDue != refunds.Load() {
		t.Fatalf("%+v, counted %d paid, %d expired, %d refunds", got, paid.Load(), expired.Load(), refunds.Load())
	}
	var orders int64
	d.must(d.EachOrder(d.ctx, s.ID, func(o sale.Order) error {
		orders++
		if (o.State == sale.Paid) != (o.Payment != "") {
			t.Errorf("order %s is %s, payment %q", o.ID, o.State, o.Payment)
		}
		return nil
	}))
	if orders != got.Pending+got.Paid+got.Expired+got.Cancelled {
		t.Fatalf("EachOrder returned %d orders, want %+v", orders, got)
	}
}

func epochAtOnce(t *testing.T, d *tester) {
	s := d.exposed(1, 1)
	for epoch := int64(1); epoch <= 5; epoch++ {
		var won atomic.Int64
		concurrently(8, func(int) {
			switch _, err := d.NextEpoch(d.ctx, s.ID, epoch, Start()); {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, sale.ErrConflict):
				t.Errorf("NextEpoch: %v", err)
			}
		})
		if won.Load() != 1 {
			t.Fatalf("%d goroutines got epoch %d, want 1", won.Load(), epoch+1)
		}
	}
}

// loseAtOnce marks as lost and places the same reservations: each has one of the two states.
func loseAtOnce(t *testing.T, d *tester) {
	s := d.exposed(100, 1)
	rs := batch(s, 20)
	var lost, orders sync.Map
	concurrently(8, func(i int) {
		for _, r := range rs {
			if i%2 == 0 {
				switch err := d.MarkLost(d.ctx, r, Start()); {
				case err == nil:
					lost.Store(r.ID, true)
				case !errors.Is(err, sale.ErrConflict):
					t.Errorf("MarkLost: %v", err)
				}
				continue
			}
			got, err := d.CreateOrders(d.ctx, 1, []sale.Reservation{r}, Start())
			if err != nil {
				t.Errorf("CreateOrders: %v", err)
			} else if got[0].State == sale.PendingPay {
				orders.Store(r.ID, true)
			}
		}
	})
	for _, r := range rs {
		_, l := lost.Load(r.ID)
		_, o := orders.Load(r.ID)
		if l == o {
			t.Fatalf("lost %v, an order %v, want one of the two", l, o)
		}
	}
	if got := d.check(s); got.Lost+got.Pending != 20 {
		t.Fatalf("%+v, want 20 in all", got)
	}
}

// payAtOnce sends one payment and others many times concurrently.
func payAtOnce(t *testing.T, d *tester) {
	s := d.exposed(1, 1)
	r := d.pendingOrder(s, "a")
	var first, paid atomic.Int64
	concurrently(12, func(i int) {
		p, err := d.Pay(d.ctx, sale.Payment{ID: fmt.Sprint("p", i%3), Reservation: r.ID, Amount: 9900}, r.At)
		if err != nil {
			t.Errorf("Pay: %v", err)
			return
		}
		if !p.Repeated {
			first.Add(1)
			if !p.RefundDue {
				paid.Add(1)
			}
		}
	})
	if got := d.check(s); first.Load() != 3 || paid.Load() != 1 || got.Paid != 1 || got.RefundDue != 2 {
		t.Fatalf("%d accepted, %d paid, %+v, want 3 accepted and 1 paid", first.Load(), paid.Load(), got)
	}
}
