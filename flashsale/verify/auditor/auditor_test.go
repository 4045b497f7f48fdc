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
)

// TestSound audits a sale that went well.
func TestSound(t *testing.T) {
	r := newWorld(t).audit()
	for _, name := range auditor.Invariants() {
		f := r.Findings[name]
		if f.Violations != 0 || f.Checks == 0 {
			t.Errorf("%s: %d violations in %d checks, want none in some: %s", name, f.Violations, f.Checks, strings.Join(f.First, "; "))
		}
	}
	if len(r.Errors) != 0 {
		t.Errorf("errors %q, want none", r.Errors)
	}
}

// TestDetects breaks the sale in one place, and the auditor must say which promise that was.
func TestDetects(t *testing.T) {
	sql := func(statements string) func(*world) { return func(w *world) { w.exec(statements) } }
	for _, c := range []struct {
		name   string
		damage func(*world)
		want   auditor.Invariant
		words  string
	}{
		{"an order more than units", func(w *world) {
			w.buyer(7, 4500, "paid", "s1")
			w.exec(`UPDATE sales SET sold = 4, paid = 4`)
		}, auditor.NoOversell, "4 orders are pending or paid of 3 units"},
		{"a unit that was not counted", sql(`UPDATE sales SET sold = 2 WHERE id = 's1'`), auditor.NoOversell, "it says that 2 are sold"},
		{"a payment that was not counted", sql(`UPDATE sales SET paid = 2 WHERE id = 's1'`), auditor.NoOversell, "it says that 2 are paid"},
		{"stock without a movement", sql(`UPDATE sales SET stock = 4 WHERE id = 's1'`), auditor.NoOversell, "movements of stock are 3 of 4"},
		{"an order without a movement", sql(`DELETE FROM movements WHERE reservation = 'r1'`), auditor.NoOversell, "0 units were sold"},
		{"a unit returned twice", sql(`INSERT INTO movements (sale, kind, units, reservation, at) VALUES ('s1', 'returned', 1, 'r2', {1})`),
			auditor.NoOversell, "returned before it was sold"},
		{"a movement below zero", sql(`UPDATE movements SET units = -9 WHERE reservation = 'r1'`), auditor.NoOversell, "free units of 3"},
		{"an expired order whose unit did not return", sql(`DELETE FROM movements WHERE kind = 'returned'`), auditor.NoOversell, "1 units were sold and 0 returned"},

		{"less paid than wanted", func(w *world) {
			w.facts.Demand["s1"] = 5
			w.exec(`UPDATE orders SET state = 'expired', payment = NULL WHERE reservation = 'r4'`)
		},
			auditor.NoUndersell, "2 of 3 are paid"},
		{"a free unit that nobody can buy", func(w *world) {
			w.exec(`DELETE FROM orders WHERE reservation = 'r4'; DELETE FROM movements WHERE reservation = 'r4'; UPDATE sales SET sold = 2, paid = 2`)
		}, auditor.NoUndersell, "1 units are free, and 0 can be bought"},
		{"a unit that the gate did not get back", sql(`UPDATE orders SET returned = 0 WHERE reservation = 'r2'`), auditor.NoUndersell, "was not given back to the gate"},

		{"a user with two units", sql(`UPDATE orders SET usr = 'u1', slot = 2 WHERE reservation = 'r3'`), auditor.PerUser, "user u1 holds 2 units"},
		{"a slot twice", sql(`UPDATE orders SET usr = 'u1' WHERE reservation = 'r3'`), auditor.PerUser, "slot 1 of 1"},
		{"a slot beyond", sql(`UPDATE orders SET slot = 2 WHERE reservation = 'r3'`), auditor.PerUser, "slot 2 of 1"},

		{"two orders of a reservation", sql(`INSERT INTO orders SELECT * FROM orders WHERE reservation = 'r1'`), auditor.OneOrder, "has two rows"},
		{"two orders of a ticket", sql(`UPDATE orders SET ticket = 'ticket1'`), auditor.OneOrder, "ticket ticket1 has the orders"},
		{"an order that is buried too", func(w *world) {
			if _, err := w.db.Exec(`INSERT INTO buried VALUES ('s1', 1, 'e', 5, '{"id":"r1"}', '', 'why', 1)`); err != nil {
				w.t.Fatal(err)
			}
		}, auditor.OneOrder, "buried too"},
		{"an order of an epoch to come", sql(`UPDATE orders SET epoch = 2 WHERE reservation = 'r1'`), auditor.OneOrder, "of epoch 2"},
		{"units moved for no order", sql(`INSERT INTO movements (sale, kind, units, reservation, at) VALUES ('s1', 'sold', -1, 'r99', {1})`), auditor.OneOrder, "r99, which is no order"},
		{"an order that nobody asked for", func(w *world) { w.of("u3", auditor.Buy).Status = 410 }, auditor.OneOrder, "which nobody was granted"},
		{"a reservation that became nothing", func(w *world) { w.of("u3", auditor.Buy).Receipt = "r77" }, auditor.OneOrder, "is recorded nowhere"},
		{"a reservation of another", sql(`UPDATE orders SET usr = 'u9' WHERE reservation = 'r3'`), auditor.OneOrder, "is recorded for u9"},
		{"an acknowledged reservation that is lost", func(w *world) {
			w.exec(`UPDATE orders SET state = 'lost' WHERE reservation = 'r3'`)
		}, auditor.OneOrder, "r3 of u3 is lost, and no gate failed"},
		{"an answer without a receipt", func(w *world) { w.of("u3", auditor.Buy).Receipt = "" }, auditor.OneOrder, "without a receipt"},
		{"an answer that runs back", func(w *world) {
			o := *w.of("u1", auditor.Look)
			o.Sent, o.At = w.at(99000), w.at(99001)
			w.see(o)
		}, auditor.OneOrder, "is paid, and then that it is pending_pay"},
		{"an answer that was not so", func(w *world) { w.of("u2", auditor.Look).State = "cancelled" }, auditor.OneOrder, "is cancelled, and it is expired"},

		{"an order that is pending for ever", func(w *world) { w.exec(`UPDATE orders SET state = 'pending_pay' WHERE reservation = 'r2'`) }, auditor.TicketsEnd, "r2 is pending still"},
		{"an order long after its time", func(w *world) {
			w.facts.Settled = false
			w.exec(`UPDATE orders SET state = 'pending_pay' WHERE reservation = 'r2'`)
		}, auditor.TicketsEnd, "pending 30s after their time"},
		{"a buyer who hears no end", func(w *world) { w.of("u5", auditor.Turn).Status, w.of("u5", auditor.Turn).Reason = 429, "too_many" }, auditor.TicketsEnd, "the last that u5 heard"},
		{"a turn without an end", func(w *world) { w.of("u1", auditor.Turn).Until = w.at(-60000) }, auditor.TicketsEnd, "told to be admitted until"},
		{"a wait without an end", func(w *world) { o := w.of("u5", auditor.Join); o.Sent, o.At = w.at(3700000), w.at(3700001) }, auditor.TicketsEnd, "the sale ended"},

		{"paid and expired", sql(`UPDATE orders SET state = 'expired', payment = NULL WHERE reservation = 'r1'`), auditor.PayOrTimeout, "1 payments of it were accepted"},
		{"paid without a payment", sql(`DELETE FROM payments WHERE id = 'p1'`), auditor.PayOrTimeout, "is paid, and 0 payments"},
		{"paid too late", sql(`UPDATE payments SET at = {99000} WHERE id = 'p1'`), auditor.PayOrTimeout, "was to be paid by"},
		{"paid too little", sql(`UPDATE payments SET amount = 1 WHERE id = 'p1'`), auditor.PayOrTimeout, "was paid with 1"},
		{"another payment", sql(`UPDATE orders SET payment = 'p9' WHERE reservation = 'r1'`), auditor.PayOrTimeout, `names payment "p9"`},
		{"expired too early", sql(`UPDATE orders SET changed = {3000} WHERE reservation = 'r2'`), auditor.PayOrTimeout, "and expired at"},
		{"another price", sql(`UPDATE orders SET price = 1 WHERE reservation = 'r2'`), auditor.PayOrTimeout, "costs 1"},
		{"late money that bought", sql(`UPDATE payments SET state = 'accepted' WHERE id = 'p2'`), auditor.PayOrTimeout, "is expired, and 1 payments"},
		{"money forgotten", sql(`DELETE FROM payments WHERE id = 'p2'`), auditor.PayOrTimeout, "payment p2 of r2"},

		{"an order before the start", sql(`UPDATE orders SET at = {-1} WHERE reservation = 'r1'`), auditor.InTime, "and the sale is from"},
		{"an order at the end", sql(`UPDATE orders SET at = {3600000} WHERE reservation = 'r1'`), auditor.InTime, "and the sale is from"},
		{"a grant before the start", func(w *world) { o := w.of("u1", auditor.Buy); o.Granted, o.Skew = w.at(-1), 3600000 }, auditor.InTime, "clock is 3600000 ms ahead"},
		{"an early call that is served", func(w *world) { w.of("u6", auditor.Join).Status, w.of("u6", auditor.Join).Token = 201, "t6" }, auditor.Tokens, "before the start"},

		{"a forged token that buys", func(w *world) { o := w.of("u6", auditor.Buy); o.Status, o.Receipt = 202, "r1" }, auditor.Tokens, "was forged, and was answered 202"},
		{"another's token", func(w *world) { w.of("u3", auditor.Buy).Token = "t4" }, auditor.Tokens, "given to u4"},
		{"a token from nowhere", func(w *world) { w.of("u3", auditor.Buy).Token = "t99" }, auditor.Tokens, "given to nobody"},
		{"a token for two", func(w *world) { w.of("u3", auditor.Turn).Token = "t1" }, auditor.Tokens, "one token was given to"},
		{"a token that buys twice", func(w *world) {
			o := *w.of("u1", auditor.Buy)
			o.Receipt, o.Key = "r3", "other"
			w.see(o)
		}, auditor.Tokens, "one token bought r1 and then r3"},
		{"a replay that gets another", func(w *world) { w.facts.Observations[len(w.facts.Observations)-2].Receipt = "r3" }, auditor.Tokens, "used a token again"},
		{"a token after its time", func(w *world) { w.of("u1", auditor.Turn).Until = w.at(1001) }, auditor.Tokens, "with a token until"},

		{"a key with two bodies", func(w *world) { w.facts.Observations[len(w.facts.Observations)-2].Body = "b9" }, auditor.Idempotency, `with key "k1"`},
		{"a key with two orders", sql(`UPDATE orders SET key = 'k1', usr = 'u1'`), auditor.Idempotency, "for one key"},

		{"a line that is not in order", func(w *world) { w.of("u1", auditor.Turn).Until = w.at(200000) }, auditor.FairLine, "3 who came after u1 were admitted before"},
		{"a wait for nothing", func(w *world) { o := w.of("u5", auditor.Turn); o.Status, o.State, o.Reason = 200, "waiting", "" }, auditor.FairLine, "told to wait, and all units were known to be paid"},
		{"sold out before it is", func(w *world) { o := w.of("u5", auditor.Turn); o.Sent, o.At = w.at(50), w.at(60) }, auditor.FairLine, "that all is sold"},

		{"too many tokens at a look", func(w *world) { w.gate.Outstanding = 10 }, auditor.Bounded, "10 admission tokens are out"},
		{"too many tokens at once", func(w *world) {
			for i := range 10 {
				w.see(auditor.Observation{Sent: w.at(6000), At: w.at(6001), User: fmt.Sprint("v", i), Sale: "s1", Action: auditor.Turn, Status: 200, State: "admitted",
					Token: fmt.Sprint("many", i), Until: w.at(36000)})
			}
		}, auditor.Bounded, "at most 3 × 3"},
		{"too many tokens of a new epoch", func(w *world) { w.tokens(6000, 10, 2) }, auditor.Bounded, "at most 3 × 3"},
		{"tokens of an old epoch after the new", func(w *world) { w.tokens(6000, 1, 2); w.tokens(6500, 10, 1) }, auditor.Bounded, "at most 3 × 3"},
		{"too many writers", func(w *world) { w.facts.Workers = 1 }, auditor.Bounded, "2 order writers"},

		{"a gate with fewer units", func(w *world) { w.gate.Free = -1 }, auditor.GateIsLedger, "its gate has -1 free units"},
		{"a gate that holds another", func(w *world) { w.gate.Held[0] = "r0" }, auditor.GateIsLedger, "r0 is in the gate alone"},
		{"a gate that holds less", func(w *world) { w.gate.Held = w.gate.Held[1:] }, auditor.GateIsLedger, "r1 is in the ledger alone"},
		{"a gate of another epoch", func(w *world) { w.gate.Epoch = 3 }, auditor.GateIsLedger, "at epoch 3"},
		{"a gate of another stock", func(w *world) { w.gate.Stock = 5 }, auditor.GateIsLedger, "5 units"},
		{"a second change", func(w *world) { w.changes = []int{4, 1} }, auditor.GateIsLedger, "a second time, and 1 rows"},

		{"a refusal of nobody", func(w *world) { w.of("u5", auditor.Turn).Layer = "" }, auditor.LayersAddUp, "names no layer"},
		{"a refusal that was not counted", func(w *world) { w.facts.Layers["L0"] = 1 }, auditor.LayersAddUp, "refused 1, and buyers saw 2"},
		{"a refusal that nobody saw", func(w *world) { w.facts.Layers["L4"] = 3 }, auditor.LayersAddUp, "layer L4 says that it refused 3"},
		{"a refusal that is none", func(w *world) { w.of("u3", auditor.Buy).Layer = "L3" }, auditor.LayersAddUp, "answered 202, and refused by L3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			c.damage(w)
			f := w.audit().Findings[c.want]
			if f.Violations == 0 || !strings.Contains(strings.Join(f.First, "\n"), c.words) {
				t.Errorf("%s: %d violations in %d checks, want one with %q:\n%s", c.want, f.Violations, f.Checks, c.words, strings.Join(f.First, "\n"))
			}
		})
	}
}

// TestEpochs: with an epoch its tokens are over, and an order may expire in the millisecond
// in which it was due.
func TestEpochs(t *testing.T) {
	w := newWorld(t)
	w.tokens(6000, 9, 1)
	w.tokens(7000, 9, 2)
	w.tokens(8000, 9, 3)
	w.exec(`UPDATE orders SET changed = pay_by WHERE reservation = 'r2'`)
	w.facts.Settled = false
	r := w.audit()
	for _, name := range []auditor.Invariant{auditor.Bounded, auditor.PayOrTimeout} {
		if f := r.Findings[name]; f.Violations != 0 || f.Checks == 0 {
			t.Errorf("%s: %d violations in %d checks: %q", name, f.Violations, f.Checks, f.First)
		}
	}
}

// TestWatch sees what is wrong for a while only.
func TestWatch(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second string
		want          auditor.Invariant
		words         string
	}{
		{"stock that shrinks", `UPDATE sales SET stock = 4`, `UPDATE sales SET stock = 3`, auditor.NoOversell, "its stock went from 4 to 3"},
		{"an order that comes alive", `SELECT 1`, `UPDATE orders SET state = 'paid' WHERE reservation = 'r2'`, auditor.PayOrTimeout, "was expired and is paid"},
		{"an epoch that goes back", `UPDATE sales SET epoch = 3`, `UPDATE sales SET epoch = 2`, auditor.OneOrder, "its epoch went from 3 to 2"},
		{"payments that vanish", `SELECT 1`, `UPDATE sales SET paid = 2`, auditor.PayOrTimeout, "paid orders went from 3 to 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
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
			if got := strings.Join(r.Findings[c.want].First, "\n"); !strings.Contains(got, c.words) {
				t.Errorf("%s: %q, want %q", c.want, got, c.words)
			}
		})
	}
}

// TestWatchSamples samples until it is told to end, also over a database that goes away.
func TestWatchSamples(t *testing.T) {
	w := newWorld(t)
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
		t.Errorf("%d violations in %d checks, want none in some", r.Violations(), r.Checks())
	}
}

func until(t *testing.T, f func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(20 * time.Second)
	for !f() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it did not happen within 20 s")
		}
	}
}

// TestShuffled tells lots from an order of arrival.
func TestShuffled(t *testing.T) {
	for _, c := range []struct {
		name string
		rank func(i int) int64
		want int64
	}{
		{"lots", func(int) int64 { return rand.Int64N(1<<40) + 1 }, 0},
		{"in order", func(i int) int64 { return int64(i) + 1 }, 1},
		{"backwards", func(i int) int64 { return int64(100000 - i) }, 1},
		{"half in order", func(i int) int64 { return rand.Int64N(1000) + int64(i)/2 + 1 }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.exec(`UPDATE sales SET queue = 'shuffled', lobby_ms = 60000`)
			for i := range 5000 {
				at := w.start.Add(-time.Minute + time.Duration(i)*time.Millisecond)
				w.see(auditor.Observation{Sent: at, At: at.Add(time.Microsecond), User: fmt.Sprint("lobby", i), Sale: "s1", Action: auditor.Join, Status: 201,
					State: "waiting", Rank: c.rank(i)})
			}
			w.facts.Settled = false
			f := w.audit().Findings[auditor.FairLine]
			if f.Violations != c.want {
				t.Errorf("%d violations, want %d: %s", f.Violations, c.want, strings.Join(f.First, "\n"))
			}
		})
	}
}

// TestSlowLedger: a payment that the ledger took late is known when it is answered, and who
// waits may be told to wait until a second after that.
func TestSlowLedger(t *testing.T) {
	for _, c := range []struct {
		answered, asked int64 // ms after the start
		want            int64
	}{
		{85013, 86010, 0}, {85013, 86020, 1}, {88000, 86020, 0}, {88000, 88990, 0}, {88000, 89010, 1},
	} {
		w := newWorld(t)
		last := w.of("u4", auditor.Pay)
		last.At = w.at(c.answered)
		o := w.of("u5", auditor.Turn)
		o.Sent, o.At, o.Status, o.State, o.Reason = w.at(c.asked), w.at(c.asked+5), 200, "waiting", ""
		f := w.audit().Findings[auditor.FairLine]
		if f.Violations != c.want {
			t.Errorf("answered at %d ms, told to wait at %d ms: %d violations, want %d: %s", c.answered, c.asked, f.Violations, c.want, strings.Join(f.First, "\n"))
		}
	}
}

// TestRun audits as a process of its own does.
func TestRun(t *testing.T) {
	w := newWorld(t)
	log := filepath.Join(t.TempDir(), "seen.jsonl")
	f, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	l := auditor.NewLog(f)
	l.Note(w.facts.Observations...)
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
	if err := auditor.Run(t.Context(), o, &out); !errors.Is(err, auditor.ErrViolated) || !strings.Contains(out.String(), "it says that 9 are sold") {
		t.Errorf("Run = %v, want ErrViolated and the words:\n%s", err, &out)
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

// TestNothing: what was not looked at is not sound.
func TestNothing(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		sales []string
		watch time.Duration
		want  string
	}{
		{[]string{"nope"}, 0, `sale "nope": want the ID of a sale that the database has`},
		{[]string{"s1", "nope"}, 0, `sale "nope"`},
		{[]string{"nope"}, -1, `sale "nope"`}, // at once, though nobody ends it
		{[]string{""}, 0, `sale ""`},
		{[]string{"s2"}, 0, `sale "s2": want one that was exposed, this is a draft`},
		{[]string{"s2"}, time.Millisecond, `sale "s2": want one that was exposed, this is a draft`},
		{[]string{"s1"}, 0, ""},
	} {
		w.nothing(auditor.Options{Sales: c.sales, Watch: c.watch}, c.want)
	}
	w.exec(`UPDATE sales SET state = 'draft'`)
	w.nothing(auditor.Options{}, "the database has 2 sales, want one that was exposed")
	w.exec(`DELETE FROM sales`)
	w.nothing(auditor.Options{}, "the database has 0 sales, want one that was exposed")
	w.nothing(auditor.Options{Watch: time.Millisecond}, "the database has 0 sales")
}

// nothing audits, and wants that there is nothing to audit and why, or the report if that is "".
func (w *world) nothing(o auditor.Options, want string) {
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
