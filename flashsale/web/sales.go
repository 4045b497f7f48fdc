package web

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// time answers with the time that sales are judged by, whatever the clock of this process
// says: a countdown goes by it.
func (c *call) time(w http.ResponseWriter) {
	c.write(w, http.StatusOK, func(b []byte) []byte { return append(wire.AppendTime(append(b, '{'), "now", c.s.c.Service.Now()), '}') })
}

func (c *call) sales(w http.ResponseWriter) {
	views, err := c.s.c.Service.List(c.r.Context())
	if err != nil {
		c.fail(w, err)
		return
	}
	c.write(w, http.StatusOK, func(b []byte) []byte {
		b = wire.AppendTime(append(b, '{'), "now", c.s.c.Service.Now())
		b = append(wire.AppendName(b, "sales"), '[')
		for i := range views {
			if i > 0 {
				b = append(b, ',')
			}
			b, _ = wire.AppendView(b, &views[i])
		}
		return append(b, ']', '}')
	})
}

// view answers with a view. Its tag stands for all of it but the clock, and is the same in
// every process.
func (c *call) view(w http.ResponseWriter) {
	v, err := c.s.c.Service.View(c.r.Context(), c.id)
	if err != nil {
		c.fail(w, err)
		return
	}
	room := c.s.room.Get().(*[]byte)
	defer c.s.room.Put(room)
	b, steady := wire.AppendView((*room)[:0], &v)
	*room = append(b, '\n')
	tag := tagOf((*room)[:steady])
	w.Header()["Etag"] = []string{tag}
	w.Header()["Cache-Control"] = revalidate
	if none := c.r.Header.Get("If-None-Match"); none != "" && strings.Contains(none, tag[2:]) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	wire.WriteJSON(w, http.StatusOK, *room)
}

func (c *call) ticket(w http.ResponseWriter) {
	place, f := wire.SingleHeader(c.r.Header, "Flashsale-Place")
	work := ""
	ask := c.s.c.Service.Status
	if c.r.Method == http.MethodPost {
		ask = c.s.c.Service.Join
		if f == nil && len(c.body) > 0 {
			f = wire.Decode(c.body, []wire.Member{{Name: "place", Text: &place}, {Name: "work", Text: &work}})
		}
	}
	if f == nil {
		f = wire.SignedText("place", place)
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	if c.r.Method == http.MethodPost && !c.worked(w, place, work) {
		return
	}
	t, err := ask(c.r.Context(), c.user, c.id, place)
	switch {
	case err != nil:
		c.fail(w, err)
	case t.Reason != sale.OK:
		refused(w, t.Layer, t.Reason, t.RetryAfter)
	default:
		status := http.StatusOK
		if t.New && c.r.Method == http.MethodPost {
			status = http.StatusCreated
		}
		c.write(w, status, func(b []byte) []byte { return appendTurn(b, &t) })
	}
}

// token reads the body of who buys.
func (c *call) token() (string, *wire.RequestError) {
	var token string
	if f := wire.Decode(wire.OrEmpty(c.body), []wire.Member{{Name: "token", Text: &token}}); f != nil {
		return "", f
	}
	if token == "" {
		return "", &wire.RequestError{Field: "token", Detail: "token: want an admission token, got none"}
	}
	return token, wire.SignedText("token", token)
}

func (c *call) buy(w http.ResponseWriter) {
	token, f := c.token()
	key := ""
	if f == nil {
		key, f = wire.IdempotencyKey(c.r.Header)
	}
	if f != nil {
		f.Refuse(w)
		return
	}
	bought, err := c.s.c.Service.Buy(c.r.Context(), c.user, c.id, token, key)
	switch {
	case err != nil:
		c.fail(w, err)
	case bought.Reason != sale.OK:
		refused(w, bought.Layer, bought.Reason, bought.RetryAfter)
	default:
		if !bought.Repeated {
			c.s.c.Service.RecordNetwork(c.user, c.id, c.s.c.Layers.Network(c.r))
		}
		// Asked again, the answer is the same to the byte, whatever became of the reservation
		// since: GET /api/orders/{receipt} says that.
		bought.Receipt.State, bought.Receipt.Refunds = sale.Reserved, 0
		c.write(w, http.StatusAccepted, func(b []byte) []byte { return appendReceipt(b, &bought.Receipt) })
	}
}

// revalidate lets a browser keep an answer, if it asks each time whether it is good still.
var revalidate = []string{"private, no-cache"}

// tagOf is a weak entity tag.
func tagOf(b []byte) string {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for _, c := range b {
		h = (h ^ uint64(c)) * prime
	}
	return `W/"` + strconv.FormatUint(h, 36) + `"`
}
