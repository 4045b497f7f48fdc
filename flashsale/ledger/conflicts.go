package ledger

import (
	"encoding/json"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// existing describes the rows that conflict with an orderRow.
type existing struct {
	line         int
	sale, user   string // of its own reservation, if there is one
	state        sale.OrderState
	ticket, slot bool // the ticket has an order; the slot has an active order
}

// findExisting finds the rows that conflict with a batch. The rows of its sales are locked, so no
// other transaction adds orders. A concurrent change of an order is not visible yet. The
// subqueries stand in the SELECT list so that PostgreSQL always uses their indexes: on a table
// without statistics it would read all orders of a state.
func findExisting(x *database.Tx, lines []orderRow) ([]existing, error) {
	doc, err := json.Marshal(lines)
	if err != nil {
		return nil, err
	}
	return database.List(x, func(scan func(...any) error) (existing, error) {
		var s existing
		err := scan(&s.line, &s.sale, &s.user, &s.state, &s.ticket, &s.slot)
		return s, err
	}, `SELECT r.pos, coalesce(o.sale, ''), coalesce(o.usr, ''), coalesce(o.state, ''),
		(SELECT t.reservation FROM orders t WHERE t.sale = r.sale AND t.ticket = r.ticket AND t.spent = 1 LIMIT 1) IS NOT NULL,
		(SELECT t.reservation FROM orders t WHERE t.sale = r.sale AND t.usr = r.usr AND t.held = r.slot LIMIT 1) IS NOT NULL
		FROM `+orderRows+` LEFT JOIN orders o ON o.reservation = r.id`, string(doc))
}

// buyer is a user of a sale.
type buyer struct{ sale, user string }

// heldUnits returns how many units the users of a batch have in pending and paid orders. Where an
// order has one unit at most, the slots bound them, and heldUnits reads nothing.
func heldUnits(x *database.Tx, sales map[string]*capacity, lines []orderRow) (map[buyer]int64, error) {
	held := map[buyer]int64{}
	var many []orderRow
	for _, n := range lines {
		if s := sales[n.Sale]; s != nil && s.maxQuantity > 1 {
			many = append(many, n)
		}
	}
	if len(many) == 0 {
		return held, nil
	}
	doc, err := json.Marshal(many)
	if err != nil {
		return nil, err
	}
	_, err = database.List(x, func(scan func(...any) error) (struct{}, error) {
		var b buyer
		var n int64
		err := scan(&b.sale, &b.user, &n)
		held[b] = n
		return struct{}{}, err
	}, `SELECT r.sale, r.usr, (SELECT coalesce(sum(o.quantity), 0) FROM orders o WHERE o.sale = r.sale AND o.usr = r.usr AND o.held IS NOT NULL)
		FROM `+orderRows, string(doc))
	return held, err
}

// noneExists returns errNeedLookup if one of the rows exists. A constraint would also detect it,
// but would wait for a transaction that changes that order, which may wait for this one.
func noneExists(x *database.Tx, lines []orderRow) error {
	all := make([]string, len(lines))
	for i, n := range lines {
		all[i] = n.ID
	}
	var n int
	err := x.Row("SELECT count(*) FROM orders WHERE reservation {among:1}", x.Among(all)).Scan(&n)
	if err == nil && n > 0 {
		err = errNeedLookup
	}
	return err
}
