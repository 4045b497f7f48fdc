package shop_test

import (
	"encoding/csv"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/cashier"
	"github.com/floodweir/weir/flashsale/sale"
)

// TestContact checks that only the buyer and the merchant can read the contact of an order.
func TestContact(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(2))
		w.opens(s)
		b := w.buys(w, "alice", s.ID)
		r := b.Receipt.Receipt
		who := sale.Contact{Name: "=HYPERLINK(1)", Phone: "+86 138-0013-8000"}
		var got sale.Receipt
		w.until("the order to be written", 5*time.Second, func() bool {
			var err error
			if got, err = w.SetContact(w.ctx, "alice", r, who); err != nil && !errors.Is(err, sale.ErrUnavailable) {
				t.Fatal(err)
			}
			return err == nil
		})
		if got.Contact != who || got.State != sale.PendingPay || got.Receipt != r {
			t.Errorf("SetContact = %+v of %q", got, got.Contact.Name)
		}
		if _, err := w.SetContact(w.ctx, "bob", r, who); !isNotFound(err) {
			t.Errorf("of another's: %v", err)
		}
		if _, err := w.SetContact(w.ctx, "alice", "nothing", who); !isNotFound(err) {
			t.Errorf("of nothing: %v", err)
		}
		if _, err := w.SetContact(w.ctx, "alice", r, sale.Contact{Name: "a"}); !errors.Is(err, sale.ErrInvalid) {
			t.Errorf("without a phone: %v", err)
		}
		w.pays("alice", r)
		who.Name = "王小明"
		if _, err := w.SetContact(w.ctx, "alice", r, sale.Contact{Name: " 王小明 ", Phone: who.Phone}); err != nil {
			t.Errorf("of a paid order: %v", err)
		}
		if got := w.order(w, "alice", r); got.Contact != who {
			t.Errorf("Order has %q %q", got.Contact.Name, got.Contact.Phone)
		}
		if all, err := w.Orders(w.ctx, "alice"); err != nil || len(all) != 1 || all[0].Contact != who {
			t.Errorf("Orders: %d, %v", len(all), err)
		}
		if all, err := w.RecentOrders(w.ctx, "m", s.ID, ""); err != nil || len(all) != 1 || all[0].Contact != who {
			t.Errorf("Recent: %d, %v", len(all), err)
		}
		if _, err := w.RecentOrders(w.ctx, "n", s.ID, ""); !isNotFound(err) {
			t.Errorf("Recent of another merchant: %v", err)
		}
		// Asked again for the unit, the answer says what it said: of a session alone.
		if turn, err := w.Status(w.ctx, "alice", s.ID, ""); err != nil || len(turn.Reserved) != 1 || turn.Reserved[0].Contact != (sale.Contact{}) {
			t.Errorf("Turn: %+v, %v", turn, err)
		}
		c := w.buys(w, "carol", s.ID)
		w.order(w, "carol", c.Receipt.Receipt)
		if _, err := w.Cancel(w.ctx, "carol", c.Receipt.Receipt); err != nil {
			t.Fatal(err)
		}
		if _, err := w.SetContact(w.ctx, "carol", c.Receipt.Receipt, who); !errors.Is(err, sale.ErrConflict) {
			t.Errorf("of a cancelled order: %v", err)
		}
		var out strings.Builder
		if err := w.Report(w.ctx, "m", s.ID, true, &out); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || len(rows) != 4 {
			t.Fatalf("%v:\n%s", err, out.String())
		}
		n := len(rows[0])
		if h, a := rows[0][n-8:n-6], rows[1][n-8:n-6]; h[0] != "name" || h[1] != "phone" || a[0] != "王小明" || a[1] != "'+86 138-0013-8000" {
			t.Errorf("report: %q %q", h, a)
		}
	})
}

// TestAddress checks that a sale decides whether an order has an address, and that an order
// which needs one is paid with it alone. The report and the merchant's list show it.
func TestAddress(t *testing.T) {
	inShop(t, func(w *world) {
		sales := map[sale.AddressRule]sale.Sale{}
		for _, rule := range []sale.AddressRule{sale.NoAddress, sale.AddressOptional, sale.AddressRequired} {
			d := draft(2)
			d.Address, d.Price = rule, 0
			sales[rule] = w.exposed(d)
		}
		w.opens(sales[sale.NoAddress])
		k, err := cashier.New(cashier.Config{Ledger: w.ledger, Shop: w.Shop, Keys: w.keys})
		if err != nil {
			t.Fatal(err)
		}
		where := sale.Address{Country: "CN", City: "杭州", Street: "=1+1"}
		who := sale.Contact{Name: "王小明", Phone: "12345"}
		for rule, s := range sales {
			r := w.buys(w, "alice", s.ID).Receipt.Receipt
			w.order(w, "alice", r)
			got, err := w.SetContact(w.ctx, "alice", r, who)
			if err != nil || got.Contact != who || got.Sale.Address != rule {
				t.Fatalf("%s: SetContact = %+v, %v", rule, got, err)
			}
			if rule == sale.AddressRequired {
				_, _, err := k.Checkout(w.ctx, "alice", r, "https://shop.example")
				if f := sale.FieldErrors(err); !errors.Is(err, sale.ErrInvalid) || len(f) != 3 || f[0].Field != "country" {
					t.Errorf("a payment without an address: %v, want the fields country, city and street", err)
				}
				if got := w.order(w, "alice", r); got.State != sale.PendingPay {
					t.Errorf("without an address the order is %s", got.State)
				}
			}
			with := who
			with.Address = where
			switch got, err := w.SetContact(w.ctx, "alice", r, with); {
			case rule == sale.NoAddress && !errors.Is(err, sale.ErrInvalid):
				t.Errorf("%s: an address: %v, want ErrInvalid", rule, err)
			case rule != sale.NoAddress && (err != nil || got.Contact != with):
				t.Errorf("%s: SetContact = %+v, %v", rule, got, err)
			}
			if got, _, err := k.Checkout(w.ctx, "alice", r, "https://shop.example"); err != nil || got.State != sale.Paid {
				t.Errorf("%s: Checkout = %s, %v", rule, got.State, err)
			}
			var out strings.Builder
			if err := w.Report(w.ctx, "m", s.ID, true, &out); err != nil {
				t.Fatal(err)
			}
			if has := strings.Contains(out.String(), ",王小明,12345,CN,杭州,'=1+1,,,1\r\n"); has != (rule != sale.NoAddress) {
				t.Errorf("%s: the report has an address: %v:\n%s", rule, has, out.String())
			}
			if all, err := w.RecentOrders(w.ctx, "m", s.ID, ""); err != nil || len(all) != 1 || (all[0].Contact.Address == where) != (rule != sale.NoAddress) {
				t.Errorf("%s: RecentOrders: %v, %v", rule, all, err)
			}
		}
	})
}

// TestTicketsOfAClosedSale checks that who has a ticket keeps it while the sale is paused, and who holds
// a unit sees it whatever the sale does.
func TestTicketsOfAClosedSale(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(1))
		w.opens(s)
		held := w.buys(w, "holder", s.ID)
		w.order(w, "holder", held.Receipt.Receipt)
		waits, err := w.Join(w.ctx, "waiter", s.ID, "")
		if err != nil || waits.State != sale.Waiting {
			t.Fatalf("waiter: %+v, %v", waits, err)
		}
		say := func(user string, place sale.TicketState, reason sale.Reason, phase sale.Phase, holds int) {
			t.Helper()
			after(300 * time.Millisecond)
			got, err := w.Status(w.ctx, user, s.ID, waits.Ticket)
			if err != nil || got.State != place || got.Reason != reason || got.View.Phase != phase || len(got.Reserved) != holds {
				t.Errorf("%s: place %q, reason %q, phase %q, %d held, %v; want %q, %q, %q, %d",
					user, got.State, got.Reason, got.View.Phase, len(got.Reserved), err, place, reason, phase, holds)
			}
		}
		say("waiter", sale.Waiting, sale.OK, sale.AllTaken, 0)
		if _, err := w.Pause(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		say("waiter", sale.Waiting, sale.OK, sale.PhasePaused, 0)
		say("holder", sale.Spent, sale.OK, sale.PhasePaused, 1)
		say("other", sale.NoTicket, sale.IsPaused, sale.PhasePaused, 0)
		if got, err := w.Join(w.ctx, "late", s.ID, ""); err != nil || got.Reason != sale.IsPaused {
			t.Errorf("who joins while it is paused: %+v, %v", got, err)
		}
		if _, err := w.Resume(w.ctx, "m", s.ID); err != nil {
			t.Fatal(err)
		}
		say("waiter", sale.Waiting, sale.OK, sale.AllTaken, 0)
		w.pays("holder", held.Receipt.Receipt)
		say("waiter", sale.Waiting, sale.IsSoldOut, sale.SoldOut, 0)
		say("holder", sale.Spent, sale.OK, sale.SoldOut, 1)
		if _, err := w.End(w.ctx, "m", s.ID, false); err != nil {
			t.Fatal(err)
		}
		w.until("the inventory's state to be dropped", 10*time.Second, func() bool {
			_, err := w.engine.Counts(w.ctx, s.ID, s.Epoch)
			return err != nil
		})
		after(2 * time.Second)
		say("holder", sale.Spent, sale.OK, sale.PhaseEnded, 1)
		say("waiter", sale.NoTicket, sale.HasEnded, sale.PhaseEnded, 0)
		if got, err := w.Status(w.ctx, "holder", s.ID, ""); err != nil || len(got.Reserved) != 1 || got.Reserved[0].State != sale.Paid {
			t.Errorf("holder at the end: %+v, %v", got.Reserved, err)
		}
	})
}

// TestPollsFitTheLimitOfAUser checks that a client which polls as requested sends at most two
// requests per second after the initial burst.
func TestPollsFitTheLimitOfAUser(t *testing.T) {
	inShop(t, func(w *world) {
		s := w.exposed(draft(1))
		w.opens(s)
		held := w.buys(w, "holder", s.ID)
		w.order(w, "holder", held.Receipt.Receipt)
		turn, err := w.Join(w.ctx, "waiter", s.ID, "")
		for i := range 10 {
			if err != nil || turn.State != sale.Waiting {
				t.Fatalf("%+v, %v", turn, err)
			}
			if least := []time.Duration{200, 700}[min(i, 1)] * time.Millisecond; turn.Poll < least || turn.View.Poll < 700*time.Millisecond {
				t.Errorf("question %d: again in %v (view: %v), want %v at least", i, turn.Poll, turn.View.Poll, least)
			}
			after(turn.Poll)
			turn, err = w.Status(w.ctx, "waiter", s.ID, turn.Ticket)
		}
	})
}
