package office

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/flashsale/account"
	"github.com/floodweir/weir/flashsale/catalogue"
	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/webhook"
	"github.com/floodweir/weir/flashsale/wire"
	"github.com/floodweir/weir/guard"
)

// Config configures an Office. Service, Accounts, Keys and Layers are required.
type Config struct {
	Service  sale.MerchantService
	Accounts account.Store
	Keys     *pass.Keys
	Layers   *layers.Layers

	// Webhooks stores the endpoints of merchants and their deliveries; 404 if nil.
	Webhooks webhook.Store

	// Products copies products into sales; 404 if nil.
	Products *catalogue.Copier

	// Pages serves every path outside /api/; 404 if nil.
	Pages http.Handler

	// Metrics serves /metrics; 404 if nil. If MetricsToken is set, /metrics requires it as a
	// bearer token.
	Metrics      http.Handler
	MetricsToken string

	// Ready returns why the process cannot serve now, for /readyz; nil is always ready.
	Ready func(ctx context.Context) error

	// SessionFor is the lifetime of an account's session; 12 hours if zero. Logging out removes
	// the session from the browser; it is stored nowhere else. A new password or a disabled
	// account ends its sessions.
	SessionFor time.Duration

	// Secure sets the Secure attribute of cookies on every response.
	Secure bool

	Clock func() time.Time // time.Now if nil
	Log   *slog.Logger     // discards if nil
}

// Office is the HTTP interface for merchants. It is safe for concurrent use.
type Office struct {
	c      Config
	bodies wire.Bodies
	mux    *http.ServeMux
	hashes *guard.Guard // bounds how many passwords are hashed at once
	router router
}

// New returns an Office.
func New(c Config) (*Office, error) {
	if c.Service == nil || c.Accounts == nil || c.Keys == nil || c.Layers == nil {
		return nil, errors.New("office: want Service, Accounts, Keys and Layers")
	}
	c.SessionFor = cmp.Or(c.SessionFor, 12*time.Hour)
	if c.SessionFor < time.Minute {
		return nil, errors.New("office: SessionFor: got " + c.SessionFor.String() + ", want at least 1m")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	// A limit does not know when a slot comes free, and would refuse at once instead of
	// waiting.
	registry, err := guard.NewRegistry(guard.Config{Protections: failsafe.New, Functions: &guard.Functions{Rules: []guard.Rule{
		{Name: "password", Settings: guard.Settings{Bulkhead: &guard.Bulkhead{Max: 2, MaxWaiters: 64, Wait: 2 * time.Second}}},
	}}})
	if err != nil {
		return nil, fmt.Errorf("office: %w", err)
	}
	o := &Office{c: c, mux: http.NewServeMux()}
	o.hashes = registry.MustGuard(guard.Resource{Name: "password"})
	o.router = router{office: o, roles: needed()}
	o.routes(&o.router)
	return o, nil
}

// visit is one request of an account. The context of r names the account in the audit log.
type visit struct {
	w        http.ResponseWriter
	r        *http.Request
	account  account.Account
	merchant string // of the account
	sale     string
	body     []byte
}

func (o *Office) routes(r *router) {
	handle, s := r.handle, sessions{o}
	r.public("POST /api/login", s.login)
	handle("POST /api/logout", s.logout)
	handle("GET /api/me", s.me)
	handle("POST /api/me/password", s.ownPassword)
	accounts{o, s, o.c.Accounts}.routes(handle)
	handle("GET /api/sales", o.mine)
	handle("POST /api/sales", o.create)
	handle("GET /api/sales/{sale}", o.get)
	handle("PUT /api/sales/{sale}", o.edit)
	handle("POST /api/sales/{sale}/copy", func(v *visit) { copySale(o, v) })
	handle("POST /api/sales/{sale}/check", o.check)
	handle("POST /api/sales/{sale}/warm", o.change(func(ctx context.Context, m, id string) (sale.Sale, error) {
		if err := o.c.Service.Warm(ctx, m, id); err != nil {
			return sale.Sale{}, err
		}
		return o.c.Service.Sale(ctx, m, id)
	}))
	handle("POST /api/sales/{sale}/expose", o.change(o.c.Service.Expose))
	handle("POST /api/sales/{sale}/pause", o.change(o.c.Service.Pause))
	handle("POST /api/sales/{sale}/resume", o.change(o.c.Service.Resume))
	handle("POST /api/sales/{sale}/kill", o.change(o.end(true)))
	handle("POST /api/sales/{sale}/end", o.change(o.end(false)))
	handle("POST /api/sales/{sale}/stock", o.stock)
	handle("GET /api/sales/{sale}/board", o.board)
	handle("GET /api/sales/{sale}/orders", o.orders)
	handle("POST /api/sales/{sale}/orders/{reservation}/cancel", func(v *visit) { cancelOrder(o, v) })
	handle("POST /api/sales/{sale}/orders/{reservation}/refund", func(v *visit) { refundOrder(o, v) })
	handle("GET /api/sales/{sale}/networks", o.networks)
	handle("GET /api/sales/{sale}/report.csv", o.report)
	handle("GET /api/sales/{sale}/orders.jsonl", func(v *visit) { exportOrders(o, v) })
	handle("POST /api/sales/{sale}/reconcile", o.reconcile)
	handle("GET /api/sales/{sale}/log", o.logged)
	if o.c.Webhooks != nil {
		webhooks{o, o.c.Webhooks}.routes(handle)
	}
	if o.c.Products != nil {
		products{o, o.c.Products}.routes(r)
	}
	r.public("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { wire.WriteJSON(w, http.StatusOK, []byte("{}\n")) })
	r.public("GET /readyz", o.ready)
	r.public("GET /metrics", o.metrics)
}

// ServeHTTP implements http.Handler.
func (o *Office) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	wire.SetSecurityHeaders(w.Header())
	if !wire.IsCanonicalPath(r.URL) {
		wire.RefuseReason(w, layers.NotFound)
		return
	}
	switch h, pattern := o.mux.Handler(r); {
	case pattern != "":
		o.mux.ServeHTTP(w, r)
	case strings.HasPrefix(r.URL.Path, "/api/") || r.URL.Path == "/metrics" || r.URL.Path == "/healthz" || r.URL.Path == "/readyz":
		unknown(w, r, h)
	case o.c.Pages != nil:
		o.c.Pages.ServeHTTP(w, r)
	default:
		wire.RefuseReason(w, layers.NotFound)
	}
}

// unknown handles a request that no pattern matches. h is the response of the mux, which knows
// the allowed methods.
func unknown(w http.ResponseWriter, r *http.Request, h http.Handler) {
	asked := &verdict{header: http.Header{}}
	h.ServeHTTP(asked, r)
	if asked.status == http.StatusMethodNotAllowed {
		wire.NotAllowed(w, asked.header.Get("Allow"))
		return
	}
	wire.RefuseReason(w, layers.NotFound)
}

// verdict is a ResponseWriter that records the status and the header.
type verdict struct {
	header http.Header
	status int
}

func (v *verdict) Header() http.Header         { return v.header }
func (v *verdict) WriteHeader(status int)      { v.status = cmp.Or(v.status, status) }
func (v *verdict) Write(b []byte) (int, error) { v.WriteHeader(http.StatusOK); return len(b), nil }

func (o *Office) ready(w http.ResponseWriter, r *http.Request) {
	if o.c.Ready != nil {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := o.c.Ready(ctx); err != nil {
			o.c.Log.Warn("not ready", "error", err)
			layers.Refusal{Reason: layers.Unavailable, Detail: "not ready"}.Write(w)
			return
		}
	}
	wire.WriteJSON(w, http.StatusOK, []byte("{}\n"))
}

func (o *Office) metrics(w http.ResponseWriter, r *http.Request) {
	if o.c.Metrics == nil {
		wire.RefuseReason(w, layers.NotFound)
		return
	}
	if o.c.MetricsToken != "" {
		token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(o.c.MetricsToken)) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			layers.Refusal{Reason: layers.NoSession, Detail: "want the metrics token"}.Write(w)
			return
		}
	}
	o.c.Metrics.ServeHTTP(w, r)
}

// visitOf returns the visit of a request, without its body. It refuses without a session; changes
// need the CSRF value, too.
func visitOf(o *Office, w http.ResponseWriter, r *http.Request) (*visit, bool) {
	a, text, ok, err := sessions{o}.account(r)
	if err != nil {
		o.fail(w, r, err)
		return nil, false
	}
	if !ok {
		wire.RefuseReason(w, layers.NoSession)
		return nil, false
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !o.c.Keys.CSRFOK(text, r.Header.Get("Flashsale-CSRF")) {
		wire.RefuseReason(w, layers.CSRF)
		return nil, false
	}
	v := &visit{w: w, r: r.WithContext(account.With(r.Context(), a)), account: a, merchant: a.Merchant, sale: r.PathValue("sale")}
	if v.sale != "" && !wire.IsSaleID(v.sale) {
		wire.RefuseReason(w, layers.NotFound)
		return nil, false
	}
	return v, true
}

// withBody returns a handler that reads the body of a visit before f.
func withBody(o *Office, f func(*visit)) func(*visit) {
	return func(v *visit) {
		body, room, fault := o.bodies.Read(v.r)
		defer o.bodies.Release(room)
		if fault != nil {
			fault.Refuse(v.w)
			return
		}
		v.body = wire.OrEmpty(body)
		f(v)
	}
}

// fail writes an error of the service.
func (o *Office) fail(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, errBusy) {
		layers.Refusal{Layer: sale.L4, Reason: sale.Overloaded, RetryAfter: 2 * time.Second}.Write(w)
		return
	}
	f, known := wire.Failure(err)
	if !known || f.Reason == layers.Unavailable {
		o.c.Log.Error("request failed", "path", r.URL.Path, "error", err)
	}
	f.Write(w)
}
