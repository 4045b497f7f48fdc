// Package outbox stores the events of a ledger and their deliveries to webhook endpoints.
// Append functions run in the transaction that changes an order or a sale.
package outbox

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"time"

	"github.com/floodweir/weir/flashsale/ledger/internal/database"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
)

// timeFormat formats times as the HTTP interface does.
const timeFormat = "2006-01-02T15:04:05.000Z"

// eventRow is an event as the statements read it.
type eventRow struct {
	ID       string       `json:"id"`
	Subject  string       `json:"subject"`
	Sale     string       `json:"sale"`
	Merchant string       `json:"merchant"`
	Type     webhook.Type `json:"type"`
	Body     string       `json:"body"`
}

const eventRows = "{rows:id text, subject text, sale text, merchant text, type text, body text}"

// body is the payload of a Standard Webhook.
type body struct {
	Type      webhook.Type `json:"type"`
	Timestamp string       `json:"timestamp"`
	Data      any          `json:"data"`
}

type orderData struct {
	Reservation string          `json:"reservation"`
	Sale        string          `json:"sale"`
	SKU         string          `json:"sku"`
	User        string          `json:"user"`
	Slot        int             `json:"slot"`
	State       sale.OrderState `json:"state"`
	Quantity    int64           `json:"quantity"`
	Price       int64           `json:"price"`
	Currency    string          `json:"currency"`
	At          string          `json:"at"`
	PayBy       string          `json:"pay_by"`
	Payment     string          `json:"payment,omitempty"`
}

type saleData struct {
	Sale  string `json:"sale"`
	SKU   string `json:"sku"`
	Stock int64  `json:"stock"`
	Sold  int64  `json:"sold"`
	Paid  int64  `json:"paid"`
}

// announced is a sale whose merchant has an enabled endpoint.
type announced struct {
	id, merchant, sku, currency string
	stock, sold, paid           int64
}

// listening returns those of sales whose merchants have an enabled endpoint.
func listening(x *database.Tx, sales []string) (map[string]announced, error) {
	rows, err := database.List(x, func(scan func(...any) error) (s announced, err error) {
		err = scan(&s.id, &s.merchant, &s.sku, &s.currency, &s.stock, &s.sold, &s.paid)
		return s, err
	}, `SELECT id, merchant, sku, currency, stock, sold, paid FROM sales WHERE id {among:1}
		AND EXISTS (SELECT 1 FROM webhook_endpoints e WHERE e.merchant = sales.merchant AND e.disabled = '')`, x.Among(sales))
	if err != nil {
		return nil, err
	}
	all := make(map[string]announced, len(rows))
	for _, s := range rows {
		all[s.id] = s
	}
	return all, nil
}

// AppendOrders stores an event of typ for each order, in its new state. The caller has changed
// the rows of the orders in this transaction, so that no other one changes them. It costs one
// statement for the sales without an endpoint.
func AppendOrders(x *database.Tx, typ webhook.Type, orders []sale.Order, now time.Time) error {
	var ids []string
	for i := range orders {
		ids = append(ids, orders[i].Sale)
	}
	slices.Sort(ids)
	of, err := listening(x, slices.Compact(ids))
	if err != nil || len(of) == 0 {
		return err
	}
	var rows []eventRow
	for i := range orders {
		o := &orders[i]
		s, ok := of[o.Sale]
		if !ok {
			continue
		}
		row, err := newRow(typ, o.ID, s, orderData{
			Reservation: o.ID, Sale: s.id, SKU: s.sku, User: o.User, Slot: o.Slot, State: o.State, Quantity: o.Units(), Price: o.Price, Currency: s.currency,
			At: o.At.UTC().Format(timeFormat), PayBy: o.PayBy.UTC().Format(timeFormat), Payment: o.Payment,
		}, now)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return appendRows(x, rows, now)
}

// AppendSales stores an event of typ for each sale. The caller has locked their rows.
func AppendSales(x *database.Tx, typ webhook.Type, now time.Time, ids ...string) error {
	of, err := listening(x, ids)
	if err != nil || len(of) == 0 {
		return err
	}
	var rows []eventRow
	for _, id := range ids {
		s, ok := of[id]
		if !ok {
			continue
		}
		row, err := newRow(typ, id, s, saleData{s.id, s.sku, s.stock, s.sold, s.paid}, now)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return appendRows(x, rows, now)
}

// AppendEnded stores sale.ended for a sale, unless it is stored already.
func AppendEnded(x *database.Tx, id string, now time.Time) error {
	var n int
	err := x.Row("SELECT count(*) FROM outbox WHERE subject = $1 AND type = $2", id, string(webhook.SaleEnded)).Scan(&n)
	if err != nil || n > 0 {
		return err
	}
	return AppendSales(x, webhook.SaleEnded, now, id)
}

func newRow(typ webhook.Type, subject string, s announced, data any, now time.Time) (eventRow, error) {
	text, err := json.Marshal(body{typ, now.UTC().Format(timeFormat), data})
	return eventRow{"evt_" + rand.Text(), subject, s.id, s.merchant, typ, string(text)}, err
}

// appendRows stores events of different subjects, and their deliveries.
func appendRows(x *database.Tx, rows []eventRow, now time.Time) error {
	doc, err := json.Marshal(rows)
	if err != nil || len(rows) == 0 {
		return err
	}
	at := now.UnixMilli()
	if _, err := x.Exec(`INSERT INTO outbox (id, subject, seq, sale, type, body, at)
		SELECT id, subject, 1 + coalesce((SELECT max(o.seq) FROM outbox o WHERE o.subject = r.subject), 0), sale, type, body, $2 FROM `+eventRows,
		string(doc), at); err != nil {
		return err
	}
	_, err = x.Exec(`INSERT INTO webhook_deliveries (endpoint, event, subject, seq, type, at, due)
		SELECT e.id, o.id, o.subject, o.seq, o.type, o.at, o.at FROM `+eventRows+`
		JOIN outbox o ON o.id = r.id JOIN webhook_endpoints e ON e.merchant = r.merchant WHERE e.disabled = ''`, string(doc))
	return err
}
