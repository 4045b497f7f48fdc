package web

import (
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

func appendReceipt(b []byte, r *sale.Receipt) []byte {
	b = append(b, '{')
	b = wire.TextOf(b, "receipt", r.Receipt)
	b = wire.TextOf(b, "sale", r.Sale.ID)
	b = wire.TextOf(b, "title", r.Sale.Title)
	b = wire.NumOf(b, "price", r.Sale.Price)
	b = wire.TextOf(b, "currency", r.Sale.Currency)
	b = wire.TextOf(b, "state", string(r.State))
	b = wire.TimeOf(b, "at", r.At)
	b = wire.TimeOf(b, "pay_by", r.PayBy)
	b = wire.NumOf(b, "refunds", int64(r.Refunds))
	if r.Contact != (sale.Contact{}) {
		b = append(wire.AppendName(b, "contact"), '{')
		b = append(wire.TextOf(wire.TextOf(b, "name", r.Contact.Name), "phone", r.Contact.Phone), '}')
	}
	return append(b, '}')
}

func appendReceipts(b []byte, rs []sale.Receipt) []byte {
	b = append(b, '[')
	for i := range rs {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendReceipt(b, &rs[i])
	}
	return append(b, ']')
}

func appendTurn(b []byte, t *sale.Turn) []byte {
	state := t.Place
	if state == "" {
		state = sale.Nowhere
	}
	b = append(b, '{')
	b = wire.TextOf(b, "state", string(state))
	b = wire.NumOf(b, "ahead", t.Ahead)
	b = wire.MsOf(b, "eta_ms", t.ETA)
	b = wire.MsOf(b, "poll_after_ms", t.Poll)
	b = wire.TextOf(b, "place", t.Ticket)
	if t.Token != "" {
		b = wire.TextOf(b, "token", t.Token)
		b = wire.TimeOf(b, "until", t.Until)
	}
	b = appendReceipts(wire.AppendName(b, "held"), t.Held)
	b, _ = wire.AppendView(wire.AppendName(b, "view"), &t.View)
	return append(b, '}')
}
