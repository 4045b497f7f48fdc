package web

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// A ShopConfig says what the shop answers with. Desk, Keys and Layers are required.
type ShopConfig struct {
	Service sale.BuyerService
	Keys    *pass.Keys
	Layers  *layers.Layers

	// Pages answers whatever is not below /api/; 404 if nil.
	Pages http.Handler

	// SessionFor is how long a guest's session is valid; 30 days if zero.
	SessionFor time.Duration

	// Secure says that browsers come by TLS, so that cookies are sent by TLS alone. Without
	// it that is so of requests that come by TLS, or to a trusted proxy that says so.
	Secure bool

	Clock func() time.Time // the machine's if nil
	Log   *slog.Logger     // nothing is logged if nil
}

// A Shop is the HTTP interface of buyers. It is safe for concurrent use.
type Shop struct {
	c        ShopConfig
	provider *provider
	bodies   wire.Bodies
	room     sync.Pool // of *[]byte
	page     func(http.ResponseWriter, *http.Request)
}

// NewShop makes a shop. Close stops its payment provider.
func NewShop(c ShopConfig) (*Shop, error) {
	if c.Service == nil || c.Keys == nil || c.Layers == nil {
		return nil, errors.New("web: shop: want Desk, Keys and Layers")
	}
	c.SessionFor = cmp.Or(c.SessionFor, 30*24*time.Hour)
	if c.SessionFor < time.Minute {
		return nil, errors.New("web: shop: session for " + c.SessionFor.String() + ": want a minute at least")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Pages == nil {
		c.Pages = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { wire.RefuseReason(w, layers.NotFound) })
	}
	s := &Shop{c: c, provider: newProvider(c.Service, c.Log), page: c.Pages.ServeHTTP}
	s.room.New = func() any { return new(make([]byte, 0, 2048)) }
	return s, nil
}

// Close drops what the mock payment provider has not called back yet, and waits for the
// calls that are under way.
func (s *Shop) Close() error {
	s.provider.close()
	return nil
}

// A call is one request to the interface.
type call struct {
	s     *Shop
	r     *http.Request
	at    place
	id    string
	user  string // of the verified session; empty without one
	until time.Time
	now   time.Time
	body  []byte
	fault *wire.RequestError // of the body
}

// ServeHTTP implements http.Handler.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	delete(r.Header, layers.UserHeader)
	wire.SetSecurityHeaders(w.Header())
	at, id := whereTo(r.URL)
	c := call{s: s, r: r, at: at, id: id, now: s.c.Clock()}
	if s.early(w, &c) {
		return
	}
	if c.user == "" {
		c.identify()
	}
	if at == page {
		s.c.Layers.Serve(w, r, s.page)
		return
	}
	// A slow client sends its body before it takes a place among the requests under way.
	if !reads(r.Method) {
		var room *[wire.MaxBody + 1]byte
		c.body, room, c.fault = s.bodies.Read(r)
		defer s.bodies.Release(room)
	}
	if at == atBuy && s.late(w, &c) {
		return
	}
	s.c.Layers.Serve(w, r, c.answer)
}

// reads reports whether a method changes nothing.
func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// identify finds the user by the session, and says to the policies who it is.
func (c *call) identify() {
	session, ok := c.s.session(c.r, c.now)
	if !ok {
		return
	}
	c.user, c.until = session.User, session.Expires
	c.r.Header[layers.UserHeader] = []string{c.user}
}

// answer answers what came through the layers.
func (c *call) answer(w http.ResponseWriter, r *http.Request) {
	c.r = r
	switch {
	case c.at == nowhere:
		wire.RefuseReason(w, layers.NotFound)
	case !c.at.allows(r.Method):
		wire.NotAllowed(w, c.at.allowed())
	case c.fault != nil:
		c.fault.Refuse(w)
	default:
		c.dispatch(w)
	}
}

func (c *call) dispatch(w http.ResponseWriter) {
	switch c.at {
	case atTime:
		c.time(w)
	case atSales:
		c.sales(w)
	case atSale:
		c.view(w)
	case atSession:
		c.openSession(w)
	case atCallback:
		c.callback(w)
	default:
		if c.user == "" {
			wire.RefuseReason(w, layers.NoSession)
			return
		}
		if !reads(c.r.Method) && !wire.SameOrigin(c.r.Header) {
			wire.RefuseReason(w, layers.CSRF)
			return
		}
		c.own(w)
	}
}

// own answers what concerns a user.
func (c *call) own(w http.ResponseWriter) {
	switch c.at {
	case atTicket:
		c.ticket(w)
	case atWork:
		c.work(w)
	case atBuy:
		c.buy(w)
	case atOrders:
		c.orders(w)
	case atOrder:
		c.order(w)
	case atCancel:
		c.cancel(w)
	case atPay:
		c.pay(w)
	case atContact:
		c.contact(w)
	}
}

// write answers with what make appends.
func (c *call) write(w http.ResponseWriter, status int, make func(b []byte) []byte) {
	room := c.s.room.Get().(*[]byte)
	*room = append(make((*room)[:0]), '\n')
	wire.WriteJSON(w, status, *room)
	if cap(*room) <= 64<<10 {
		c.s.room.Put(room)
	}
}

// fail answers with an error of the desk.
func (c *call) fail(w http.ResponseWriter, err error) {
	f, known := wire.Failure(err)
	if !known {
		c.s.c.Log.Error("a request was not answered", "path", c.r.URL.Path, "error", err)
	}
	f.Write(w)
}

// refused answers with a refusal of the desk.
func refused(w http.ResponseWriter, layer sale.Layer, reason sale.Reason, after time.Duration) {
	layers.Refusal{Layer: layer, Reason: reason, RetryAfter: after}.Write(w)
}
