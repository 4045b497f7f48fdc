package shop_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
)

// An estimated is an estimate that a visitor received.
type estimated struct {
	at       time.Time
	eta      time.Duration
	unlikely bool
}

// A waitingRoom runs visitors against a whole shop, and compares each estimate with the wait that
// the visitor had from then on.
type waitingRoom struct {
	*world
	sale   sale.Sale
	random *rand.Rand
	mu     sync.Mutex
	all    []estimated
	waits  []time.Duration
}

// add adds the estimates of a visitor who was admitted at a time.
func (r *waitingRoom) add(got []estimated, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range got {
		r.all = append(r.all, e)
		r.waits = append(r.waits, at.Sub(e.at))
	}
}

// check checks that 90 % of the estimates are within a quarter or five seconds of the wait.
func (r *waitingRoom) check(least int) {
	r.Helper()
	hits, strict, long, unlikely, unknown := 0, 0, 0, 0, 0
	for i, e := range r.all {
		off := math.Abs((e.eta - r.waits[i]).Seconds())
		w := r.waits[i].Seconds()
		switch {
		case e.unlikely:
			unlikely++
		case e.eta == 0:
			unknown++
		case off <= max(w/4, 5):
			hits++
		}
		if w >= 20 {
			long++
			if !e.unlikely && off <= w/4 {
				strict++
			}
		}
	}
	n := len(r.all)
	r.Logf("%d estimates, %d right (%.1f %%); %d of %d with waits from 20 s within a quarter; %d unlikely, %d unknown", n, hits, 100*float64(hits)/float64(n), strict, long, unlikely, unknown)
	if n < least || float64(hits) < 0.9*float64(n) {
		r.Errorf("%d of %d estimates are right, want 90 %% of at least %d", hits, n, least)
	}
}

// inWaitingRoom runs f in a room of a sale with these units.
func inWaitingRoom(t *testing.T, units int64, change func(*sale.Draft), f func(*waitingRoom)) {
	inShop(t, func(w *world) {
		d := draft(units)
		change(&d)
		s := w.exposed(d)
		w.opens(s)
		r := &waitingRoom{world: w, sale: s, random: rand.New(rand.NewPCG(1, 2))}
		f(r)
	})
}

// TestWaitForTurns lets visitors wait for turns, each of which takes a while and ends with a
// purchase or without.
func TestWaitForTurns(t *testing.T) {
	inWaitingRoom(t, 10, func(d *sale.Draft) { d.Headroom, d.TokenFor = 1, 30*time.Second }, func(r *waitingRoom) {
		var all sync.WaitGroup
		for i := range 200 {
			user := fmt.Sprintf("user-%04d", i)
			took := time.Duration(5+r.random.IntN(20)) * time.Second
			all.Go(func() {
				var got []estimated
				st, err := r.Join(r.ctx, user, r.sale.ID, "")
				for err == nil && st.State == sale.Waiting {
					if now := time.Now(); now.Sub(r.sale.StartsAt) > 45*time.Second {
						got = append(got, estimated{now, st.ETA, st.Unlikely})
					}
					after(st.Poll)
					st, err = r.Status(r.ctx, user, r.sale.ID, st.Ticket)
				}
				if err != nil || st.State != sale.Admitted {
					t.Errorf("%s: %+v, %v", user, st, err)
					return
				}
				r.add(got, time.Now())
				for end := time.Now().Add(took); time.Now().Before(end); after(time.Second) {
					if _, err := r.Status(r.ctx, user, r.sale.ID, st.Ticket); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		r.check(1000)
	})
}

// TestWaitForUnits lets visitors click while all units are taken. Units return at a steady rate,
// from orders that are unpaid, and each goes to the first visitor.
func TestWaitForUnits(t *testing.T) {
	for _, share := range []int{0, 1, 3} {
		t.Run(fmt.Sprintf("%d of 10 pay", share), func(t *testing.T) {
			inWaitingRoom(t, 40, func(d *sale.Draft) { d.PayWithin = 40 * time.Second }, func(r *waitingRoom) {
				var all sync.WaitGroup
				for i := range 160 - 20*share { // each of them can have a unit
					user := fmt.Sprintf("user-%04d", i)
					pays := r.random.IntN(10) < share
					after(250 * time.Millisecond)
					all.Go(func() { r.waitsForUnit(user, pays) })
				}
				all.Wait()
				r.check(700)
			})
		})
	}
}

// waitsForUnit clicks until the user has a unit or all are sold, and pays soon or not at all.
func (r *waitingRoom) waitsForUnit(user string, pays bool) {
	var got []estimated
	st, err := r.Click(r.ctx, user, r.sale.ID, "", "click")
	for err == nil && st.State == sale.Waiting {
		got = append(got, estimated{time.Now(), st.ETA, st.Unlikely})
		after(st.Poll)
		st, err = r.Click(r.ctx, user, r.sale.ID, st.Ticket, "")
	}
	if err != nil {
		r.Errorf("%s: %v", user, err)
	}
	if !st.Bought {
		return
	}
	r.add(got, time.Now())
	if pays {
		after(5 * time.Second)
		r.pays(user, st.Reserved[0].Receipt)
	}
}
