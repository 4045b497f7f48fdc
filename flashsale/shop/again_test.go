package shop_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// TestOneOrderForOneWish checks that a double click, five tabs and retries make one order. The
// result is the same each time, also after the sale has ended.
func TestOneOrderForOneWish(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(10))
		w.opens(s)
		turn := w.admitted(w, "alice", s.ID)
		var mu sync.Mutex
		receipts, fresh := map[string]int{}, 0
		concurrently(5, func(tab string) {
			for _, key := range []string{"", "click", tab} {
				b, err := w.Buy(w.ctx, "alice", s.ID, turn.Token, key)
				if err != nil || b.Reason != sale.OK {
					t.Errorf("buy: %+v, %v", b, err)
				}
				mu.Lock()
				receipts[b.Receipt.Receipt]++
				if !b.Repeated {
					fresh++
				}
				mu.Unlock()
			}
		})
		if len(receipts) != 1 || fresh != 1 {
			t.Fatalf("%d receipts, %d of them new, want 1 and 1", len(receipts), fresh)
		}
		for receipt := range receipts {
			w.pays("alice", receipt)
		}
		replay := func(when string) {
			t.Helper()
			if b, err := w.Buy(w.ctx, "alice", s.ID, turn.Token, "another"); err != nil || !b.Repeated || receipts[b.Receipt.Receipt] == 0 || b.Receipt.State != sale.Reserved {
				t.Errorf("replay %s: %+v, %v", when, b, err)
			}
		}
		replay("after a while")
		if _, err := w.Pause(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		replay("while paused")
		if _, err := w.End(w.ctx, "m", s.ID, true); err != nil {
			t.Fatal(err)
		}
		replay("after the end")
		after(5 * time.Second)
		if _, err := w.engine.Counts(w.ctx, s.ID, s.Epoch); err == nil {
			t.Error("the inventory's state was not dropped")
		}
		replay("when the inventory is gone")
		if tally := w.agrees(s.ID); tally.Paid != 1 || tally.Pending != 0 {
			t.Errorf("tally %+v", tally)
		}
	})
}

// TestPerUser checks that who may have two units gets two, by two tickets, and no third.
func TestPerUser(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(10)
		d.PerUser = 2
		s := w.exposed(d)
		w.opens(s)
		first := w.buys(w, "alice", s.ID)
		second := w.buys(w, "alice", s.ID)
		if first.Reason != sale.OK || second.Reason != sale.OK || first.Receipt.Receipt == second.Receipt.Receipt {
			t.Fatalf("two units: %+v, %+v", first, second)
		}
		if third := w.buys(w, "alice", s.ID); third.Reason != sale.PerUserLimit || third.Layer != sale.LS {
			t.Errorf("third: %+v", third)
		}
		if turn, err := w.Status(w.ctx, "alice", s.ID, ""); err != nil || turn.State != sale.Spent || len(turn.Reserved) != 2 {
			t.Errorf("turn: %+v, %v", turn, err)
		}
		w.order(w, "alice", first.Receipt.Receipt)
		if r, err := w.Cancel(w.ctx, "alice", first.Receipt.Receipt); err != nil || r.State != sale.Cancelled {
			t.Errorf("cancel: %+v, %v", r, err)
		}
		// A ticket returns its purchase also after its unit was returned, while the sale is
		// paused.
		turn := w.admitted(w, "bob", s.ID)
		won, err := w.Buy(w.ctx, "bob", s.ID, turn.Token, "")
		if err != nil || won.Reason != sale.OK {
			t.Fatalf("bob: %+v, %v", won, err)
		}
		w.order(w, "bob", won.Receipt.Receipt)
		if _, err := w.Cancel(w.ctx, "bob", won.Receipt.Receipt); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Pause(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		if b, err := w.Buy(w.ctx, "bob", s.ID, turn.Token, ""); err != nil || !b.Repeated || b.Receipt.Receipt != won.Receipt.Receipt {
			t.Errorf("replay of what was given back: %+v, %v", b, err)
		}
		if _, err := w.Resume(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		if again := w.buys(w, "alice", s.ID); again.Reason != sale.OK {
			t.Errorf("after a cancellation: %+v", again)
		}
		after(time.Second)
		w.agrees(s.ID)
	})
}

// TestOneUnitOfGuests checks that two clicks at once reserve one unit for a user who may hold one,
// in a sale where others may hold two. A repeated click gets its unit again.
func TestOneUnitOfGuests(t *testing.T) {
	inShop(t, func(w *world) {
		d := draft(10)
		d.PerUser = 2
		s := w.exposed(d)
		w.opens(s)
		guests := w.Limited(1)
		var mu sync.Mutex
		bought, refused := map[string]string{}, 0
		concurrently(5, func(key string) {
			at, err := guests.Click(w.ctx, "alice", s.ID, "", key)
			if err != nil {
				t.Errorf("click: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			if at.Bought {
				bought[key] = at.Reserved[0].Receipt
			} else if at.Reason == sale.PerUserLimit && at.Layer == sale.LS {
				refused++
			}
		})
		if len(bought) != 1 || refused != 4 {
			t.Fatalf("%d units, %d refused clicks, want 1 and 4", len(bought), refused)
		}
		for key, receipt := range bought {
			if at, err := guests.Click(w.ctx, "alice", s.ID, "", key); err != nil || at.Reason != sale.OK || at.Reserved[0].Receipt != receipt {
				t.Errorf("the same click again: %+v, %v", at, err)
			}
		}
		if b := w.buys(guests, "alice", s.ID); b.Reason != sale.PerUserLimit {
			t.Errorf("another purchase: %+v, want refused", b)
		}
		if b := w.buys(w, "alice", s.ID); b.Reason != sale.OK {
			t.Errorf("a purchase of a user who may hold two: %+v", b)
		}
		after(time.Second)
		w.agrees(s.ID)
	})
}

// TestBadTokens checks that what is forged, another's, of another sale, or late gets nothing.
func TestBadTokens(t *testing.T) {
	inShop(t, func(w *world) {
		s, other := w.exposed(draft(5)), w.exposed(draft(5))
		w.opens(s)
		turn := w.admitted(w, "alice", s.ID)
		foreign, err := pass.NewKeys([]byte(strings.Repeat("x", 32)))
		if err != nil {
			t.Fatal(err)
		}
		mine := pass.Token{Sale: s.ID, Epoch: 1, User: "mallory", Ticket: "0123456789abcdef", Batch: "b", Until: time.Now().Add(time.Hour)}
		for name, c := range map[string]struct {
			user, sale, token string
			want              sale.Reason
		}{
			"none":          {"alice", s.ID, "", sale.BadToken},
			"another user":  {"mallory", s.ID, turn.Token, sale.BadToken},
			"another sale":  {"alice", other.ID, turn.Token, sale.BadToken},
			"damaged":       {"alice", s.ID, turn.Token[:len(turn.Token)-1], sale.BadToken},
			"other secret":  {"mallory", s.ID, foreign.Token(mine), sale.BadToken},
			"never issued":  {"mallory", s.ID, w.keys.Token(mine), sale.NotAdmitted},
			"another kind":  {"alice", s.ID, turn.Ticket, sale.BadToken},
			"much too long": {"alice", s.ID, strings.Repeat("A", 1<<20), sale.BadToken},
		} {
			b, err := w.Buy(w.ctx, c.user, c.sale, c.token, "")
			if err != nil || b.Reason != c.want || b.Layer != sale.L3 {
				t.Errorf("%s: %+v, %v; want %s", name, b, err, c.want)
			}
		}
		for _, key := range []string{strings.Repeat("k", 65), "a\nb", "ü"} {
			if _, err := w.Buy(w.ctx, "alice", s.ID, turn.Token, key); !isInvalid(err) {
				t.Errorf("key %q: %v, want ErrInvalid", key, err)
			}
		}
		after(3 * time.Second)
		if b, err := w.Buy(w.ctx, "alice", s.ID, turn.Token, ""); err != nil || b.Reason != sale.AdmissionExpired {
			t.Errorf("late: %+v, %v", b, err)
		}
		if tally := w.agrees(s.ID); tally.Sale.Sold != 0 {
			t.Errorf("tally %+v", tally)
		}
		if _, err := w.Buy(w.ctx, "alice", "nosuchsale", turn.Token, ""); !isNotFound(err) {
			t.Errorf("no sale: %v", err)
		}
		if _, err := w.Order(w.ctx, "alice", "nonsense"); !isNotFound(err) {
			t.Errorf("no receipt: %v", err)
		}
		b := w.buys(w, "bob", s.ID)
		if _, err := w.Order(w.ctx, "alice", b.Receipt.Receipt); !isNotFound(err) {
			t.Errorf("another's receipt: %v", err)
		}
		if _, err := w.Cancel(w.ctx, "alice", b.Receipt.Receipt); !isNotFound(err) {
			t.Errorf("another's receipt to be cancelled: %v", err)
		}
	})
}

// TestNothingEarly checks that no user can buy before the start, whatever the request and the
// steps of the clock.
func TestNothingEarly(t *testing.T) {
	for _, step := range []time.Duration{0, -time.Minute, time.Hour} {
		inShop(t, func(w *world) {
			d := draft(5)
			d.StartsAt, d.EndsAt = time.Now().Add(2*time.Minute), time.Now().Add(3*time.Hour)
			d.Queue, d.Lobby = sale.Shuffled, time.Minute
			s := w.exposed(d)
			after(90 * time.Second) // in the lobby
			if turn, err := w.Join(w.ctx, "alice", s.ID, ""); err != nil || turn.State != sale.Waiting || turn.View.Phase != sale.InLobby || !turn.New {
				t.Errorf("step %v: join in the lobby: %+v, %v", step, turn, err)
			}
			w.step.Lock()
			w.off += step
			w.step.Unlock()
			opens := s.StartsAt.Add(-step)
			for time.Now().Before(opens) && step <= 0 {
				turn, err := w.Status(w.ctx, "alice", s.ID, "")
				if err != nil || turn.State != sale.Waiting || turn.Reason != sale.OK {
					t.Fatalf("step %v, %v before the start: %+v, %v", step, time.Until(opens), turn, err)
				}
				after(777 * time.Millisecond)
			}
			if b := w.buys(w, "alice", s.ID); b.Reason != sale.OK || b.Receipt.At.Before(s.StartsAt) {
				t.Errorf("step %v: %+v, and the start was %v", step, b, s.StartsAt)
			}
		})
	}
}

// TestClickWithoutClient checks that a click and a payment whose client has disconnected complete.
func TestClickWithoutClient(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(1))
		w.opens(s)
		gone, disconnect := context.WithCancel(w.ctx)
		disconnect()
		at, err := w.Shop.Click(gone, "alice", s.ID, "", "k")
		if err != nil || !at.Bought {
			t.Fatalf("click: %+v, %v", at, err)
		}
		after(time.Second) // the order is written
		paid, err := w.Pay(gone, at.Reserved[0].Receipt, "p", at.Reserved[0].Price)
		if err != nil || paid.Order.State != sale.Paid {
			t.Errorf("payment: %+v, %v", paid, err)
		}
	})
}
