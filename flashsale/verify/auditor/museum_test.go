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

func exhibits() []exhibit {
	byKey := func(db beside, r sale.Reservation, _ *sale.OrderResult) {
		db(`DROP INDEX IF EXISTS orders_slot`)
		db(`DROP INDEX IF EXISTS orders_ticket`)
		db(`INSERT INTO orders (reservation, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, payment, returned, note)
			SELECT reservation || '-2', sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, payment, returned, note
			FROM orders WHERE reservation = ?`, r.ID)
		db(`UPDATE sales SET sold = sold + 1 WHERE id = ?`, r.Sale)
		db(`INSERT INTO movements (sale, kind, units, reservation, at) SELECT sale, kind, units, reservation || '-2', at FROM movements WHERE reservation = ?`, r.ID)
	}
	return []exhibit{
		{name: "no guard", defect: "sold = sold + 1 without a look at the stock", want: auditor.NoOversell, suite: "ledger",
			cast: cast{gate: opened(func(o *sale.InitialState) { o.Sale.Stock *= 2 }), ledger: placing(sell)}},
		{name: "half a transaction", defect: "the order saved, the stock not changed", want: auditor.NoOversell, suite: "ledger",
			cast: cast{ledger: placing(func(db beside, r sale.Reservation, _ *sale.OrderResult) {
				db(`UPDATE sales SET sold = sold - 1 WHERE id = ?`, r.Sale)
			})}},
		{name: "the other half", defect: "the stock changed, the order not saved", want: auditor.NoOversell, suite: "ledger",
			cast: cast{ledger: placing(every(3, func(db beside, r sale.Reservation, _ *sale.OrderResult) {
				db(`DELETE FROM movements WHERE reservation = ?`, r.ID)
				db(`DELETE FROM orders WHERE reservation = ?`, r.ID)
			}))}},
		{name: "swallowed", defect: "an order writer that swallows its errors and says done", want: auditor.OneOrder, suite: "ledger",
			cast: cast{ledger: func(l sale.Ledger, _ beside) sale.Ledger {
				return ledgerMutant{Ledger: l, place: func(ctx context.Context, rs []sale.Reservation, now time.Time) ([]sale.OrderResult, error) {
					if _, err := l.Order(ctx, rs[0].ID); err == nil {
						return l.CreateOrders(ctx, rs, now)
					}
					done, err := l.CreateOrders(ctx, rs[1:], now)
					return append([]sale.OrderResult{{State: sale.PendingPay, New: true}}, done...), err
				}}
			}}},
		{name: "no timeout", defect: "no time to pay ever ends", want: auditor.TicketsEnd, suite: "ledger",
			cast: cast{ledger: func(l sale.Ledger, _ beside) sale.Ledger {
				return ledgerMutant{Ledger: l, expire: func(context.Context, time.Time, int) ([]sale.Order, error) { return nil, nil }}
			}}},
		{name: "no return", defect: "stock that never returns", want: auditor.NoUndersell, suite: "ledger",
			cast: cast{ledger: func(l sale.Ledger, _ beside) sale.Ledger {
				return ledgerMutant{Ledger: l, unreturned: func(context.Context, int) ([]sale.Order, error) { return nil, nil }}
			}}},
		{name: "not consumed", defect: "a token that is not used up", want: auditor.Tokens, suite: "gate", cast: cast{gate: unconsumed}},
		{name: "a shared key", defect: "an exposed key that is the same for all users", want: auditor.Tokens, cast: cast{desk: exposed}},
		{name: "a bearer's token", defect: "a token that anybody can use", want: auditor.Tokens, cast: cast{desk: bearer}},
		{name: "whoever it says", defect: "the user's ID from a header", want: auditor.OneOrder,
			cast: cast{identity: func(session, header string) string {
				if header != "" {
					return header
				}
				return session
			}}},
		{name: "ten million", defect: "a limit of ten million, which limits no burst", want: auditor.Bounded, suite: "gate", cast: cast{gate: everybody}},

		{name: "drained", defect: "double clicks drain the stock of the gate", want: auditor.NoUndersell, suite: "gate",
			cast: cast{gate: leaking(func(o sale.ReserveResult) bool { return o.Repeated }, nil)}},
		{name: "a flag for all", defect: "a fail flag kept by the SKU: one failure fails everybody", want: auditor.NoUndersell, suite: "gate", cast: cast{gate: failing}},
		{name: "decrement first", defect: "decremented before the refusal: units left, and sold out", want: auditor.NoUndersell, suite: "gate",
			cast: cast{gate: leaking(func(o sale.ReserveResult) bool { return o.Reason != sale.OK && o.Reason != sale.IsAllTaken }, nil)}},
		{name: "late money", defect: "a payment after the timeout buys", want: auditor.PayOrTimeout, suite: "ledger",
			cast: cast{ledger: func(l sale.Ledger, db beside) sale.Ledger {
				return ledgerMutant{Ledger: l, pay: func(ctx context.Context, p sale.Payment, now time.Time) (sale.PayResult, error) {
					paid, err := l.Pay(ctx, p, now)
					if err == nil && paid.RefundDue && paid.Order.State == sale.Expired {
						db(`UPDATE payments SET state = 'accepted' WHERE id = ?`, p.ID)
						db(`UPDATE orders SET state = 'paid', payment = ? WHERE reservation = ?`, p.ID, p.Reservation)
						db(`UPDATE sales SET sold = sold + 1, paid = paid + 1 WHERE id = ?`, paid.Order.Sale)
						paid.RefundDue, paid.Order.State = false, sale.Paid
					}
					return paid, err
				}}
			}}},
		{name: "early hunger", defect: "an early call eats a unit", want: auditor.GateIsLedger, suite: "gate",
			cast: cast{gate: leaking(nil, func(s sale.TicketStatus) bool { return s.Reason == sale.NotStarted }), early: true}},
		{name: "early sale", defect: "a sale that begins by another clock", want: auditor.InTime, suite: "gate",
			cast: cast{gate: opened(func(o *sale.InitialState) { o.Sale.StartsAt = o.Sale.StartsAt.Add(-time.Hour) }), early: true}},
		{name: "unsent", defect: "a crash between the decrement and the send", want: auditor.OneOrder, suite: "gate", cast: cast{gate: unsent}},
		{name: "the wrong way", defect: "sold > total refuses: one more is sold", want: auditor.GateIsLedger, suite: "gate",
			cast: cast{gate: opened(func(o *sale.InitialState) { o.Sale.Stock++ })}},
		{name: "0 is true", defect: "the answer 0 of a set is true in Lua: everybody has bought before", want: auditor.NoUndersell, suite: "gate",
			cast: cast{gate: func(g sale.Inventory) sale.Inventory {
				return gateMutant{Inventory: g, reserve: func(sale.Inventory, context.Context, sale.ReserveRequest) (sale.ReserveResult, error) {
					return sale.ReserveResult{Reason: sale.PerUserLimit}, nil
				}}
			}}},
		{name: "past zero", defect: "decremented past zero, and a token all the same", want: auditor.Bounded, suite: "gate", cast: cast{gate: giveaway}},
		{name: "the gate moved", defect: "the unit of the gate went, that of the ledger did not: returned twice", want: auditor.GateIsLedger, suite: "gate",
			cast: cast{gate: func(g sale.Inventory) sale.Inventory {
				return gateMutant{Inventory: g, count: func(g sale.Inventory, ctx context.Context, id string, epoch int64) (sale.Counts, error) {
					c, err := g.Counts(ctx, id, epoch)
					c.Free += c.Reserved / 6
					return c, err
				}}
			}}},
		{name: "twice delivered", defect: "an order for each delivery", want: auditor.OneOrder, suite: "ledger", cast: cast{ledger: placing(every(3, byKey))}},
		{name: "no limit per user", defect: "a limit per user that is asked before the order is there", want: auditor.PerUser, suite: "gate",
			cast: cast{gate: unconsumed, ledger: placing(sell)}},
		{name: "a key that means nothing", defect: "the same Idempotency-Key, another answer", want: auditor.Idempotency,
			cast: cast{desk: func(d sale.BuyerService) sale.BuyerService {
				return deskMutant{BuyerService: d, buy: func(ctx context.Context, user, id, token, key string) (sale.BuyResult, error) {
					b, err := d.Buy(ctx, user, id, token, key)
					if b.Repeated {
						b.Receipt.At = b.Receipt.At.Add(time.Second)
					}
					return b, err
				}}
			}}},
		{name: "last come", defect: "a line that serves the last first", want: auditor.FairLine, suite: "gate", cast: cast{gate: lastFirst}},
	}
}

// TestTheatre: the real parts, with buyers who behave badly, and nothing to be found.
func TestTheatre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := stage(t, cast{}).play()
		var table strings.Builder
		r.WriteTo(&table)
		t.Log("\n" + table.String())
		if r.Violations() > 0 || len(r.Errors) > 0 {
			t.Error("a sale of the real parts was found wanting")
		}
		for _, name := range auditor.Invariants() {
			if r.Findings[name].Checks == 0 {
				t.Errorf("%s: no check", name)
			}
		}
	})
}

// TestMuseum plays the same sale with each mutant, and each must be found out: by the auditor,
// and by the suite of the part where that can see it.
func TestMuseum(t *testing.T) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	w.Write([]byte("defect\tmutant\tfound by the auditor\tand by the suite\n"))
	for _, x := range exhibits() {
		t.Run(x.name, func(t *testing.T) {
			var found []string
			synctest.Test(t, func(t *testing.T) {
				r := stage(t, x.cast).play()
				if r.Findings[x.want].Violations == 0 {
					var b strings.Builder
					r.WriteTo(&b)
					t.Errorf("%s: not found to break %q:\n%s", x.defect, x.want, b.String())
				}
				for _, name := range auditor.Invariants() {
					if r.Findings[name].Violations > 0 {
						found = append(found, string(name))
					}
				}
				if f := r.Findings[x.want]; len(f.First) > 0 {
					t.Logf("%s: %s", x.want, f.First[0])
				}
			})
			rules := "–"
			if x.suite != "" {
				failed := suite(t, x)
				if len(failed) == 0 {
					t.Errorf("%s: the suite of the %s passed it", x.defect, x.suite)
				}
				rules = x.suite + ": " + strings.Join(failed, "; ")
			}
			w.Write([]byte(x.defect + "\t" + x.name + "\t" + strings.Join(found, ", ") + "\t" + rules + "\n"))
		})
	}
	w.Flush()
	t.Log("\n" + table.String())
}

// asked is the environment variable that says which mutant TestSuite is to fail with.
const asked = "FLASHSALE_EXHIBIT"

// suite runs the suite of a part against a mutant, in a process of its own since it is to
// fail there, and returns the first of its tests that did.
func suite(t *testing.T, x exhibit) (failed []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestSuite$", "-test.v", "-test.failfast", "-test.timeout", "20s")
	cmd.Env = append(os.Environ(), asked+"="+x.name)
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

// TestSuite runs the suites: against the real parts, which pass, or against a mutant.
func TestSuite(t *testing.T) {
	x := exhibit{}
	for _, e := range exhibits() {
		if e.name == os.Getenv(asked) {
			x = e
		}
	}
	if x.suite == "gate" {
		inventorytest.Run(t, func(t *testing.T, clock *inventorytest.Clock) sale.Inventory {
			e, err := meminventory.New(meminventory.Config{Clock: clock.Now, Redeliver: inventorytest.Redeliver})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Stop)
			return x.cast.gate(e)
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
			return x.cast.ledger(l, func(statement string, args ...any) { db.Exec(statement, args...) })
		})
	}
}
