package wire

import (
	"strconv"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
)

// AppendName appends the name of a member, after a comma if it is not the first.
func AppendName(b []byte, name string) []byte {
	if c := b[len(b)-1]; c != '{' && c != '[' {
		b = append(b, ',')
	}
	b = append(b, '"')
	b = append(b, name...)
	return append(b, '"', ':')
}

// AppendString appends a string member.
func AppendString(b []byte, name, s string) []byte { return layers.AppendText(AppendName(b, name), s) }

// AppendInt appends a number member.
func AppendInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(AppendName(b, name), n, 10)
}

// AppendBool appends a member that is true or false.
func AppendBool(b []byte, name string, v bool) []byte {
	return strconv.AppendBool(AppendName(b, name), v)
}

// AppendMillis appends a duration member in whole milliseconds, rounded up.
func AppendMillis(b []byte, name string, d time.Duration) []byte {
	return AppendInt(b, name, int64((d+time.Millisecond-1)/time.Millisecond))
}

// TimeFormat is the format of times: RFC 3339 with milliseconds.
const TimeFormat = "2006-01-02T15:04:05.000Z07:00"

// AppendTime appends a time member in TimeFormat.
func AppendTime(b []byte, name string, t time.Time) []byte {
	b = append(AppendName(b, name), '"')
	b = t.UTC().AppendFormat(b, TimeFormat)
	return append(b, '"')
}

// AppendView appends a view as a JSON object. The first steady bytes of it do not depend on the
// clock.
func AppendView(b []byte, v *sale.View) (to []byte, steady int) {
	s := &v.Sale
	b = append(b, '{')
	b = AppendString(b, "id", s.ID)
	b = AppendString(b, "sku", s.SKU)
	b = AppendString(b, "title", s.Title)
	b = AppendInt(b, "price", s.Price)
	b = AppendString(b, "currency", s.Currency)
	b = AppendInt(b, "stock", s.Stock)
	b = AppendInt(b, "free", v.Free)
	b = AppendString(b, "phase", string(s.PhaseAt(v.Now, v.Free)))
	b = AppendTime(b, "starts_at", s.StartsAt)
	b = AppendTime(b, "ends_at", s.EndsAt)
	b = AppendMillis(b, "lobby_ms", s.Lobby)
	b = AppendString(b, "queue", string(s.Queue))
	b = AppendInt(b, "per_user", int64(s.PerUser))
	b = AppendInt(b, "max_quantity", int64(s.MaxQuantity))
	b = AppendMillis(b, "pay_within_ms", s.PayWithin)
	b = AppendInt(b, "work", int64(s.Work))
	b = AppendInt(b, "members_only", number(s.MembersOnly))
	if s.Campaign != "" {
		b = AppendString(b, "campaign", s.Campaign)
	}
	b = AppendInt(b, "waiting", v.Waiting)
	steady = len(b)
	b = AppendMillis(b, "poll_after_ms", v.Poll)
	b = AppendTime(b, "now", v.Now)
	return append(b, '}'), steady
}

// AppendAddress appends the members of an address that are not empty.
func AppendAddress(b []byte, a sale.Address) []byte {
	for _, m := range [...][2]string{{"country", a.Country}, {"city", a.City}, {"street", a.Street}, {"street2", a.Street2}, {"postal", a.Postal}} {
		if m[1] != "" {
			b = AppendString(b, m[0], m[1])
		}
	}
	return b
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
