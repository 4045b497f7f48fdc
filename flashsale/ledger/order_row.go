package ledger

import (
	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
)

// orderRow is a reservation and its outcome, as the statements read it.
type orderRow struct {
	Pos    int             `json:"pos"`
	ID     string          `json:"id"`
	Sale   string          `json:"sale"`
	Epoch  int64           `json:"epoch"`
	User   string          `json:"usr"`
	Slot   int             `json:"slot"`
	Ticket string          `json:"ticket"`
	Key    string          `json:"key"`
	At     int64           `json:"at"`
	PayBy  int64           `json:"pay_by"`
	State  sale.OrderState `json:"state"`
	Price  int64           `json:"price"`
	Note   string          `json:"note"`

	Quantity int64 `json:"quantity"`
}

// orderRows declares the columns of orderRow.
const orderRows = "{rows:pos int, id text, sale text, epoch bigint, usr text, slot int, ticket text, key text, at bigint, pay_by bigint, state text, price bigint, note text, quantity int}"

// columnsOf returns the columns of rows, first id, sale and quantity.
func columnsOf(rows []orderRow) []database.Column {
	return []database.Column{
		database.Texts("id", rows, func(n *orderRow) string { return n.ID }),
		database.Texts("sale", rows, func(n *orderRow) string { return n.Sale }),
		database.Numbers("quantity", rows, func(n *orderRow) int64 { return n.Quantity }),
		database.Numbers("epoch", rows, func(n *orderRow) int64 { return n.Epoch }),
		database.Texts("usr", rows, func(n *orderRow) string { return n.User }),
		database.Numbers("slot", rows, func(n *orderRow) int64 { return int64(n.Slot) }),
		database.Texts("ticket", rows, func(n *orderRow) string { return n.Ticket }),
		database.Texts("key", rows, func(n *orderRow) string { return n.Key }),
		database.Numbers("at", rows, func(n *orderRow) int64 { return n.At }),
		database.Numbers("pay_by", rows, func(n *orderRow) int64 { return n.PayBy }),
		database.Texts("state", rows, func(n *orderRow) string { return string(n.State) }),
		database.Numbers("price", rows, func(n *orderRow) int64 { return n.Price }),
		database.Texts("note", rows, func(n *orderRow) string { return n.Note }),
	}
}

func rowOf(i int, r sale.Reservation) orderRow {
	return orderRow{
		Pos: i, ID: r.ID, Sale: r.Sale, Epoch: r.Epoch, User: r.User, Slot: r.Slot, Ticket: r.Ticket, Key: r.Key,
		At: millis(r.At), PayBy: millis(r.PayBy), Quantity: r.Units(),
	}
}
