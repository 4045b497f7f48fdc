package web

import (
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

func appendReceipt(b []byte, r *sale.Receipt) []byte {
	b = append(b, '{')
	b = wire.AppendString(b, "receipt", r.Receipt)
	b = wire.AppendString(b, "order", r.Order)
	b = wire.AppendString(b, "sale", r.Sale.ID)
	b = wire.AppendString(b, "title", r.Sale.Title)
	b = wire.AppendInt(b, "quantity", int64(r.Quantity))
	b = wire.AppendInt(b, "price", r.Price)
	b = wire.AppendString(b, "currency", r.Sale.Currency)
	b = wire.AppendString(b, "state", string(r.State))
	b = wire.AppendTime(b, "at", r.At)
	b = wire.AppendTime(b, "pay_by", r.PayBy)
	b = wire.AppendInt(b, "refunds", int64(r.Refunds))
	b = wire.AppendInt(b, "refunded", int64(r.Refunded))
	if rule := r.Sale.Address; rule == sale.AddressOptional || rule == sale.AddressRequired {
		b = wire.AppendString(b, "address", string(rule))
	}
	if c := r.Contact; c != (sale.Contact{}) {
		b = append(wire.AppendName(b, "contact"), '{')
		b = wire.AppendString(wire.AppendString(b, "name", c.Name), "phone", c.Phone)
		b = append(wire.AppendAddress(b, c.Address), '}')
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

func appendStatus(b []byte, t *sale.QueueStatus) []byte {
	state := t.State
	if state == "" {
		state = sale.NoTicket
	}
	b = append(b, '{')
	b = wire.AppendString(b, "state", string(state))
	b = wire.AppendInt(b, "ahead", t.Ahead)
	b = wire.AppendMillis(b, "eta_ms", t.ETA)
	b = wire.AppendMillis(b, "eta_low_ms", t.Low)
	b = wire.AppendMillis(b, "eta_high_ms", t.High)
	b = wire.AppendBool(b, "unlikely", t.Unlikely)
	b = wire.AppendBool(b, "restored", t.Restored)
	b = wire.AppendMillis(b, "poll_after_ms", t.Poll)
	b = wire.AppendString(b, "place", t.Ticket)
	if t.Token != "" {
		b = wire.AppendString(b, "token", t.Token)
		b = wire.AppendTime(b, "until", t.Until)
	}
	b = appendReceipts(wire.AppendName(b, "held"), t.Reserved)
	b, _ = wire.AppendView(wire.AppendName(b, "view"), &t.View)
	return append(b, '}')
}
