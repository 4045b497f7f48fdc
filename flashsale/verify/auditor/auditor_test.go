package auditor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/calllog"
)

// TestNoViolations audits a sale without a violation.
func TestNoViolations(t *testing.T) {
	r := newFixture(t).audit()
	for _, name := range auditor.Invariants() {
		f := r.Findings[name]
		if f.Violations != 0 || f.Checks == 0 {
			t.Errorf("%s: %d violations in %d checks, want 0 violations and at least 1 check: %s", name, f.Violations, f.Checks, strings.Join(f.Examples, "; "))
		}
	}
	if len(r.Errors) != 0 {
		t.Errorf("errors %q, want none", r.Errors)
	}
}

// TestRefunded audits a sale whose merchant refunded a paid order, before and after the refund.
func TestRefunded(t *testing.T) {
	w := newFixture(t)
	a := w.open()
	if _, err := a.Final(t.Context(), auditor.Facts{}); err != nil {
		t.Fatal(err)
	}
	w.refund()
	r, err := a.Final(t.Context(), w.facts)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range r.Findings {
		if f.Violations != 0 {
			t.Errorf("%s: %s", name, strings.Join(f.Examples, "; "))
		}
	}
}

// TestDetects breaks one row, observation or state, and the auditor must report the invariant.
func TestDetects(t *testing.T) {
	sql := func(statements string) func(*fixture) { return func(w *fixture) { w.exec(statements) } }
	for _, c := range []struct {
		name   string
		damage func(*fixture)
		want   auditor.Invariant
		text   string
	}{
		{"one order more than units", func(w *fixture) {
			w.buyer(7, 4500, "paid", "s1")
			w.exec(`UPDATE sales SET sold = 4, paid = 4`)
		}, auditor.NoOversell, "4 units of orders are pending or paid, stock is 3"},
		{"a unit that was not counted", sql(`UPDATE sales SET sold = 2 WHERE id = 's1'`), auditor.NoOversell, "counter sold is 2"},
		{"a payment that was not counted", sql(`UPDATE sales SET paid = 2 WHERE id = 's1'`), auditor.NoOversell, "counter paid is 2"},
		{"stock without a movement", sql(`UPDATE sales SET stock = 4 WHERE id = 's1'`), auditor.NoOversell, "stock movements add up to 3, stock is 4"},
		{"an order without a movement", sql(`DELETE FROM movements WHERE reservation = 'r1'`), auditor.NoOversell, "0 units were sold"},
		{"a unit returned twice", sql(`INSERT INTO movements (sale, kind, units, reservation, at) VALUES ('s1', 'returned', 1, 'r2', {1})`),
			auditor.NoOversell, "were returned than sold before"},
		{"a movement below zero", sql(`UPDATE movements SET units = -9 WHERE reservation = 'r1'`), auditor.NoOversell, "of 3 units are free"},
		{"an expired order whose unit did not return", sql(`DELETE FROM movements WHERE kind = 'returned'`), auditor.NoOversell, "1 units were sold and 0 returned"},

		{"less paid than wanted", func(w *fixture) {
			w.facts.Demand["s1"] = 5
			w.exec(`UPDATE orders SET state = 'expired', payment = NULL WHERE reservation = 'r4'`)
		},
			auditor.NoUndersell, "2 of 3 are paid"},
		{"a free unit that cannot be bought", func(w *fixture) {
			w.exec(`DELETE FROM orders WHERE reservation = 'r4'; DELETE FROM movements WHERE reservation = 'r4'; UPDATE sales SET sold = 2, paid = 2`)
		}, auditor.NoUndersell, "1 units are free, 0 can be bought"},
		{"a unit that was not returned to the inventory", sql(`UPDATE orders SET returned = 0 WHERE reservation = 'r2'`), auditor.NoUndersell, "were not returned to the inventory"},

		{"a user with two units", sql(`UPDATE orders SET usr = 'u1', slot = 2 WHERE reservation = 'r3'`), auditor.PerUser, "user u1 holds 2 units"},
		{"a slot twice", sql(`UPDATE orders SET usr = 'u1' WHERE reservation = 'r3'`), auditor.PerUser, "slot 1 of 1"},
		{"a slot above the limit", sql(`UPDATE orders SET slot = 2 WHERE reservation = 'r3'`), auditor.PerUser, "slot 2 of 1"},
		{"an order with more units than allowed", sql(`UPDATE orders SET quantity = 2 WHERE reservation = 'r3'`), auditor.PerUser, "order r3 has 2 units, want 1 to 1"},
		{"two units for the price of one", sql(`UPDATE orders SET quantity = 2 WHERE reservation = 'r3'`), auditor.PayOrTimeout, "order r3 of 2 units has price 500, want 1000"},
		{"two units of which one was sold", sql(`UPDATE orders SET quantity = 2 WHERE reservation = 'r3'`), auditor.NoOversell, "1 units were sold and 0 returned, want 2 and 0"},
		{"two units that the inventory has as one", sql(`UPDATE orders SET quantity = 2 WHERE reservation = 'r3'`), auditor.InventoryMatchesLedger, "r3 is only in the inventory"},

		{"two orders of a reservation", sql(`INSERT INTO orders SELECT * FROM orders WHERE reservation = 'r1'`), auditor.OneOrder, "has two rows"},
		{"two orders of a ticket", sql(`UPDATE orders SET ticket = 'ticket1'`), auditor.OneOrder, "ticket ticket1 has two orders"},
		{"an order that is a dead letter", func(w *fixture) {
			if _, err := w.db.Exec(`INSERT INTO buried VALUES ('s1', 1, 'e', 5, '{"id":"r1"}', '', 'why', 1)`); err != nil {
				w.t.Fatal(err)
			}
		}, auditor.OneOrder, "is an order and a dead letter"},
		{"an order of a future epoch", sql(`UPDATE orders SET epoch = 2 WHERE reservation = 'r1'`), auditor.OneOrder, "has epoch 2"},
		{"movements without an order", sql(`INSERT INTO movements (sale, kind, units, reservation, at) VALUES ('s1', 'sold', -1, 'r99', {1})`), auditor.OneOrder, "r99, which is not an order"},
		{"an order without a call", func(w *fixture) { w.of("u3", calllog.Buy).Status = 410 }, auditor.OneOrder, "has no granted and no unanswered call"},
		{"a reservation without an order", func(w *fixture) { w.of("u3", calllog.Buy).Receipt = "r77" }, auditor.OneOrder, "it is not recorded"},
		{"a reservation of another user", sql(`UPDATE orders SET usr = 'u9' WHERE reservation = 'r3'`), auditor.OneOrder, "it is recorded for u9"},
		{"an acknowledged reservation that is lost", func(w *fixture) {
			w.exec(`UPDATE orders SET state = 'lost' WHERE reservation = 'r3'`)
		}, auditor.OneOrder, "r3 of u3 is lost, although no inventory failed"},
		{"a response without a receipt", func(w *fixture) { w.of("u3", calllog.Buy).Receipt = "" }, auditor.OneOrder, "without a receipt"},
		{"a state that goes backwards", func(w *fixture) {
			o := *w.of("u1", calllog.Look)
			o.Sent, o.At = w.at(99000), w.at(99001)
			w.observe(o)
		}, auditor.OneOrder, "received state paid for r1, and later pending_pay"},
		{"a state that the ledger never had", func(w *fixture) { w.of("u2", calllog.Look).State = "cancelled" }, auditor.OneOrder, "received state cancelled for r2, the ledger has expired"},

		{"an order that never expires", func(w *fixture) { w.exec(`UPDATE orders SET state = 'pending_pay' WHERE reservation = 'r2'`) }, auditor.TicketsEnd, "r2 is still pending"},
		{"an order long after its deadline", func(w *fixture) {
			w.facts.Settled = false
			w.exec(`UPDATE orders SET state = 'pending_pay' WHERE reservation = 'r2'`)
		}, auditor.TicketsEnd, "pending 30s after their payment deadline"},
		{"a buyer without a final response", func(w *fixture) {
			w.of("u5", calllog.Poll).Status, w.of("u5", calllog.Poll).Reason = 429, "too_many"
		}, auditor.TicketsEnd, "the last response to u5"},
		{"a turn without an end", func(w *fixture) { w.of("u1", calllog.Poll).Until = w.at(-60000) }, auditor.TicketsEnd, "received admitted until"},
		{"a wait without an end", func(w *fixture) { o := w.of("u5", calllog.Join); o.Sent, o.At = w.at(3700000), w.at(3700001) }, auditor.TicketsEnd, "the sale ended"},

		{"paid and expired", sql(`UPDATE orders SET state = 'expired', payment = NULL WHERE reservation = 'r1'`), auditor.PayOrTimeout, "has 1 accepted payments"},
		{"a refund whose money does not go back", func(w *fixture) {
			w.refund()
			w.exec(`DELETE FROM payments WHERE id = 'p1'`)
		}, auditor.PayOrTimeout, "0 payments of its price go back"},
		{"a refund of which the order is paid", sql(`UPDATE orders SET note = 'refunded' WHERE reservation = 'r1'`), auditor.PayOrTimeout, "which is paid"},
		{"a refund whose unit is not free", func(w *fixture) {
			w.refund()
			w.exec(`DELETE FROM movements WHERE kind = 'returned' AND reservation = 'r1'`)
		}, auditor.NoOversell, "1 units were sold and 0 returned"},
		{"sold out after a refund", func(w *fixture) {
			w.refund()
			o := w.of("u5", calllog.Poll)
			o.Sent, o.At = w.at(96200), w.at(96201)
		}, auditor.FairQueue, "received sold_out"},
		{"paid without a payment", sql(`DELETE FROM payments WHERE id = 'p1'`), auditor.PayOrTimeout, "is paid and has 0 accepted payments"},
		{"paid too late", sql(`UPDATE payments SET at = {99000} WHERE id = 'p1'`), auditor.PayOrTimeout, "has payment deadline"},
		{"paid too little", sql(`UPDATE payments SET amount = 1 WHERE id = 'p1'`), auditor.PayOrTimeout, "was paid with 1"},
		{"another payment", sql(`UPDATE orders SET payment = 'p9' WHERE reservation = 'r1'`), auditor.PayOrTimeout, `has payment "p9"`},
		{"expired too early", sql(`UPDATE orders SET changed = {3000} WHERE reservation = 'r2'`), auditor.PayOrTimeout, "it expired at"},
		{"another price", sql(`UPDATE orders SET price = 1 WHERE reservation = 'r2'`), auditor.PayOrTimeout, "has price 1"},
		{"a late payment that bought", sql(`UPDATE payments SET state = 'accepted' WHERE id = 'p2'`), auditor.PayOrTimeout, "is expired and has 1 accepted payments"},
		{"a payment of another amount than its provider's", sql(`UPDATE payment_events SET amount = 499`), auditor.PayOrTimeout, "its provider reported 499"},
		{"a payment that no provider reported", sql(`DELETE FROM payment_events`), auditor.PayOrTimeout, "its provider reported -1"},
		{"a payment of another order", sql(`UPDATE checkouts SET reservation = 'r1'`), auditor.PayOrTimeout, "its provider reported 500 for r1"},
		{"a refund that is forgotten", sql(`DELETE FROM refunds`), auditor.PayOrTimeout, `is refund_due, its refund is ""`},
		{"a payment that is not recorded", sql(`DELETE FROM payments WHERE id = 'p2'`), auditor.PayOrTimeout, "payment p2 of r2"},

		{"an order before the start", sql(`UPDATE orders SET at = {-1} WHERE reservation = 'r1'`), auditor.InTime, ", want between"},
		{"an order at the end", sql(`UPDATE orders SET at = {3600000} WHERE reservation = 'r1'`), auditor.InTime, ", want between"},
		{"a grant before the start", func(w *fixture) { o := w.of("u1", calllog.Buy); o.Granted, o.Skew = w.at(-1), 3600000 }, auditor.InTime, "with a clock 3600000 ms ahead"},
		{"an early call that is accepted", func(w *fixture) {
			w.of("u6", calllog.Join).Status, w.of("u6", calllog.Join).Token = 201, "t6"
		}, auditor.Tokens, "before the start"},

		{"a forged token that buys", func(w *fixture) { o := w.of("u6", calllog.Buy); o.Status, o.Receipt = 202, "r1" }, auditor.Tokens, "was forged, it returned 202"},
		{"a token of another user", func(w *fixture) { w.of("u3", calllog.Buy).Token = "t4" }, auditor.Tokens, "issued to u4"},
		{"a token that was never issued", func(w *fixture) { w.of("u3", calllog.Buy).Token = "t99" }, auditor.Tokens, "never issued"},
		{"a token for two users", func(w *fixture) { w.of("u3", calllog.Poll).Token = "t1" }, auditor.Tokens, "one token was issued to"},
		{"a token that buys twice", func(w *fixture) {
			o := *w.of("u1", calllog.Buy)
			o.Receipt, o.Key = "r3", "other"
			w.observe(o)
		}, auditor.Tokens, "one token bought r1 and later r3"},
		{"a replay with another receipt", func(w *fixture) { w.facts.Observations[len(w.facts.Observations)-2].Receipt = "r3" }, auditor.Tokens, "repeated a token"},
		{"an expired token", func(w *fixture) { w.of("u1", calllog.Poll).Until = w.at(1001) }, auditor.Tokens, "with a token that expired at"},

		{"a key with two bodies", func(w *fixture) { w.facts.Observations[len(w.facts.Observations)-2].Body = "b9" }, auditor.Idempotency, `with key "k1"`},
		{"a key with two orders", sql(`UPDATE orders SET key = 'k1', usr = 'u1'`), auditor.Idempotency, "for one key"},

		{"a queue out of order", func(w *fixture) {
			token := w.of("u1", calllog.Poll)
			token.Sent, token.At = w.at(84500), w.at(84510)
			asks := *token
			asks.Sent, asks.At, asks.State, asks.Token, asks.Until = w.at(84000), w.at(84010), "waiting", "", time.Time{}
			w.observe(asks)
		}, auditor.FairQueue, "3 users who joined after u1 were admitted before it asked again"},
		{"waiting after all units are paid", func(w *fixture) {
			o := w.of("u5", calllog.Poll)
			o.Status, o.State, o.Reason = 200, "waiting", ""
		}, auditor.FairQueue, "received waiting for a call"},
		{"sold out too early", func(w *fixture) { o := w.of("u5", calllog.Poll); o.Sent, o.At = w.at(50), w.at(60) }, auditor.FairQueue, "received sold_out at"},

		{"too many tokens in a sample", func(w *fixture) { w.inventory.Outstanding = 10 }, auditor.Bounded, "10 admission tokens are outstanding"},
		{"too many tokens at once", func(w *fixture) {
			for i := range 10 {
				w.observe(calllog.Call{Sent: w.at(6000), At: w.at(6001), User: fmt.Sprint("v", i), Sale: "s1", Action: calllog.Poll, Status: 200, State: "admitted",
					Token: fmt.Sprint("many", i), Until: w.at(36000)})
			}
		}, auditor.Bounded, "at most 3 × 3"},
		{"too many tokens of a new epoch", func(w *fixture) { w.tokens(6000, 10, 2) }, auditor.Bounded, "at most 3 × 3"},
		{"tokens of an old epoch after the new", func(w *fixture) { w.tokens(6000, 1, 2); w.tokens(6500, 10, 1) }, auditor.Bounded, "at most 3 × 3"},
		{"too many writers", func(w *fixture) { w.facts.Workers = 1 }, auditor.Bounded, "2 order writers"},

		{"an inventory with fewer units", func(w *fixture) { w.inventory.Free = -1 }, auditor.InventoryMatchesLedger, "the inventory has -1 free units"},
		{"an inventory with another reservation", func(w *fixture) { w.inventory.Held[0] = "r0" }, auditor.InventoryMatchesLedger, "r0 is only in the inventory"},
		{"an inventory with fewer reservations", func(w *fixture) { w.inventory.Held = w.inventory.Held[1:] }, auditor.InventoryMatchesLedger, "r1 is only in the ledger"},
		{"an inventory of another epoch", func(w *fixture) { w.inventory.Epoch = 3 }, auditor.InventoryMatchesLedger, "at epoch 3"},
		{"an inventory with another stock", func(w *fixture) { w.inventory.Stock = 5 }, auditor.InventoryMatchesLedger, "5 units"},
		{"a second reconciliation with changes", func(w *fixture) { w.changes = []int{4, 1} }, auditor.InventoryMatchesLedger, "second reconciliation changed 1 rows"},

		{"a refusal without a layer", func(w *fixture) { w.of("u5", calllog.Poll).Layer = "" }, auditor.LayersAddUp, "names no layer"},
		{"a refusal that was not counted", func(w *fixture) { w.facts.Layers["L0"] = 1 }, auditor.LayersAddUp, "counted 1 refusals, buyers received 2"},
		{"a refusal that no buyer received", func(w *fixture) { w.facts.Layers["L4"] = 3 }, auditor.LayersAddUp, "layer L4 counted 3 refusals"},
		{"a success with a layer", func(w *fixture) { w.of("u3", calllog.Buy).Layer = "L3" }, auditor.LayersAddUp, "returned 202, although L3 refused it"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			c.damage(w)
			f := w.audit().Findings[c.want]
			if f.Violations == 0 || !strings.Contains(strings.Join(f.Examples, "\n"), c.text) {
				t.Errorf("%s: %d violations in %d checks, want one with %q:\n%s", c.want, f.Violations, f.Checks, c.text, strings.Join(f.Examples, "\n"))
			}
		})
	}
}

// TestEpochs checks that a new epoch ends the tokens of the previous one, and that an order may
// expire in the millisecond of its deadline.
func TestEpochs(t *testing.T) {
	w := newFixture(t)
	w.tokens(6000, 9, 1)
	w.tokens(7000, 9, 2)
	w.tokens(8000, 9, 3)
	w.exec(`UPDATE orders SET changed = pay_by WHERE reservation = 'r2'`)
	w.facts.Settled = false
	r := w.audit()
	for _, name := range []auditor.Invariant{auditor.Bounded, auditor.PayOrTimeout} {
		if f := r.Findings[name]; f.Violations != 0 || f.Checks == 0 {
			t.Errorf("%s: %d violations in %d checks: %q", name, f.Violations, f.Checks, f.Examples)
		}
	}
}

// TestWatch checks violations that exist only between two samples.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second string
		want          auditor.Invariant
		text          string
	}{
		{"stock that decreases", `UPDATE sales SET stock = 4`, `UPDATE sales SET stock = 3`, auditor.NoOversell, "stock decreased from 4 to 3"},
		{"an expired order that is paid", `SELECT 1`, `UPDATE orders SET state = 'paid' WHERE reservation = 'r2'`, auditor.PayOrTimeout, "changed from expired to paid"},
		{"an epoch that decreases", `UPDATE sales SET epoch = 3`, `UPDATE sales SET epoch = 2`, auditor.OneOrder, "epoch decreased from 3 to 2"},
		{"paid orders that decrease", `SELECT 1`, `UPDATE sales SET paid = 2`, auditor.PayOrTimeout, "paid and refunded units decreased from 3 to 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			a := w.open()
			w.exec(c.first)
			if _, err := a.Final(t.Context(), auditor.Facts{}); err != nil {
				t.Fatal(err)
			}
			w.exec(c.second)
			r, err := a.Final(t.Context(), auditor.Facts{})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(r.Findings[c.want].Examples, "\n"); !strings.Contains(got, c.text) {
				t.Errorf("%s: %q, want %q", c.want, got, c.text)
			}
		})
	}
}

// TestWatchSamples takes samples until it is stopped, also while a table is missing.
func TestWatchSamples(t *testing.T) {
	w := newFixture(t)
	a, err := auditor.Open(t.Context(), auditor.Config{Database: w.path, Every: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); a.Watch(ctx) }()
	until(t, func() bool { return a.Report().Samples > 60 })
	w.exec(`ALTER TABLE orders RENAME TO gone`)
	until(t, func() bool { return len(a.Report().Errors) > 0 })
	stop()
	<-done
	r := a.Report()
	if r.Violations() != 0 || r.Findings[auditor.NoOversell].Checks == 0 {
		t.Errorf("%d violations in %d checks, want 0 violations and at least 1 check", r.Violations(), r.Checks())
	}
}

func until(t *testing.T, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(time.Minute)
	for !f() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("condition not met within a minute")
		}
	}
}

// TestShuffled distinguishes random ranks from the order of arrival.
func TestShuffled(t *testing.T) {
	for _, c := range []struct {
		name string
		rank func(i int) int64
		want int64
	}{
		{"random", func(int) int64 { return rand.Int64N(1<<40) + 1 }, 0},
		{"in order", func(i int) int64 { return int64(i) + 1 }, 1},
		{"reversed", func(i int) int64 { return int64(100000 - i) }, 1},
		{"half in order", func(i int) int64 { return rand.Int64N(1000) + int64(i)/2 + 1 }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t)
			w.exec(`UPDATE sales SET queue = 'shuffled', lobby_ms = 60000`)
			for i := range 5000 {
				at := w.start.Add(-time.Minute + time.Duration(i)*time.Millisecond)
				w.observe(calllog.Call{Sent: at, At: at.Add(time.Microsecond), User: fmt.Sprint("lobby", i), Sale: "s1", Action: calllog.Join, Status: 201,
					State: "waiting", Rank: c.rank(i)})
			}
			w.facts.Settled = false
			f := w.audit().Findings[auditor.FairQueue]
			if f.Violations != c.want {
				t.Errorf("%d violations, want %d: %s", f.Violations, c.want, strings.Join(f.Examples, "\n"))
			}
		})
	}
}

// TestAdmittedBetweenPolls checks that a user who does not ask is not overtaken: users are admitted
// by their own polls, whose intervals grow with the queue.
func TestAdmittedBetweenPolls(t *testing.T) {
	w := newFixture(t)
	token := w.of("u1", calllog.Poll)
	token.Sent, token.At, token.Until = w.at(84500), w.at(84510), w.at(114500)
	if f := w.audit().Findings[auditor.FairQueue]; f.Violations > 0 {
		t.Errorf("%d violations: %s", f.Violations, strings.Join(f.Examples, "\n"))
	}
}

// TestSlowLedger checks a payment that the ledger processed late: users may receive "waiting"
// until one second after its response.
func TestSlowLedger(t *testing.T) {
	for _, c := range []struct {
		answered, asked int64 // ms after the start
		want            int64
	}{
		{85013, 86010, 0}, {85013, 86020, 1}, {88000, 86020, 0}, {88000, 88990, 0}, {88000, 89010, 1},
	} {
		w := newFixture(t)
		last := w.of("u4", calllog.Pay)
		last.At = w.at(c.answered)
		o := w.of("u5", calllog.Poll)
		o.Sent, o.At, o.Status, o.State, o.Reason = w.at(c.asked), w.at(c.asked+5), 200, "waiting", ""
		f := w.audit().Findings[auditor.FairQueue]
		if f.Violations != c.want {
			t.Errorf("paid response at %d ms, waiting at %d ms: %d violations, want %d: %s", c.answered, c.asked, f.Violations, c.want, strings.Join(f.Examples, "\n"))
		}
	}
}

// TestRun runs an audit as the command does.
func TestRun(t *testing.T) {
	w := newFixture(t)
	log := filepath.Join(t.TempDir(), "observations.jsonl")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	l := calllog.NewLog(f)
	l.Record(w.facts.Observations...)
	if err := errors.Join(l.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
	o := auditor.Options{Database: w.path, Observations: []string{log}, Complete: true, Settled: true, Watch: 50 * time.Millisecond}
	var out strings.Builder
	if err := auditor.Run(t.Context(), o, &out); err != nil {
		t.Errorf("Run = %v, want nil:\n%s", err, &out)
	}
	for _, name := range auditor.Invariants() {
		if !strings.Contains(out.String(), string(name)) {
			t.Errorf("the report does not name %q:\n%s", name, &out)
		}
	}
	w.exec(`UPDATE sales SET sold = 9 WHERE id = 's1'`)
	out.Reset()
	if err := auditor.Run(t.Context(), o, &out); !errors.Is(err, auditor.ErrViolated) || !strings.Contains(out.String(), "counter sold is 9") {
		t.Errorf("Run = %v, want ErrViolated and the violation:\n%s", err, &out)
	}
	for _, bad := range []auditor.Options{
		{}, {Database: w.path + ".none"}, {Database: w.path, Observations: []string{w.path}}, {Database: w.path, Observations: []string{"/none"}},
		{Database: w.path, Redis: "http://"}, {Database: w.path, Slack: -1}, {Database: log},
	} {
		if err := auditor.Run(t.Context(), bad, &out); err == nil || errors.Is(err, auditor.ErrViolated) {
			t.Errorf("Run(%+v) = %v, want an error", bad, err)
		}
	}
}

// TestNothingToAudit checks that an audit without a sale is an error.
func TestNothingToAudit(t *testing.T) {
	w := newFixture(t)
	for _, c := range []struct {
		sales []string
		watch time.Duration
		want  string
	}{
		{[]string{"nope"}, 0, `sale "nope": want the ID of a sale that the database has`},
		{[]string{"s1", "nope"}, 0, `sale "nope"`},
		{[]string{"nope"}, -1, `sale "nope"`}, // at once, without waiting for the end of Watch
		{[]string{""}, 0, `sale ""`},
		{[]string{"s2"}, 0, `sale "s2": got a draft, want one that was exposed`},
		{[]string{"s2"}, time.Millisecond, `sale "s2": got a draft, want one that was exposed`},
		{[]string{"s1"}, 0, ""},
	} {
		w.wantNothing(auditor.Options{Sales: c.sales, Watch: c.watch}, c.want)
	}
	w.exec(`UPDATE sales SET state = 'draft'`)
	w.wantNothing(auditor.Options{}, "the database has 2 sales, want one that was exposed")
	w.exec(`DELETE FROM sales`)
	w.wantNothing(auditor.Options{}, "the database has 0 sales, want one that was exposed")
	w.wantNothing(auditor.Options{Watch: time.Millisecond}, "the database has 0 sales")
}

// wantNothing runs an audit and wants ErrNothing with the text want, or a report if want is "".
func (w *fixture) wantNothing(o auditor.Options, want string) {
	w.t.Helper()
	o.Database = w.path
	var out strings.Builder
	err := auditor.Run(w.t.Context(), o, &out)
	if want == "" {
		if err != nil || out.Len() == 0 {
			w.t.Errorf("Run(%v) = %v, %q, want a report", o.Sales, err, &out)
		}
	} else if !errors.Is(err, auditor.ErrNothing) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || out.Len() > 0 {
		w.t.Errorf("Run(%v) = %v, %q, want ErrNothing with %q and no report", o.Sales, err, &out, want)
	}
}
