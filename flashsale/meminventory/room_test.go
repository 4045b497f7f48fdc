package meminventory_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/inventorytest"
)

// room simulates the waiting room of one sale in virtual time, in steps of 100 ms.
type room struct {
	*testing.T
	clock     *inventorytest.Clock
	inventory *meminventory.Inventory
	visitors  []*visitor
	n         int
}

// visitor polls as the inventory requests, and ends each reservation after a time.
type visitor struct {
	user     string
	buys     bool // reserves in the call that admits it
	gone     bool // does not poll any more
	again    bool // joins again after a reservation
	fresh    bool // joins again as another user
	holdFor  time.Duration
	pays     bool
	poll     time.Time // the next one
	until    time.Time // the end of the reservation
	held     *sale.Reservation
	paid     bool
	boughtAt time.Time
}

const step = 100 * time.Millisecond

func newRoom(t *testing.T, stock int64, payWithin time.Duration) *room {
	r := &room{T: t, clock: inventorytest.NewClock()}
	var err error
	if r.inventory, err = meminventory.New(meminventory.Config{Clock: r.clock.Now}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.inventory.Stop)
	now := r.clock.Now()
	s := sale.Sale{ID: "s", Epoch: 1, State: sale.Exposed, Draft: sale.Draft{Stock: stock, PerUser: 1, Headroom: 3, Queue: sale.Fifo,
		StartsAt: now, EndsAt: now.Add(24 * time.Hour), PayWithin: payWithin, TokenFor: 30 * time.Second}}
	if err := r.inventory.Open(t.Context(), sale.InitialState{Sale: s}); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *room) id() string { r.n++; return fmt.Sprintf("identifier-%09d", r.n) }

func (r *room) add(v visitor) *visitor {
	v.user = r.id()
	r.visitors = append(r.visitors, &v)
	r.join(&v)
	return &v
}

func (r *room) join(v *visitor) {
	j := sale.JoinRequest{Sale: "s", Epoch: 1, User: v.user, Ticket: r.id()}
	if v.buys {
		j.Reservation = r.id()
	}
	st, err := r.inventory.Join(r.Context(), j)
	if err != nil {
		r.Fatal(err)
	}
	r.took(v, st)
}

// took applies a status to a visitor.
func (r *room) took(v *visitor, st sale.TicketStatus) {
	now := r.clock.Now()
	v.poll = now.Add(st.Poll)
	switch {
	case st.State == sale.Spent && st.Last != nil && v.held == nil && st.Reason == sale.OK:
		v.held, v.boughtAt, v.until = st.Last, now, now.Add(v.holdFor)
	case st.Reason == sale.PerUserLimit || st.State == sale.TicketExpired:
		v.gone = true
	}
}

// advance moves the clock by one step. Visitors whose time has come poll, pay or return a unit.
func (r *room) advance() {
	r.clock.Move(step)
	now := r.clock.Now()
	for _, v := range r.visitors {
		switch {
		case v.held != nil && !v.paid && !now.Before(v.until):
			if v.paid = v.pays; v.paid {
				continue
			}
			if _, err := r.inventory.Return(r.Context(), "s", 1, v.user, v.held.ID, true); err != nil {
				r.Fatal(err)
			}
			v.held = nil
			if v.gone = !v.again; v.again {
				if v.fresh {
					v.user = r.id()
				}
				r.join(v)
			}
		case v.held == nil && !v.gone && !now.Before(v.poll):
			p := sale.PollRequest{Sale: "s", Epoch: 1, User: v.user}
			if v.buys {
				p.Reservation = r.id()
			}
			st, err := r.inventory.Poll(r.Context(), p)
			if err != nil {
				r.Fatal(err)
			}
			r.took(v, st)
		}
	}
}

func (r *room) free() int64 {
	c, err := r.inventory.Counts(r.Context(), "s", 1)
	if err != nil {
		r.Fatal(err)
	}
	return c.Free
}

// present returns how many visitors wait for a unit and poll.
func (r *room) present() (n int) {
	for _, v := range r.visitors {
		if v.held == nil && !v.gone {
			n++
		}
	}
	return n
}

// TestAbandonedTickets lets 300 visitors join and never poll. The buyer behind them is admitted
// when their presence ends.
func TestAbandonedTickets(t *testing.T) {
	r := newRoom(t, 10, 15*time.Minute)
	for range 300 {
		r.add(visitor{}).gone = true
	}
	buyer := r.add(visitor{buys: true, holdFor: time.Hour})
	began := r.clock.Now()
	for buyer.held == nil && r.clock.Now().Sub(began) < 10*time.Minute {
		r.advance()
	}
	waited := r.clock.Now().Sub(began)
	t.Logf("the buyer behind 300 abandoned tickets has a unit of 10 after %v", waited)
	if waited > 25*time.Second {
		t.Errorf("the buyer waited %v, want at most 25s", waited)
	}
}

// TestNeverIdle runs 58 sales whose visitors leave, pay late or not at all. No unit is free for
// more than six seconds while a visitor is present, and no sale ends with a free unit and a
// present visitor.
func TestNeverIdle(t *testing.T) {
	longest, unsold := time.Duration(0), 0
	for round := range uint64(58) {
		random := rand.New(rand.NewPCG(round, 2))
		r := newRoom(t, 10, 30*time.Second)
		leaves := map[*visitor]time.Time{}
		for range 60 {
			v := r.add(visitor{buys: true, holdFor: 30 * time.Second})
			if v.pays = random.IntN(2) == 0; v.pays {
				v.holdFor = time.Duration(1+random.IntN(20)) * time.Second
			}
			if random.IntN(10) < 4 {
				leaves[v] = r.clock.Now().Add(time.Duration(random.IntN(90_000)) * time.Millisecond)
			}
		}
		idle := time.Duration(0)
		for at := time.Duration(0); at < 3*time.Minute; at += step {
			r.advance()
			for v, when := range leaves {
				if v.held == nil && !r.clock.Now().Before(when) {
					v.gone = true
				}
			}
			if r.free() > 0 && r.present() > 0 {
				idle += step
				longest = max(longest, idle)
			} else {
				idle = 0
			}
		}
		if r.free() > 0 && r.present() > 0 {
			unsold++
		}
		r.inventory.Stop()
	}
	t.Logf("a unit was free for %v at most while a visitor was present; %d of 58 sales ended with unsold units and present visitors", longest, unsold)
	if longest > 6*time.Second+step || unsold > 0 {
		t.Errorf("free and present together for %v, %d sales with unsold units; want at most 6s and none", longest, unsold)
	}
}

// hoard returns the share of samples in which a hoarder holds a unit: ten of them, who never pay,
// against buyers who come every second.
func hoard(t *testing.T, fresh bool) float64 {
	r := newRoom(t, 10, 30*time.Second)
	var hoarders []*visitor
	for range 10 {
		hoarders = append(hoarders, r.add(visitor{buys: true, holdFor: 30 * time.Second, again: true, fresh: fresh}))
	}
	for range 30 {
		r.add(visitor{buys: true, holdFor: 10 * time.Second})
	}
	samples, held := 0, 0
	for at := time.Duration(0); at < 30*time.Minute; at += step {
		r.advance()
		if at%time.Second != 0 {
			continue
		}
		if r.add(visitor{buys: true, holdFor: 10 * time.Second}); len(r.visitors) > 300 {
			r.visitors = slices.DeleteFunc(r.visitors, func(v *visitor) bool { return v.gone })
		}
		samples++
		for _, h := range hoarders {
			if h.held != nil {
				held++
				break
			}
		}
	}
	return float64(held) / float64(samples)
}

// TestHoarders checks that visitors who never pay hold a unit in at most a tenth of the samples.
// With a new account for every ticket, as without penalties, they hold one most of the time.
func TestHoarders(t *testing.T) {
	before, now := hoard(t, true), hoard(t, false)
	t.Logf("hoarders hold a unit in %.1f %% of the samples, %.1f %% without penalties", 100*now, 100*before)
	if now > 0.1 || before < 0.3 {
		t.Errorf("hoarders hold a unit in %.1f %% of the samples, %.1f %% without penalties; want at most 10 %%, and above 30 %%", 100*now, 100*before)
	}
}
