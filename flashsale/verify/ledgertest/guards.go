package ledgertest

import "strings"

// InvalidStatements returns statements that break the rules in a ledger's tables (see SCHEMA.md
// of package ledger). They assume a sale of three units with one paid and one pending order. A
// constraint of the database refuses each of them.
func InvalidStatements() []string {
	const columns = "reservation, sale, epoch, usr, slot, ticket, key, at, pay_by, state, price, placed, changed, held"
	return []string{
		"UPDATE sales SET sold = 4", "UPDATE sales SET sold = -1", "UPDATE sales SET stock = 1", "UPDATE sales SET paid = 3",
		"UPDATE sales SET state = 'open'", "UPDATE sales SET epoch = 0", "UPDATE sales SET why = 'recovery'",
		"INSERT INTO orders SELECT * FROM orders",
		"INSERT INTO orders (" + columns + ") SELECT 'x', sale, epoch, 'x', slot, ticket, key, at, pay_by, state, price, placed, changed, held FROM orders WHERE state = 'pending_pay'",
		"INSERT INTO orders (" + columns + ") SELECT 'x', sale, epoch, usr, slot, 'x', key, at, pay_by, state, price, placed, changed, held FROM orders WHERE state = 'pending_pay'",
		"UPDATE orders SET state = 'sold'",
		"UPDATE orders SET state = 'paid' WHERE state = 'pending_pay'",
		"UPDATE orders SET returned = 1",
		"UPDATE orders SET slot = 11, held = 11", "UPDATE orders SET held = slot + 1",
		"UPDATE orders SET held = NULL", "UPDATE orders SET spent = 0", "UPDATE orders SET quantity = 0", "UPDATE orders SET quantity = 11",
		"UPDATE sales SET max_quantity = 0", "UPDATE sales SET max_quantity = per_user + 1",
		"UPDATE orders SET sale = 'nothing'",
		"DELETE FROM orders",
		"UPDATE orders SET name = 'x'", "UPDATE orders SET phone = '12345'",
		"UPDATE orders SET phone = '12345', name = '" + strings.Repeat("x", 61) + "'",
		"UPDATE orders SET name = 'x', phone = '" + strings.Repeat("1", 41) + "'",
		"INSERT INTO movements (sale, kind, units, reservation, at) SELECT sale, kind, units, reservation, at FROM movements WHERE kind = 'sold'",
		"INSERT INTO movements (sale, kind, units, key, at) SELECT sale, kind, units, key, at FROM movements WHERE kind = 'stock'",
		"UPDATE movements SET units = 2 WHERE kind = 'sold'",
		"UPDATE movements SET units = -units", "UPDATE movements SET units = -11 WHERE kind = 'sold'",
		"INSERT INTO payments (id, reservation, amount, state, at) SELECT id, reservation, amount, 'refund_due', at FROM payments",
		"INSERT INTO payments (id, reservation, amount, state, at) SELECT 'p2', reservation, amount, state, at FROM payments",
		"INSERT INTO payments (id, reservation, amount, state, at) VALUES ('p3', 'nothing', 1, 'refund_due', 0)",
		"INSERT INTO refunds (payment, reservation, state, due, changed) SELECT 'nothing', reservation, 'due', 0, 0 FROM orders",
		"INSERT INTO refunds (payment, reservation, state, due, changed) SELECT id, reservation, 'sold', 0, 0 FROM payments",
		"INSERT INTO checkouts (id, provider, reservation, sale, receipt, attempt, amount, currency, url, state, opened, pay_by, due) SELECT 'x', 'x', 'x', id, 'x', 1, 0, 'CNY', 'x', 'open', 0, 0, 0 FROM sales",
		"INSERT INTO payment_events (payment, kind, refund_key, event, reservation, amount, currency, at, received, waits) VALUES ('nothing', 'paid', '', '', '', 0, '', 0, 0, 0)",
	}
}
