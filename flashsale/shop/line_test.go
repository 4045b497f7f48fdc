package shop_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/shop"
)

// A watched Inventory records the most tokens that were outstanding.
type watched struct {
	sale.Inventory
	mu    sync.Mutex
	most  int64
	over  int64 // how often more than limit were outstanding
	limit int64
}

func (g *watched) Join(ctx context.Context, j sale.JoinRequest) (sale.TicketStatus, error) {
	st, err := g.Inventory.Join(ctx, j)
	c, err2 := g.Counts(ctx, j.Sale, j.Epoch)
	if err2 == nil {
		g.mu.Lock()
		g.most = max(g.most, c.Outstanding)
		if c.Outstanding > g.limit {
			g.over++
		}
		g.mu.Unlock()
	}
	return st, err
}

// TestTokensOut checks that however many shops admit, at most headroom × stock tokens are
// outstanding, also while units are added.
func TestTokensOut(t *testing.T) {
	inWorld(t, func(w *world) {
		g := &watched{Inventory: w.engine, limit: 30}
		w.gate = g
		w.Shop = w.started("a")
		defer w.Shop.Stop()
		desks := []*shop.Shop{w.Shop, w.started("b"), w.started("c"), w.started("d")}
		for _, o := range desks[1:] {
			defer o.Stop()
		}
		d := draft(10)
		d.TokenFor = 30 * time.Second
		s := w.exposed(d)
		w.opens(s)
		join := func(user string) {
			if _, err := desks[int(user[len(user)-1])%4].Join(w.ctx, user, s.ID, ""); err != nil {
				t.Error(err)
			}
		}
		concurrently(500, join)
		g.mu.Lock()
		g.limit = 36
		g.mu.Unlock()
		if _, err := w.AddStock(w.ctx, "m", s.ID, "k", 2); err != nil {
			t.Fatal(err)
		}
		after(4 * time.Second)
		concurrently(500, join)
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.over != 0 || g.most != 36 {
			t.Errorf("more than allowed were outstanding %d times, most %d; want 0, and 36 after units were added", g.over, g.most)
		}
	})
}

func pollers() int {
	if os.Getenv("FLASHSALE_LONG") == "1" {
		return 5000
	}
	return 1500
}

// TestFirstComeFirstServed checks the order of admission: no user who polls as requested is
// admitted before one who joined more than a batch earlier. Waiting users learn within a poll
// and a second that all is sold.
func TestFirstComeFirstServed(t *testing.T) {
	inShop(t, func(w *world) {
		n := pollers()
		d := draft(int64(n / 4))
		s := w.exposed(d)
		w.opens(s)
		var mu sync.Mutex
		got := map[int]time.Time{} // when a token ends, by arrival: the same for a batch
		var soldOut time.Time
		slowest := time.Duration(0)
		paid := 0
		var wg sync.WaitGroup
		for i := range n {
			user := fmt.Sprintf("user-%05d", i)
			turn, err := w.Join(w.ctx, user, s.ID, "")
			if err != nil || turn.Reason != sale.OK {
				t.Fatalf("%s: %+v, %v", user, turn, err)
			}
			wg.Go(func() {
				poll := turn.Poll
				for turn.Reason == sale.OK && turn.State == sale.Waiting {
					poll = turn.Poll
					if poll < 200*time.Millisecond || poll > 20*time.Second {
						t.Errorf("poll %v", poll)
					}
					after(poll)
					if turn, err = w.Status(w.ctx, user, s.ID, turn.Ticket); err != nil {
						t.Error(err)
						return
					}
				}
				if turn.State == sale.Admitted {
					mu.Lock()
					got[i] = turn.Until
					mu.Unlock()
					b, err := w.Buy(w.ctx, user, s.ID, turn.Token, "")
					if err != nil || b.Reason != sale.OK {
						return
					}
					w.pays(user, b.Receipt.Receipt)
					mu.Lock()
					if paid++; paid == int(d.Stock) {
						soldOut = time.Now()
					}
					mu.Unlock()
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if turn.Reason != sale.IsSoldOut {
					t.Errorf("%s: %s, %s", user, turn.State, turn.Reason)
				} else if late := time.Since(soldOut) - poll; !soldOut.IsZero() {
					slowest = max(slowest, late)
				}
			})
		}
		wg.Wait()
		if paid != int(d.Stock) {
			t.Errorf("%d paid of %d", paid, d.Stock)
		}
		// No token ends before that of a user who joined earlier.
		last, inversions := time.Time{}, 0
		for i := range n {
			if until, ok := got[i]; ok {
				if until.Before(last) {
					inversions++
				}
				last = until
			}
		}
		if inversions > 0 {
			t.Errorf("%d inversions beyond a batch", inversions)
		}
		if slowest > time.Second {
			t.Errorf("a waiting user learned %v after the poll that all is sold, want 1s", slowest)
		}
		t.Logf("%d pollers, %d admitted, sold out known within a poll and %v", n, len(got), slowest)
	})
}

// TestLots checks that in a shuffled lobby the place does not depend on when one came.
func TestLots(t *testing.T) {
	inShop(t, func(w *world) {
		n := 2 * pollers()
		d := draft(10)
		d.StartsAt, d.Queue, d.Lobby = time.Now().Add(2*time.Minute), sale.Shuffled, time.Minute
		s := w.exposed(d)
		after(70 * time.Second)
		for i := range n {
			if turn, err := w.Join(w.ctx, fmt.Sprintf("user-%05d", i), s.ID, ""); err != nil || turn.State != sale.Waiting {
				t.Fatalf("%d: %+v, %v", i, turn, err)
			}
		}
		var sx, sy, sxx, syy, sxy float64
		for i := range n {
			turn, err := w.Status(w.ctx, fmt.Sprintf("user-%05d", i), s.ID, "")
			if err != nil || turn.Token != "" {
				t.Fatalf("%d: %+v, %v", i, turn, err)
			}
			x, y := float64(i), float64(turn.Ahead)
			sx, sy, sxx, syy, sxy = sx+x, sy+y, sxx+x*x, syy+y*y, sxy+x*y
		}
		f := float64(n)
		r := (f*sxy - sx*sy) / math.Sqrt((f*sxx-sx*sx)*(f*syy-sy*sy))
		// Of n lots, r has a standard deviation of 1/√n: five of them, and not less than 0.05.
		if math.Abs(r) > max(0.05, 5/math.Sqrt(f)) {
			t.Errorf("rank and arrival of %d correlate by %.3f", n, r)
		}
		t.Logf("rank and arrival of %d correlate by %.3f", n, r)
	})
}

// TestDirect checks that without a queue users are refused while all tokens are in use, with a
// time to retry. Used and expired tokens make space.
func TestDirect(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(2)
		d.Queue, d.Headroom = sale.Direct, 2
		s := w.exposed(d)
		w.opens(s)
		tokens := map[string]string{}
		for i := range 6 {
			user := fmt.Sprint("user-", i)
			turn, err := w.Join(w.ctx, user, s.ID, "")
			switch {
			case err != nil:
				t.Fatal(err)
			case i < 4 && (turn.Token == "" || !turn.New):
				t.Errorf("%s: %+v, want a token", user, turn)
			case i >= 4 && (turn.Reason != sale.NoAdmission || turn.Layer != sale.L3 || turn.RetryAfter <= 0):
				t.Errorf("%s: %+v, want no_admission", user, turn)
			}
			tokens[user] = turn.Token
		}
		if turn, err := w.Join(w.ctx, "user-0", s.ID, ""); err != nil || turn.Token != tokens["user-0"] || turn.New {
			t.Errorf("again: %+v, %v", turn, err)
		}
		if b, err := w.Buy(w.ctx, "user-0", s.ID, tokens["user-0"], ""); err != nil || b.Reason != sale.OK {
			t.Errorf("buy: %+v, %v", b, err)
		}
		after(100 * time.Millisecond)
		if turn, err := w.Join(w.ctx, "user-4", s.ID, ""); err != nil || turn.Token == "" {
			t.Errorf("a used token makes no room: %+v, %v", turn, err)
		}
		after(2500 * time.Millisecond)
		if turn, err := w.Join(w.ctx, "user-5", s.ID, ""); err != nil || turn.Token == "" {
			t.Errorf("passed tokens make no room: %+v, %v", turn, err)
		}
	})
}

// TestTwoShops checks two shops on one inventory and ledger. A user can join in one and buy and
// pay in the other, and as many users buy as there are units.
func TestTwoShops(t *testing.T) {
	inShop(t, func(w *world) {
		other := w.started("b")
		defer other.Stop()
		s := w.exposed(draft(100))
		if v, err := other.View(w.ctx, s.ID); err != nil || v.Phase != sale.Upcoming {
			t.Errorf("the other shop: %+v, %v", v, err)
		}
		w.opens(s)
		desks := []*shop.Shop{w.Shop, other}
		var mu sync.Mutex
		n := 0
		concurrently(400, func(user string) {
			here, there := desks[int(user[len(user)-1])%2], desks[1-int(user[len(user)-1])%2]
			turn := w.admitted(here, user, s.ID)
			if turn.Token == "" {
				return
			}
			b, err := there.Buy(w.ctx, user, s.ID, turn.Token, "k")
			if err != nil || b.Reason != sale.OK {
				return
			}
			again, err := here.Buy(w.ctx, user, s.ID, turn.Token, "k")
			if err != nil || !again.Repeated || again.Receipt.Receipt != b.Receipt.Receipt {
				t.Errorf("%s again: %+v, %v", user, again, err)
			}
			w.order(here, user, b.Receipt.Receipt)
			if p, err := here.Pay(w.ctx, b.Receipt.Receipt, "pay-"+user, 1999); err != nil || p.RefundDue {
				t.Errorf("%s pays: %+v, %v", user, p, err)
			}
			mu.Lock()
			n++
			mu.Unlock()
		})
		after(time.Second)
		if tally := w.agrees(s.ID); n != 100 || tally.Paid != 100 {
			t.Errorf("%d bought, tally %+v", n, tally)
		}
		if a, b := w.Stats(), other.Stats(); a.OrdersCreated+b.OrdersCreated != 100 {
			t.Errorf("%d and %d orders written", a.OrdersCreated, b.OrdersCreated)
		}
		// A pause here is one there at once. The reason for it, as an end, follows within a second.
		if _, err := w.Pause(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		after(500 * time.Millisecond)
		if turn, err := other.Join(w.ctx, "late", s.ID, ""); err != nil || turn.Reason != sale.IsPaused || turn.RetryAfter <= 0 {
			t.Errorf("paused: %+v, %v", turn, err)
		}
		if _, err := other.End(w.ctx, "m", s.ID, true); err != nil {
			t.Fatal(err)
		}
		after(1500 * time.Millisecond)
		if turn, err := w.Join(w.ctx, "late", s.ID, ""); err != nil || turn.Reason != sale.HasEnded {
			t.Errorf("killed: %+v, %v", turn, err)
		}
	})
}
