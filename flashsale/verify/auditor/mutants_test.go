package auditor_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/floodweir/weir/flashsale/ledger"
	"github.com/floodweir/weir/flashsale/meminventory"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/verify/auditor"
	"github.com/floodweir/weir/flashsale/verify/inventorytest"
	"github.com/floodweir/weir/flashsale/verify/ledgertest"
)

func mutants() []mutant {
	byKey := func(db execSQL, r sale.Reservation, _ *sale.OrderResult) {
		db(`DROP INDEX IF EXISTS orders_slot`)
		db(`DROP INDEX IF EXISTS orders_ticket`)
		db(`INSERT INTO orders (reservation, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, payment, returned, note, held)
			SELECT reservation || '-2', sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, payment, returned, note, held
			FROM orders WHERE reservation = ?`, r.ID)
		db(`UPDATE sales SET sold = sold + 1 WHERE id = ?`, r.Sale)
		db(`INSERT INTO movements (sale, kind, units, reservation, at) SELECT sale, kind, units, reservation || '-2', at FROM movements WHERE reservation = ?`, r.ID)
	}
	return []mutant{
		{name: "no guard", defect: "sold = sold + 1 without a check of the stock", want: auditor.NoOversell, suite: "ledger",
			actors: actors{inventory: openingWith(func(o *sale.InitialState) { o.Sale.Stock *= 2 }), ledger: afterPlacing(placeRejected)}},
		{name: "half a transaction", defect: "the order is saved, the stock is not changed", want: auditor.NoOversell, suite: "ledger",
			actors: actors{ledger: afterPlacing(func(db execSQL, r sale.Reservation, _ *sale.OrderResult) {
				db(`UPDATE sales SET sold = sold - 1 WHERE id = ?`, r.Sale)
			})}},
		{name: "the other half of a transaction", defect: "the stock is changed, the order is not saved", want: auditor.NoOversell, suite: "ledger",
			actors: actors{ledger: afterPlacing(everyNth(3, func(db execSQL, r sale.Reservation, _ *sale.OrderResult) {
				db(`DELETE FROM movements WHERE reservation = ?`, r.ID)
				db(`DELETE FROM orders WHERE reservation = ?`, r.ID)
			}))}},
		{name: "ignored errors", defect: "an order writer that ignores its errors and acknowledges", want: auditor.OneOrder, suite: "ledger",
			actors: actors{ledger: func(l sale.Ledger, _ execSQL) sale.Ledger {
				return faultyLedger{Ledger: l, place: func(ctx context.Context, epoch int64, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
					if _, err := l.Order(ctx, rs[0].ID); err == nil {
						return l.CreateOrders(ctx, epoch, rs, now)
					}
					done, err := l.CreateOrders(ctx, epoch, rs[1:], now)
					return append([]sale.OrderResult{{State: sale.PendingPay, New: true}}, done...), err
				}}
			}}},
		{name: "no timeout", defect: "orders never expire", want: auditor.TicketsEnd, suite: "ledger",
			actors: actors{ledger: func(l sale.Ledger, _ execSQL) sale.Ledger {
				return faultyLedger{Ledger: l, expire: func(context.Context, time.Time, int) ([]sale.Order, error) { return nil, nil }}
			}}},
		{name: "no return", defect: "expired units never return", want: auditor.NoUndersell, suite: "ledger",
			actors: actors{ledger: func(l sale.Ledger, _ execSQL) sale.Ledger {
				return faultyLedger{Ledger: l, unreturned: func(context.Context, int) ([]sale.Order, error) { return nil, nil }}
			}}},
		{name: "not consumed", defect: "a token that can be used again", want: auditor.Tokens, suite: "inventory", actors: actors{inventory: reusableTicket}},
		{name: "shared token", defect: "a token that is the same for all users", want: auditor.Tokens, actors: actors{service: sharedToken}},
		{name: "bearer token", defect: "a token that any user can use", want: auditor.Tokens, actors: actors{service: bearerToken}},
		{name: "user from a header", defect: "the user's ID is read from a header", want: auditor.OneOrder,
			actors: actors{identity: func(session, header string) string {
				if header != "" {
					return header
				}
				return session
			}}},
		{name: "ten million", defect: "a limit of ten million, which limits no burst", want: auditor.Bounded, suite: "inventory", actors: actors{inventory: admitAll}},

		{name: "double clicks", defect: "double clicks take units from the inventory", want: auditor.NoUndersell, suite: "inventory",
			actors: actors{inventory: leaking(func(o sale.ReserveResult) bool { return o.Repeated }, nil)}},
		{name: "shared failure flag", defect: "a failure flag per SKU: one failure fails all users", want: auditor.NoUndersell, suite: "inventory", actors: actors{inventory: failForAll}},
		{name: "decrement first", defect: "decremented before the refusal: units are left although it reports sold out", want: auditor.NoUndersell, suite: "inventory",
			actors: actors{inventory: leaking(func(o sale.ReserveResult) bool { return o.Reason != sale.OK && o.Reason != sale.IsAllTaken },
				func(s sale.TicketStatus) bool { return s.State == sale.Waiting })}},
		{name: "late payment", defect: "a payment after the deadline buys", want: auditor.PayOrTimeout, suite: "ledger",
			actors: actors{ledger: func(l sale.Ledger, db execSQL) sale.Ledger {
				return faultyLedger{Ledger: l, pay: func(ctx context.Context, p sale.Payment, now time.Time) (sale.PayResult, error) {
					paid, err := l.Pay(ctx, p, now)
					if err == nil && paid.RefundDue && paid.Order.State == sale.Expired {
						db(`UPDATE payments SET state = 'accepted' WHERE id = ?`, p.ID)
						db(`UPDATE orders SET state = 'paid', held = slot, payment = ? WHERE reservation = ?`, p.ID, p.Reservation)
						db(`UPDATE sales SET sold = sold + 1, paid = paid + 1 WHERE id = ?`, paid.Order.Sale)
						paid.RefundDue, paid.Order.State = false, sale.Paid
					}
					return paid, err
				}}
			}}},
		{name: "early call", defect: "an early call takes a unit", want: auditor.InventoryMatchesLedger, suite: "inventory",
			actors: actors{inventory: leaking(nil, func(s sale.TicketStatus) bool { return s.Reason == sale.NotStarted }), early: true}},
		{name: "early sale", defect: "the sale starts by another clock", want: auditor.InTime, suite: "inventory",
			actors: actors{inventory: openingWith(func(o *sale.InitialState) { o.Sale.StartsAt = o.Sale.StartsAt.Add(-time.Hour) }), early: true}},
		{name: "lost entries", defect: "a crash between the decrement and the send", want: auditor.OneOrder, suite: "inventory", actors: actors{inventory: lostEntries}},
		{name: "off by one", defect: "refuses at sold > total: sells one unit too many", want: auditor.OneOrder, suite: "inventory",
			actors: actors{inventory: openingWith(func(o *sale.InitialState) { o.Sale.Stock++ })}},
		{name: "0 is true", defect: "0 is true in Lua: every user counts as a buyer", want: auditor.NoUndersell, suite: "inventory",
			actors: actors{inventory: func(g sale.Inventory) sale.Inventory {
				return faultyInventory{Inventory: g, reserve: func(sale.Inventory, context.Context, sale.ReserveRequest) (sale.ReserveResult, error) {
					return sale.ReserveResult{Reason: sale.PerUserLimit}, nil
				}}
			}}},
		{name: "past zero", defect: "decremented below zero, and still issues a token", want: auditor.Bounded, suite: "inventory", actors: actors{inventory: tokenForAll}},
		{name: "returned twice", defect: "the inventory returns a unit, the ledger does not: it is returned twice", want: auditor.InventoryMatchesLedger, suite: "inventory",
			actors: actors{inventory: func(g sale.Inventory) sale.Inventory {
				return faultyInventory{Inventory: g, count: func(g sale.Inventory, ctx context.Context, id string, epoch int64) (sale.Counts, error) {
					c, err := g.Counts(ctx, id, epoch)
					c.Free += c.Reserved / 6
					return c, err
				}}
			}}},
		{name: "redelivery", defect: "one order per delivery", want: auditor.OneOrder, suite: "ledger", actors: actors{ledger: afterPlacing(everyNth(3, byKey))}},
		{name: "no limit per user", defect: "the limit per user is checked before the order exists", want: auditor.PerUser, suite: "inventory",
			actors: actors{inventory: reusableTicket, ledger: afterPlacing(placeRejected)}},
		{name: "ignored key", defect: "the same Idempotency-Key, another response", want: auditor.Idempotency,
			actors: actors{service: func(d sale.BuyerService) sale.BuyerService {
				return faultyService{BuyerService: d, buy: func(ctx context.Context, user, id, token, key string) (sale.BuyResult, error) {
					b, err := d.Buy(ctx, user, id, token, key)
					if b.Repeated {
						b.Receipt.At = b.Receipt.At.Add(time.Second)
					}
					return b, err
				}}
			}}},
		{name: "last first", defect: "a queue that serves the last user first", want: auditor.FairQueue, suite: "inventory", actors: actors{inventory: lastFirst}},
	}
}

// TestScenario runs the real parts with misbehaving buyers, and wants no violation.
func TestScenario(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newScenario(t, actors{}).run()
		var table strings.Builder
		r.WriteTo(&table)
		t.Log("\n" + table.String())
		if r.Violations() > 0 || len(r.Errors) > 0 {
			t.Error("the real parts have violations")
		}
		for _, name := range auditor.Invariants() {
			if r.Findings[name].Checks == 0 {
				t.Errorf("%s: no check", name)
			}
		}
	})
}

// TestMutants runs the same sale with each mutant. The auditor must report each one, and so must
// the part's own suite where it can.
func TestMutants(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	w.Write([]byte("defect\tmutant\tviolations\tfailed tests of the suite\n"))
	for _, x := range mutants() {
		t.Run(x.name, func(t *testing.T) {
			var found []string
			synctest.Test(t, func(t *testing.T) {
				r := newScenario(t, x.actors).run()
				if r.Findings[x.want].Violations == 0 {
					var b strings.Builder
					r.WriteTo(&b)
					t.Errorf("%s: no violation of %q:\n%s", x.defect, x.want, b.String())
				}
				for _, name := range auditor.Invariants() {
					if r.Findings[name].Violations > 0 {
						found = append(found, string(name))
					}
				}
				if f := r.Findings[x.want]; len(f.Examples) > 0 {
					t.Logf("%s: %s", x.want, f.Examples[0])
				}
			})
			rules := "–"
			if x.suite != "" {
				failed := suite(t, x)
				if len(failed) == 0 {
					t.Errorf("%s: the suite of the %s passed", x.defect, x.suite)
				}
				rules = x.suite + ": " + strings.Join(failed, "; ")
			}
			w.Write([]byte(x.defect + "\t" + x.name + "\t" + strings.Join(found, ", ") + "\t" + rules + "\n"))
		})
	}
	w.Flush()
	t.Log("\n" + table.String())
}

// mutantVariable is the environment variable that names the mutant for TestSuite.
const mutantVariable = "FLASHSALE_MUTANT"

// suite runs the suite of a part against a mutant in a process of its own, since the suite fails
// there. It returns the first failed tests.
func suite(t *testing.T, x mutant) (failed []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSuite$", "-test.v", "-test.failfast", "-test.timeout", "60s")
	cmd.Env = append(os.Environ(), mutantVariable+"="+x.name)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(line, "    --- FAIL: TestSuite/"); ok {
			name, _, _ = strings.Cut(name, " (")
			failed = append(failed, strings.ReplaceAll(name, "_", " "))
		}
	}
	if len(failed) == 0 {
		t.Errorf("the suite did not run: %v\n%.2000s", err, out)
	}
	return failed
}

// TestSuite runs a suite against the mutant that mutantVariable names.
func TestSuite(t *testing.T) {
	x := mutant{}
	for _, e := range mutants() {
		if e.name == os.Getenv(mutantVariable) {
			x = e
		}
	}
	if x.suite == "inventory" {
		inventorytest.Run(t, func(t *testing.T, clock *inventorytest.Clock) sale.Inventory {
			e, err := meminventory.New(meminventory.Config{Clock: clock.Now, Redeliver: inventorytest.Redeliver})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Stop)
			return x.actors.inventory(e)
		})
	}
	if x.suite == "ledger" {
		ledgertest.Run(t, func(t *testing.T) sale.Ledger {
			path := filepath.Join(t.TempDir(), "sale.db")
			l, err := ledger.Open(t.Context(), "sqlite:"+path, ledger.Config{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			db := unguarded(t, path)
			return x.actors.ledger(l, func(statement string, args ...any) { db.Exec(statement, args...) })
		})
	}
}
