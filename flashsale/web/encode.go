package web

import (
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir/flashsale/sale"
)

// The answers that many ask for are appended to one another here, without reflection.

func appendText(b []byte, s string) []byte {
	const hex = "0123456789abcdef"
	b = append(b, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b = append(b, '\\', byte(c))
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		case c == 0x2028 || c == 0x2029:
			b = append(b, '\\', 'u', '2', '0', '2', hex[c&15])
		default:
			b = utf8.AppendRune(b, c)
		}
	}
	return append(b, '"')
}

func appendName(b []byte, name string) []byte {
	if c := b[len(b)-1]; c != '{' && c != '[' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

func textOf(b []byte, name, s string) []byte { return appendText(appendName(b, name), s) }

func numOf(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(appendName(b, name), n, 10)
}

// msOf appends a duration in whole milliseconds, rounded up.
func msOf(b []byte, name string, d time.Duration) []byte {
	return numOf(b, name, int64((d+time.Millisecond-1)/time.Millisecond))
}

const stamp = "2006-01-02T15:04:05.000Z07:00"

func timeOf(b []byte, name string, t time.Time) []byte {
	b = append(appendName(b, name), '"')
	b = t.UTC().AppendFormat(b, stamp)
	return append(b, '"')
}

// appendView appends a view, by the time of its sale. steady is how much of it does not change
// with the clock alone.
func appendView(b []byte, v *sale.View) (to []byte, steady int) {
	s := &v.Sale
	b = append(b, '{')
	b = textOf(b, "id", s.ID)
	b = textOf(b, "sku", s.SKU)
	b = textOf(b, "title", s.Title)
	b = numOf(b, "price", s.Price)
	b = textOf(b, "currency", s.Currency)
	b = numOf(b, "stock", s.Stock)
	b = numOf(b, "free", v.Free)
	b = textOf(b, "phase", string(s.PhaseAt(v.Now, v.Free)))
	b = timeOf(b, "starts_at", s.StartsAt)
	b = timeOf(b, "ends_at", s.EndsAt)
	b = msOf(b, "lobby_ms", s.Lobby)
	b = textOf(b, "queue", string(s.Queue))
	b = numOf(b, "per_user", int64(s.PerUser))
	b = msOf(b, "pay_within_ms", s.PayWithin)
	b = numOf(b, "waiting", v.Waiting)
	steady = len(b)
	b = msOf(b, "poll_after_ms", v.Poll)
	b = timeOf(b, "now", v.Now)
	return append(b, '}'), steady
}

func appendReceipt(b []byte, r *sale.Receipt) []byte {
	b = append(b, '{')
	b = textOf(b, "receipt", r.Receipt)
	b = textOf(b, "sale", r.Sale.ID)
	b = textOf(b, "title", r.Sale.Title)
	b = numOf(b, "price", r.Sale.Price)
	b = textOf(b, "currency", r.Sale.Currency)
	b = textOf(b, "state", string(r.State))
	b = timeOf(b, "at", r.At)
	b = timeOf(b, "pay_by", r.PayBy)
	b = numOf(b, "refunds", int64(r.Refunds))
	if r.Contact != (sale.Contact{}) {
		b = append(appendName(b, "contact"), '{')
		b = append(textOf(textOf(b, "name", r.Contact.Name), "phone", r.Contact.Phone), '}')
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
	b = textOf(b, "state", string(state))
	b = numOf(b, "ahead", t.Ahead)
	b = msOf(b, "eta_ms", t.ETA)
	b = msOf(b, "poll_after_ms", t.Poll)
	b = textOf(b, "place", t.Ticket)
	if t.Token != "" {
		b = textOf(b, "token", t.Token)
		b = timeOf(b, "until", t.Until)
	}
	b = appendReceipts(appendName(b, "held"), t.Held)
	b, _ = appendView(appendName(b, "view"), &t.View)
	return append(b, '}')
}
