package web

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// time returns the time by which sales are judged. Countdowns use it.
func (c *call) time(w http.ResponseWriter) {
	c.write(w, http.StatusOK, func(b []byte) []byte {
		return append(wire.AppendTime(append(b, '{'), "now", c.config.Service.Now()), '}')
	})
}

// view returns a view. Its entity tag covers all of it but the clock, and is the same in every
// process.
func (c *call) view(w http.ResponseWriter) {
	v, err := c.config.Service.View(c.r.Context(), c.id)
	if err != nil {
		c.fail(w, err)
		return
	}
	buffer := c.shop.buffers.Get().(*[]byte)
	defer c.shop.buffers.Put(buffer)
	b, steady := wire.AppendView((*buffer)[:0], &v)
	*buffer = append(b, '\n')
	tag := tagOf((*buffer)[:steady])
	w.Header()["Etag"] = []string{tag}
	w.Header()["Cache-Control"] = revalidate
	if none := c.r.Header.Get("If-None-Match"); none != "" && strings.Contains(none, tag[2:]) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	wire.WriteJSON(w, http.StatusOK, *buffer)
}

// status returns the status of the user's ticket.
func (c *call) status(w http.ResponseWriter) {
	ticket, f := wire.SingleHeader(c.r.Header, "Flashsale-Place")
	if f == nil {
		f = wire.SignedText("place", ticket)
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	c.respond(w, http.StatusOK, (visitor{c}).service().Status, ticket)
}

// join gives the user a ticket. With buy it reserves a unit as soon as one is free.
func (c *call) join(w http.ResponseWriter) {
	ticket, f := wire.SingleHeader(c.r.Header, "Flashsale-Place")
	work, key, solved, buy, quantity := "", "", "", false, int64(1)
	if f == nil && len(c.body) > 0 {
		f = wire.Decode(c.body, []wire.Member{{Name: "place", Text: &ticket}, {Name: "work", Text: &work}, {Name: "buy", Bool: &buy}, {Name: "captcha", Text: &solved}, {Name: "quantity", Num: &quantity}})
	}
	if f == nil {
		f = wire.SignedText("place", ticket)
	}
	if f == nil {
		key, f = wire.IdempotencyKey(c.r.Header)
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	if !(visitor{c}).mayBuy(w) || !c.hasWorked(w, ticket, work, solved) {
		return
	}
	service := (visitor{c}).service().Quantity(wanted(quantity))
	join := service.Join
	if buy {
		join = func(ctx context.Context, user, id, ticket string) (sale.QueueStatus, error) {
			return service.Click(ctx, user, id, ticket, key)
		}
	}
	c.respond(w, http.StatusCreated, join, ticket)
}

// respond answers with the status that f returns, and with created if f made the ticket.
func (c *call) respond(w http.ResponseWriter, created int, f func(ctx context.Context, user, sale, ticket string) (sale.QueueStatus, error), ticket string) {
	t, err := f(c.r.Context(), c.user, c.id, ticket)
	switch {
	case err != nil:
		c.fail(w, err)
	case t.Reason != sale.OK:
		(visitor{c}).refused(w, t.Layer, t.Reason, t.Left, t.RetryAfter)
	default:
		status := http.StatusOK
		if t.New {
			status = created
		}
		if t.Bought {
			c.config.Service.RecordNetwork(c.user, c.id, c.config.Layers.Network(c.r))
		}
		c.write(w, status, func(b []byte) []byte { return appendStatus(b, &t) })
	}
}

// wanted returns a quantity of a request, or the nearest int, which the service refuses as well.
func wanted(n int64) int {
	return int(max(math.MinInt, min(n, math.MaxInt)))
}

// token reads the admission token and the quantity in the body.
func (c *call) token() (token string, quantity int64, f *wire.RequestError) {
	quantity = 1
	if f := wire.Decode(wire.OrEmpty(c.body), []wire.Member{{Name: "token", Text: &token}, {Name: "quantity", Num: &quantity}}); f != nil {
		return "", 0, f
	}
	if token == "" {
		return "", 0, &wire.RequestError{Field: "token", Detail: "token: got none, want an admission token"}
	}
	return token, quantity, wire.SignedText("token", token)
}

func (c *call) buy(w http.ResponseWriter) {
	token, quantity, f := c.token()
	key := ""
	if f == nil {
		key, f = wire.IdempotencyKey(c.r.Header)
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	if !(visitor{c}).mayBuy(w) {
		return
	}
	bought, err := (visitor{c}).service().Quantity(wanted(quantity)).Buy(c.r.Context(), c.user, c.id, token, key)
	switch {
	case err != nil:
		c.fail(w, err)
	case bought.Reason != sale.OK:
		(visitor{c}).refused(w, bought.Layer, bought.Reason, bought.Left, bought.RetryAfter)
	default:
		if !bought.Repeated {
			c.config.Service.RecordNetwork(c.user, c.id, c.config.Layers.Network(c.r))
		}
		// A repeated request gets the same bytes, whatever the state of the reservation now:
		// GET /api/orders/{receipt} returns that.
		bought.Receipt.State, bought.Receipt.Refunds = sale.Reserved, 0
		c.write(w, http.StatusAccepted, func(b []byte) []byte { return appendReceipt(b, &bought.Receipt) })
	}
}

// revalidate lets a browser cache a response that it revalidates each time.
var revalidate = []string{"private, no-cache"}

// tagOf returns a weak entity tag.
func tagOf(b []byte) string {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, c := range b {
		h = (h ^ uint64(c)) * prime
	}
	return `W/"` + strconv.FormatUint(h, 36) + `"`
}
