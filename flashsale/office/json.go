package office

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// send writes JSON, or an error of the service.
func (o *Office) send(v *visit, status int, body any, err error) {
	if err != nil {
		o.fail(v.w, v.r, err)
		return
	}
	b, err := json.Marshal(body)
	if err != nil {
		o.fail(v.w, v.r, fmt.Errorf("office: encode: %w", err))
		return
	}
	wire.WriteJSON(v.w, status, append(b, '\n'))
}

func (o *Office) sendSale(v *visit, status int, s sale.Sale, err error) {
	o.send(v, status, saleOf(&s), err)
}

// moment formats a time with milliseconds.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(wire.TimeFormat)
}

func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// saleJSON is a sale as its merchant sees it.
type saleJSON struct {
	ID        string `json:"id"`
	SKU       string `json:"sku"`
	Title     string `json:"title"`
	Price     int64  `json:"price"`
	Currency  string `json:"currency"`
	Stock     int64  `json:"stock"`
	PerUser   int    `json:"per_user"`
	Quantity  int    `json:"max_quantity"`
	StartsAt  string `json:"starts_at"`
	EndsAt    string `json:"ends_at"`
	Headroom  int    `json:"headroom"`
	Queue     string `json:"queue"`
	Lobby     int64  `json:"lobby_ms"`
	PayWithin int64  `json:"pay_within_ms"`
	TokenFor  int64  `json:"token_for_ms"`
	Work      int    `json:"work"`
	Members   int    `json:"members_only"`
	Address   string `json:"address"`
	Campaign  string `json:"campaign"`
	Sold      int64  `json:"sold"`
	Paid      int64  `json:"paid"`
	State     string `json:"state"`
	Why       string `json:"why"`
	Epoch     int64  `json:"epoch"`
	Version   int64  `json:"version"`
}

func saleOf(s *sale.Sale) saleJSON {
	return saleJSON{
		s.ID, s.SKU, s.Title, s.Price, s.Currency, s.Stock, s.PerUser, s.MaxQuantity, moment(s.StartsAt), moment(s.EndsAt), s.Headroom,
		string(s.Queue), millis(s.Lobby), millis(s.PayWithin), millis(s.TokenFor), s.Work, membersOnly(s), string(s.Address), s.Campaign, s.Sold, s.Paid, string(s.State), s.StateReason, s.Epoch, s.Version,
	}
}

func membersOnly(s *sale.Sale) int {
	if s.MembersOnly {
		return 1
	}
	return 0
}

// orderJSON is an order as an account of its merchant sees it.
type orderJSON struct {
	Reservation string       `json:"reservation"`
	User        string       `json:"user"`
	Slot        int          `json:"slot"`
	State       string       `json:"state"`
	Quantity    int64        `json:"quantity"`
	Price       int64        `json:"price"`
	At          string       `json:"at"`
	PayBy       string       `json:"pay_by"`
	Changed     string       `json:"changed"`
	Payment     string       `json:"payment"`
	Refunds     int          `json:"refunds"`
	Refunded    int          `json:"refunded"`
	Contact     *contactJSON `json:"contact,omitempty"`
}

type contactJSON struct {
	Name    string `json:"name"`
	Phone   string `json:"phone"`
	Country string `json:"country,omitempty"`
	City    string `json:"city,omitempty"`
	Street  string `json:"street,omitempty"`
	Street2 string `json:"street2,omitempty"`
	Postal  string `json:"postal,omitempty"`
}

func orderOf(v *visit, o *sale.Order) orderJSON {
	j := orderJSON{
		o.ID, o.User, o.Slot, string(o.State), o.Units(), o.Price, moment(o.At), moment(o.PayBy), moment(o.ChangedAt), o.Payment, o.Refunds, o.Refunded, nil,
	}
	if c := o.Contact; c != (sale.Contact{}) {
		if !v.contacts() {
			c = c.Masked()
		}
		j.Contact = &contactJSON{c.Name, c.Phone, c.Address.Country, c.Address.City, c.Address.Street, c.Address.Street2, c.Address.Postal}
	}
	return j
}

// readDraft decodes a draft and, with edit, the version that it replaces.
func readDraft(body []byte, edit bool) (d sale.Draft, version int64, f *wire.RequestError) {
	var starts, ends, queue, address string
	var perUser, maxQuantity, headroom, lobby, payWithin, tokenFor, work, only int64
	members := []wire.Member{
		{Name: "sku", Text: &d.SKU}, {Name: "title", Text: &d.Title}, {Name: "price", Num: &d.Price},
		{Name: "currency", Text: &d.Currency}, {Name: "stock", Num: &d.Stock}, {Name: "per_user", Num: &perUser, Min: math.MinInt32, Max: math.MaxInt32}, {Name: "max_quantity", Num: &maxQuantity, Min: math.MinInt32, Max: math.MaxInt32},
		{Name: "starts_at", Text: &starts}, {Name: "ends_at", Text: &ends}, {Name: "headroom", Num: &headroom, Min: math.MinInt32, Max: math.MaxInt32},
		{Name: "queue", Text: &queue}, {Name: "lobby_ms", Num: &lobby, Max: int64(math.MaxInt64 / time.Millisecond)}, {Name: "pay_within_ms", Num: &payWithin, Max: int64(math.MaxInt64 / time.Millisecond)},
		{Name: "token_for_ms", Num: &tokenFor, Max: int64(math.MaxInt64 / time.Millisecond)}, {Name: "work", Num: &work, Min: math.MinInt32, Max: math.MaxInt32},
		{Name: "members_only", Num: &only, Max: 1}, {Name: "address", Text: &address}, {Name: "campaign", Text: &d.Campaign},
	}
	if edit {
		members = append(members, wire.Member{Name: "version", Num: &version})
	}
	if f = wire.Decode(body, members); f != nil {
		return d, 0, f
	}
	if edit && !members[len(members)-1].Present {
		return d, 0, &wire.RequestError{Field: "version", Detail: "version: got none, want the version of the sale to replace"}
	}
	d.Queue, d.Address, d.MembersOnly = sale.Queue(queue), sale.AddressRule(address), only == 1
	if d.StartsAt, f = instant("starts_at", starts); f != nil {
		return d, 0, f
	}
	if d.EndsAt, f = instant("ends_at", ends); f != nil {
		return d, 0, f
	}
	d.PerUser, d.MaxQuantity, d.Headroom, d.Work = int(perUser), int(maxQuantity), int(headroom), int(work)
	d.Lobby, d.PayWithin, d.TokenFor = time.Duration(lobby)*time.Millisecond, time.Duration(payWithin)*time.Millisecond, time.Duration(tokenFor)*time.Millisecond
	return d, version, nil
}

// instant parses a time.
func instant(name, text string) (time.Time, *wire.RequestError) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || t.Nanosecond()%int(time.Millisecond) != 0 || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, &wire.RequestError{Field: name, Code: sale.NoTime, Detail: fmt.Sprintf("%s: got %.60q, want a time such as 2026-11-11T12:00:00.000Z, in whole milliseconds", name, text)}
	}
	return t.UTC(), nil
}

type networkJSON struct {
	Network string `json:"network"`
	Users   int64  `json:"users"`
	Orders  int64  `json:"orders"`
}

type loggedJSON struct {
	At    string `json:"at"`
	Actor string `json:"actor"`
	Sale  string `json:"sale"`
	What  string `json:"what"`
}

type reconciledJSON struct {
	Free       int64 `json:"free"`
	FreeBefore int64 `json:"free_before"`
	Returned   int   `json:"returned"`
	Dropped    int   `json:"dropped"`
	Changed    int   `json:"changed"`
}

type boardJSON struct {
	View     json.RawMessage                      `json:"view"`
	Counts   countsJSON                           `json:"counts"`
	Tally    tallyJSON                            `json:"tally"`
	Layers   map[sale.Layer]map[sale.Reason]int64 `json:"layers"`
	Admitted int64                                `json:"admitted"`
	Drain    float64                              `json:"drain"`
	Lag      int64                                `json:"lag_ms"`
	Workers  int                                  `json:"workers"`
	Curves   curvesJSON                           `json:"curves"`
}

// curvesJSON holds the points of all curves as rows of a table.
type curvesJSON struct {
	Columns []string  `json:"columns"`
	Rows    [][]int64 `json:"rows"`
}

// curvesOf returns the points from a time in ms on.
func curvesOf(points []sale.CurvePoint, price, from int64) curvesJSON {
	c := curvesJSON{Columns: []string{"at", "admitted", "reserved", "paid", "revenue", "waiting", "free"}, Rows: [][]int64{}}
	for _, p := range points {
		if at := p.At.UnixMilli(); at >= from {
			c.Rows = append(c.Rows, []int64{at, p.Admitted, p.Reserved, p.Paid, p.Paid * price, p.Waiting, p.Free})
		}
	}
	return c
}

type countsJSON struct {
	Now         string `json:"now"`
	Stock       int64  `json:"stock"`
	Free        int64  `json:"free"`
	Waiting     int64  `json:"waiting"`
	Outstanding int64  `json:"outstanding"`
	Reserved    int64  `json:"reserved"`
	Backlog     int64  `json:"backlog"`
	Paused      bool   `json:"paused"`
}

type tallyJSON struct {
	Sale      saleJSON `json:"sale"`
	Pending   int64    `json:"pending"`
	Paid      int64    `json:"paid"`
	Expired   int64    `json:"expired"`
	Cancelled int64    `json:"cancelled"`
	Rejected  int64    `json:"rejected"`
	Lost      int64    `json:"lost"`
	RefundDue int64    `json:"refund_due"`
	Refunded  int64    `json:"refunded"`
	NotBack   int64    `json:"refund_failed"`
	Returned  int64    `json:"money_returned"`
	Buried    int64    `json:"buried"`
	Movements int64    `json:"movements"`
}

// boardOf returns a board with the points of its curves from a time in ms on.
func boardOf(b *sale.Dashboard, from int64) boardJSON {
	view, _ := wire.AppendView(nil, &b.View)
	c, t := &b.Counts, &b.Totals
	drain := b.DrainRate
	if math.IsNaN(drain) || math.IsInf(drain, 0) {
		drain = 0
	}
	return boardJSON{
		view,
		countsJSON{moment(c.Now), c.Stock, c.Free, c.Waiting, c.Outstanding, c.Reserved, c.Backlog, c.Paused},
		tallyJSON{saleOf(&t.Sale), t.Pending, t.Paid, t.Expired, t.Cancelled, t.Rejected, t.Lost, t.RefundDue, t.Refunded, t.RefundFailed, t.Returned, t.DeadLetters, t.Movements},
		b.Layers, b.Admitted, drain, millis(b.Lag), b.Workers,
		curvesOf(b.Curves, t.Sale.Price, from),
	}
}

var _ http.Handler = (*Office)(nil)
