package auditor_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/calllog"
	"github.com/floodweir/weir/flashsale/verify/inventorystate"
)

// tables have the columns of a ledger without its constraints, so that they can hold invalid
// rows.
const tables = `
CREATE TABLE sales (id text, merchant text, sku text, title text, price bigint, currency text, stock bigint,
	per_user int, starts_at bigint, ends_at bigint, headroom int, queue text, lobby_ms bigint, pay_within_ms bigint,
	token_for_ms bigint, sold bigint, paid bigint, state text, why text, recovering int, epoch bigint,
	version bigint, created bigint, max_quantity int);
CREATE TABLE orders (reservation text, sale text, epoch bigint, usr text, slot int, ticket text, key text, at bigint,
	pay_by bigint, state text, price bigint, placed bigint, changed bigint, payment text, returned int, note text, quantity bigint);
CREATE TABLE movements (id INTEGER PRIMARY KEY, sale text, kind text, units bigint, reservation text, key text, at bigint);
CREATE TABLE payments (id text, reservation text, amount bigint, state text, at bigint);
CREATE TABLE checkouts (id text, reservation text, state text);
CREATE TABLE payment_events (payment text, kind text, amount bigint, waits int);
CREATE TABLE refunds (payment text, state text);
CREATE TABLE buried (sale text, epoch bigint, entry text, deliveries bigint, reservation text, damaged text, reason text, at bigint);
`

// A fixture is a finished sale without violations: database, inventory and observations. One of
// three units was not paid in time and was sold again.
type fixture struct {
	t         *testing.T
	path      string
	db        *sql.DB
	start     time.Time
	inventory inventorystate.State
	changes   []int // results of Reconcile, one per call
	facts     auditor.Facts
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t, path: filepath.Join(t.TempDir(), "sale.db"), start: time.Now().Add(-10 * time.Minute).Truncate(time.Millisecond)}
	db, err := sql.Open("sqlite", "file:"+w.path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	w.db = db
	w.exec(tables)
	w.exec(`INSERT INTO sales VALUES ('s1', 'm', 'sku', 'title', 500, 'CNY', 3, 1, {0}, {3600000}, 3, 'fifo', 0, 60000,
		30000, 3, 3, 'exposed', '', 0, 1, 9, {-60000}, 1)`)
	w.exec(`INSERT INTO sales VALUES ('s2', 'm', 'sku', 'title', 500, 'CNY', 3, 1, {0}, {3600000}, 3, 'fifo', 0, 60000,
		30000, 0, 0, 'draft', '', 0, 0, 1, {-60000}, 1)`)
	w.exec(`INSERT INTO movements (sale, kind, units, key, at) VALUES ('s1', 'stock', 3, 'expose', {-50000})`)
	w.buyer(1, 1000, "paid", "s1")
	w.buyer(2, 2000, "expired", "s1")
	w.buyer(3, 3000, "paid", "s1")
	w.exec(`INSERT INTO movements (sale, kind, units, reservation, at) VALUES ('s1', 'returned', 1, 'r2', {62001})`)
	w.exec(`INSERT INTO payments VALUES ('p2', 'r2', 500, 'refund_due', {70000})`)
	w.exec(`INSERT INTO checkouts VALUES ('p2', 'r2', 'paid')`)
	w.exec(`INSERT INTO payment_events VALUES ('p2', 'paid', 500, 0)`)
	w.exec(`INSERT INTO refunds VALUES ('p2', 'done')`)
	w.observe(calllog.Call{Sent: w.at(70000), At: w.at(70010), User: "u2", Sale: "s1", Action: calllog.Pay, Status: 409,
		Reason: "refund_due", Receipt: "r2", Payment: "p2"})
	w.buyer(4, 80000, "paid", "s1")
	w.observe(
		calllog.Call{Sent: w.at(5), At: w.at(9), User: "u5", Sale: "s1", Action: calllog.Join, Status: 201, State: "waiting", Rank: 5, Poll: 1000},
		calllog.Call{Sent: w.at(90000), At: w.at(90005), User: "u5", Sale: "s1", Action: calllog.Poll, Status: 410, Layer: "L0", Reason: "sold_out"},
		calllog.Call{Sent: w.at(90010), At: w.at(90015), User: "u6", Sale: "s1", Action: calllog.Buy, Status: 403, Reason: "bad_token", Token: "t-forged", Misuse: calllog.Forged},
		calllog.Call{Sent: w.at(-100), At: w.at(-90), User: "u6", Sale: "s1", Action: calllog.Join, Status: 425, Layer: "L0", Reason: "not_started", Misuse: calllog.Early},
		calllog.Call{Sent: w.at(4000), At: w.at(4010), User: "u1", Sale: "s1", Action: calllog.Buy, Status: 202, State: "reserved", Token: "t1",
			Key: "k1", Receipt: "r1", Granted: w.at(1010), Body: "b1", Misuse: calllog.Replayed},
		calllog.Call{Sent: w.at(4000), At: w.at(4010), Action: calllog.Board, Sale: "s1", Status: 200, Workers: 2},
	)
	w.inventory = inventorystate.State{Epoch: 1, Stock: 3, Free: 0, Held: []string{"r1", "r3", "r4"}}
	w.facts.Complete, w.facts.Settled, w.facts.Batch, w.facts.Workers = true, true, 1, 2
	w.facts.Demand = map[string]int64{"s1": 4}
	w.facts.Layers = map[string]int64{"L0": 2}
	w.facts.Reconcile = func(context.Context, string) (int, error) {
		n := 0
		if len(w.changes) > 0 {
			n, w.changes = w.changes[0], w.changes[1:]
		}
		return n, nil
	}
	return w
}

func (w *fixture) at(ms int64) time.Time { return w.start.Add(time.Duration(ms) * time.Millisecond) }

// exec runs statements in which {n} stands for n milliseconds after the start.
func (w *fixture) exec(statements string) {
	w.t.Helper()
	var b strings.Builder
	for {
		head, rest, found := strings.Cut(statements, "{")
		b.WriteString(head)
		if !found {
			break
		}
		number, tail, _ := strings.Cut(rest, "}")
		var ms int64
		if _, err := fmt.Sscan(number, &ms); err != nil {
			w.t.Fatalf("{%s}: %v", number, err)
		}
		fmt.Fprint(&b, w.at(ms).UnixMilli())
		statements = tail
	}
	if _, err := w.db.Exec(b.String()); err != nil {
		w.t.Fatalf("%s: %v", b.String(), err)
	}
}

func (w *fixture) observe(os ...calllog.Call) {
	w.facts.Observations = append(w.facts.Observations, os...)
}

// refund refunds the order of user 1, 95 s after the start. The unit is free.
func (w *fixture) refund() {
	w.exec(`UPDATE orders SET state = 'cancelled', payment = NULL, note = 'refunded', changed = {95000}, returned = 1 WHERE reservation = 'r1';
		UPDATE payments SET state = 'refund_due' WHERE id = 'p1';
		INSERT INTO movements (sale, kind, units, reservation, at) VALUES ('s1', 'returned', 1, 'r1', {95000});
		UPDATE sales SET sold = 2, paid = 2 WHERE id = 's1'`)
	w.inventory.Free, w.inventory.Held = 1, []string{"r3", "r4"}
}

// buyer adds user n, who joins in the order of n, reserves at ms, and pays 5 s later or not at
// all.
func (w *fixture) buyer(n int, ms int64, state, sale string) {
	user, id := fmt.Sprintf("u%d", n), fmt.Sprintf("r%d", n)
	granted := ms + 10
	payment, changed, returned := "NULL", granted+60001, 1
	if state == "paid" {
		payment, changed, returned = fmt.Sprintf("'p%d'", n), granted+5000, 0
		w.exec(fmt.Sprintf(`INSERT INTO payments VALUES (%s, '%s', 500, 'accepted', {%d})`, payment, id, changed))
	}
	w.exec(fmt.Sprintf(`INSERT INTO orders VALUES ('%s', '%s', 1, '%s', 1, 'ticket%d', 'k%d', {%d}, {%d}, '%s', 500, {%d}, {%d}, %s, %d, '', 1)`,
		id, sale, user, n, n, granted, granted+60000, state, granted+5, changed, payment, returned))
	w.exec(fmt.Sprintf(`INSERT INTO movements (sale, kind, units, reservation, at) VALUES ('%s', 'sold', -1, '%s', {%d})`, sale, id, granted+5))
	joined := int64(n)
	token := fmt.Sprintf("t%d", n)
	w.observe(
		calllog.Call{Sent: w.at(joined), At: w.at(joined).Add(100 * time.Microsecond), User: user, Sale: sale, Action: calllog.Join, Status: 201, State: "waiting", Rank: int64(n), Poll: 500},
		calllog.Call{Sent: w.at(ms), At: w.at(ms + 5), User: user, Sale: sale, Action: calllog.Poll, Status: 200, State: "admitted", Token: token, Until: w.at(ms + 29000)},
		calllog.Call{Sent: w.at(ms + 8), At: w.at(ms + 15), User: user, Sale: sale, Action: calllog.Buy, Status: 202, State: "reserved", Token: token,
			Key: fmt.Sprintf("k%d", n), Receipt: id, Granted: w.at(granted), Body: fmt.Sprintf("b%d", n)},
		calllog.Call{Sent: w.at(ms + 100), At: w.at(ms + 105), User: user, Sale: sale, Action: calllog.Look, Status: 200, State: "pending_pay", Receipt: id},
	)
	if state == "paid" {
		w.observe(calllog.Call{Sent: w.at(changed - 1), At: w.at(changed + 3), User: user, Sale: sale, Action: calllog.Pay, Status: 200, State: "paid",
			Receipt: id, Payment: fmt.Sprintf("p%d", n)})
	}
}

// tokens adds n users who are admitted at ms in an epoch.
func (w *fixture) tokens(ms int64, n int, epoch int64) {
	for i := range n {
		name := fmt.Sprintf("epoch%d-%d", epoch, i)
		w.observe(calllog.Call{Sent: w.at(ms), At: w.at(ms + 1), User: name, Sale: "s1", Action: calllog.Poll, Status: 200, State: "admitted",
			Token: name, Until: w.at(ms + 30000), Epoch: epoch})
	}
}

// of returns the first observation of a user's action.
func (w *fixture) of(user string, action calllog.Action) *calllog.Call {
	for i := range w.facts.Observations {
		if o := &w.facts.Observations[i]; o.User == user && o.Action == action {
			return o
		}
	}
	w.t.Fatalf("no %s of %s", action, user)
	return nil
}

func (w *fixture) open() *auditor.Auditor {
	w.t.Helper()
	a, err := auditor.Open(w.t.Context(), auditor.Config{Database: w.path, StableWithin: 100 * time.Millisecond,
		Inventory: func(context.Context, string, int64) (inventorystate.State, error) { return w.inventory, nil }})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { a.Close() })
	return a
}

func (w *fixture) audit() *auditor.Report {
	w.t.Helper()
	r, err := w.open().Final(w.t.Context(), w.facts)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}
