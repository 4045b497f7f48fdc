package web

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/captcha"
	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/identity"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// ShopConfig configures a Shop. Service, Keys and Layers are required.
type ShopConfig struct {
	Service sale.BuyerService
	Keys    *pass.Keys
	Layers  *layers.Layers

	// Cashier takes payments. It is required without Mock.
	Cashier Cashier

	// Mock replaces the Cashier by a mock provider, which accepts every payment: any buyer can
	// mark the own order as paid. It is for demonstrations and tests.
	Mock bool

	// Buyers returns the buyer when a session opens. If it and OIDC are nil, every buyer is a
	// guest without the limits of guests.
	Buyers identity.Buyers

	// OIDC is the login below /login; 404 if nil.
	OIDC *identity.OIDC

	// SignIn is the address where a buyer signs in, for the pages; /login with OIDC if empty.
	SignIn string

	// MemberFor is the lifetime of a session of a buyer with an identity; 12 hours if zero.
	MemberFor time.Duration

	// Products returns what sales show of their products; 404 if nil.
	Products catalogue.Store

	// Pages serves every path outside /api/; 404 if nil.
	Pages http.Handler

	// Challenge verifies the captcha of a new ticket; nil for none. If it fails, a ticket
	// requires work instead.
	Challenge captcha.Challenge

	// SessionFor is the lifetime of a guest's session; 30 days if zero.
	SessionFor time.Duration

	// Secure sets the Secure attribute of cookies on every response. Otherwise the attribute
	// is set if the request came over TLS, or if a trusted proxy reports that it did.
	Secure bool

	Clock func() time.Time // time.Now if nil
	Log   *slog.Logger     // discards if nil
}

// Shop is the HTTP interface for buyers. It is safe for concurrent use.
type Shop struct {
	config   ShopConfig
	guests   sale.BuyerService // for guests, where buyers can have an identity
	mux      *http.ServeMux
	provider *provider     // nil without Mock
	notices  chan struct{} // notifications in progress
	bodies   wire.Bodies
	shelf    *shelf
	buffers  sync.Pool    // of *[]byte
	lost     http.Handler // of a path that cannot exist
}

// NewShop returns a Shop.
func NewShop(c ShopConfig) (*Shop, error) {
	if c.Service == nil || c.Keys == nil || c.Layers == nil {
		return nil, errors.New("web: shop: want Service, Keys and Layers")
	}
	if c.Mock == (c.Cashier != nil) {
		return nil, errors.New("web: shop: want either Cashier or Mock")
	}
	c.SessionFor = cmp.Or(c.SessionFor, 30*24*time.Hour)
	if c.SessionFor < time.Minute {
		return nil, errors.New("web: shop: SessionFor: got " + c.SessionFor.String() + ", want at least 1m")
	}
	c.MemberFor = cmp.Or(c.MemberFor, 12*time.Hour)
	if c.MemberFor < time.Minute {
		return nil, errors.New("web: shop: MemberFor: got " + c.MemberFor.String() + ", want at least 1m")
	}
	if c.OIDC != nil {
		c.SignIn = cmp.Or(c.SignIn, loginPath)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Pages == nil {
		c.Pages = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { wire.RefuseReason(w, layers.NotFound) })
	}
	s := &Shop{config: c, shelf: newShelf(c.Service, c.Products), notices: make(chan struct{}, maxNotices)}
	if c.Buyers != nil || c.OIDC != nil {
		s.guests = c.Service.Limited(1)
	}
	if c.Mock {
		s.provider = newProvider(c.Service, c.Log)
	}
	s.buffers.New = func() any { return new(make([]byte, 0, 2048)) }
	handler := func(rt route) http.Handler { rt.shop = s; return &rt }
	s.mux = newMux(c.Mock, handler)
	s.lost = handler(route{handle: (*call).notFound})
	return s, nil
}

// Close drops the pending callbacks of the mock payment provider and waits for those in
// progress.
func (s *Shop) Close() error {
	if s.provider != nil {
		s.provider.close()
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	delete(r.Header, layers.UserHeader)
	delete(r.Header, layers.ProofHeader)
	delete(r.Header, layers.ReceiptHeader)
	wire.SetSecurityHeaders(w.Header())
	if !wire.IsCanonicalPath(r.URL) {
		s.lost.ServeHTTP(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// call is one request.
type call struct {
	shop   *Shop
	config *ShopConfig
	route  *route
	r      *http.Request
	id     string         // the {id} of the pattern
	user   string         // of the verified session; empty without one
	proof  identity.Proof // of the user's identity
	until  time.Time
	now    time.Time
	body   []byte
	fault  *wire.RequestError // of the body
	forged bool               // the proof is not valid, and a proxy in front trusts it
	fewer  bool               // the user may hold fewer units than a member

	reserved *sale.Reservation // of the user's receipt, if {id} is a valid one; else nil
}

// ServeHTTP implements http.Handler: L0, the session, the body, the layers and then the route's
// own handler.
func (rt *route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s := rt.shop
	c := call{shop: s, config: &s.config, route: rt, r: r, id: r.PathValue("id"), now: s.config.Clock()}
	if rt.valid != nil && !rt.valid(c.id) {
		s.lost.ServeHTTP(w, r)
		return
	}
	if rt.direct {
		rt.handle(&c, w)
		return
	}
	if rt.early != nil {
		if refusal, refused := rt.early(&c); refused {
			s.config.Layers.Refuse(w, refusal)
			return
		}
	}
	if c.user == "" {
		c.identify()
	}
	// A slow client sends its body before it counts as a request in progress.
	if !isRead(r.Method) {
		var buffer *[]byte
		c.body, buffer, c.fault = s.bodies.Read(r)
		defer s.bodies.Release(buffer)
	}
	if rt.late != nil {
		if refusal, refused := rt.late(&c); refused {
			s.config.Layers.Refuse(w, refusal)
			return
		}
	}
	p := prover{&c}
	p.prove(w)
	s.config.Layers.ServeOrChallenge(w, r, p.challenge, c.handle)
}

// isRead reports whether a method changes nothing.
func isRead(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// identify reads the user from the session, and sets the header by which policies know it.
func (c *call) identify() {
	session, ok := c.session()
	if !ok {
		return
	}
	c.user, c.until, c.proof = session.User, session.Expires, identity.Proof(session.Proof)
	c.r.Header[layers.UserHeader] = []string{c.user}
}

// handle handles a request that the layers admitted.
func (c *call) handle(w http.ResponseWriter, r *http.Request) {
	c.r = r
	switch {
	case prover{c}.refuseForged(w):
	case c.fault != nil:
		c.fault.Refuse(w)
	case c.route.user && c.user == "":
		wire.RefuseReason(w, layers.NoSession)
	case c.route.user && !isRead(r.Method) && !wire.SameOrigin(r.Header):
		wire.RefuseReason(w, layers.CSRF)
	default:
		c.route.handle(c, w)
	}
}

// write writes the JSON that build appends.
func (c *call) write(w http.ResponseWriter, status int, build func(b []byte) []byte) {
	buffer := c.shop.buffers.Get().(*[]byte)
	*buffer = append(build((*buffer)[:0]), '\n')
	wire.WriteJSON(w, status, *buffer)
	if cap(*buffer) <= 64<<10 {
		c.shop.buffers.Put(buffer)
	}
}

// fail answers with an error of the service.
func (c *call) fail(w http.ResponseWriter, err error) {
	f, known := wire.Failure(err)
	if !known {
		c.config.Log.Error("request failed", "path", c.r.URL.Path, "error", err)
	}
	f.Write(w)
}
