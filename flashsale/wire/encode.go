package wire

import (
	"strconv"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// The answers that many ask for are appended to one another here, without reflection.

// AppendName appends the name of a member, behind a comma if it is not the first.
func AppendName(b []byte, name string) []byte {
	if c := b[len(b)-1]; c != '{' && c != '[' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// TextOf appends a member that is a text.
func TextOf(b []byte, name, s string) []byte { return layers.AppendText(AppendName(b, name), s) }

// NumOf appends a member that is a number.
func NumOf(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(AppendName(b, name), n, 10)
}

// MsOf appends a duration in whole milliseconds, rounded up.
func MsOf(b []byte, name string, d time.Duration) []byte {
	return NumOf(b, name, int64((d+time.Millisecond-1)/time.Millisecond))
}

// Stamp is how an instant is spelled.
const Stamp = "2006-01-02T15:04:05.000Z07:00"

// TimeOf appends a member that is an instant.
func TimeOf(b []byte, name string, t time.Time) []byte {
	b = append(AppendName(b, name), '"')
	b = t.UTC().AppendFormat(b, Stamp)
	return append(b, '"')
}

// AppendView appends a view, by the time of its sale. steady is how much of it does not change
// with the clock alone.
func AppendView(b []byte, v *sale.View) (to []byte, steady int) {
	s := &v.Sale
	b = append(b, '{')
	b = TextOf(b, "id", s.ID)
	b = TextOf(b, "sku", s.SKU)
	b = TextOf(b, "title", s.Title)
	b = NumOf(b, "price", s.Price)
	b = TextOf(b, "currency", s.Currency)
	b = NumOf(b, "stock", s.Stock)
	b = NumOf(b, "free", v.Free)
	b = TextOf(b, "phase", string(s.PhaseAt(v.Now, v.Free)))
	b = TimeOf(b, "starts_at", s.StartsAt)
	b = TimeOf(b, "ends_at", s.EndsAt)
	b = MsOf(b, "lobby_ms", s.Lobby)
	b = TextOf(b, "queue", string(s.Queue))
	b = NumOf(b, "per_user", int64(s.PerUser))
	b = MsOf(b, "pay_within_ms", s.PayWithin)
	b = NumOf(b, "work", int64(s.Work))
	b = NumOf(b, "waiting", v.Waiting)
	steady = len(b)
	b = MsOf(b, "poll_after_ms", v.Poll)
	b = TimeOf(b, "now", v.Now)
	return append(b, '}'), steady
}
