package web

import (
	"net/http"
	"slices"
	"strings"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/flashsale/wire"
)

// route is the handler of one pattern and its conditions.
type route struct {
	shop   *Shop
	handle func(*call, http.ResponseWriter)
	valid  func(id string) bool // whether {id} can exist; nil if the pattern has none
	direct bool                 // handled before all limits, the session and the body
	user   bool                 // requires a session and, for a change, a request from our pages

	sale, receipt bool // {id} is a sale or a receipt
	own           bool // the user's own orders

	// early and late answer requests that the phase of the sale alone decides, before any
	// limit is charged: early before the session and the body are read, late after.
	early, late func(*call) (layers.Refusal, bool)
}

// routes maps every pattern to its route. With mock, the mock provider takes payments.
func routes(mock bool) map[string]route {
	all := map[string]route{
		"POST /api/session":              {handle: as(visitor.openSession)},
		"POST /api/logout":               {handle: as(visitor.logout), user: true},
		"GET " + loginPath:               {handle: as(visitor.login)},
		"GET " + loginPath + "/callback": {handle: as(visitor.loggedIn)},
		"GET /api/sales/{id}/product":    {handle: func(c *call, w http.ResponseWriter) { shopper{c}.product(w) }, valid: wire.IsSaleID},
		"GET /api/campaigns/{id}":        {handle: func(c *call, w http.ResponseWriter) { shopper{c}.campaign(w) }, valid: sale.IsCampaign},
		"GET /images/{id}":               {handle: func(c *call, w http.ResponseWriter) { shopper{c}.picture(w) }, valid: isPicture},
		"GET /api/time":                  {handle: (*call).time},
		"GET /api/sales":                 {handle: func(c *call, w http.ResponseWriter) { shopper{c}.sales(w) }},
		"GET /api/sales/{id}":            {handle: (*call).view, sale: true, valid: wire.IsSaleID},
		"GET /api/sales/{id}/ticket":     {handle: (*call).status, sale: true, valid: wire.IsSaleID, user: true, early: (*call).closedToStatus},
		"POST /api/sales/{id}/ticket":    {handle: (*call).join, sale: true, valid: wire.IsSaleID, user: true, early: (*call).closedToJoin},
		"GET /api/sales/{id}/work":       {handle: (*call).work, sale: true, valid: wire.IsSaleID, user: true},
		"POST /api/sales/{id}/orders":    {handle: (*call).buy, sale: true, valid: wire.IsSaleID, user: true, early: (*call).notStarted, late: (*call).closedToBuy},
		"GET /api/orders":                {handle: (*call).orders, own: true, user: true},
		"GET /api/orders/{id}":           {handle: (*call).order, receipt: true, valid: isReceipt, user: true},
		"POST /api/orders/{id}/cancel":   {handle: (*call).cancel, receipt: true, valid: isReceipt, user: true},
		"PUT /api/orders/{id}/contact":   {handle: (*call).contact, receipt: true, valid: isReceipt, user: true},
	}
	if mock {
		all["POST /api/orders/{id}/pay"] = route{handle: (*call).pay, receipt: true, valid: isReceipt, user: true}
		return all
	}
	all["POST /api/orders/{id}/pay"] = route{handle: (*call).checkout, receipt: true, valid: isReceipt, user: true}
	all["POST /api/orders/{id}/returned"] = route{handle: returned, receipt: true, valid: isReceipt, user: true}
	all["POST /api/payments/notify/{id}"] = route{handle: notify, valid: isReceipt, direct: true}
	return all
}

// newMux returns a mux of the handlers of routes. A request that no pattern of routes matches is
// 405 for another method of a path, 404 below /api/, and a page elsewhere.
func newMux(mock bool, handler func(route) http.Handler) *http.ServeMux {
	mux := http.NewServeMux()
	methods := map[string][]string{} // by path
	valid := map[string]func(string) bool{}
	for pattern, rt := range routes(mock) {
		mux.Handle(pattern, handler(rt))
		method, path, _ := strings.Cut(pattern, " ")
		methods[path], valid[path] = append(methods[path], method), rt.valid
		if method == http.MethodGet {
			methods[path] = append(methods[path], http.MethodHead)
		}
	}
	for path, ms := range methods {
		slices.Sort(ms)
		allow := strings.Join(ms, ", ")
		mux.Handle(path, handler(route{valid: valid[path], handle: func(_ *call, w http.ResponseWriter) { wire.NotAllowed(w, allow) }}))
	}
	notFound := handler(route{handle: (*call).notFound})
	mux.Handle("/api", notFound)
	mux.Handle("/api/", notFound)
	mux.Handle("/", handler(route{handle: func(c *call, w http.ResponseWriter) { c.config.Pages.ServeHTTP(w, c.r) }}))
	return mux
}

func (c *call) notFound(w http.ResponseWriter) { wire.RefuseReason(w, layers.NotFound) }

// isReceipt reports whether id can be a signed receipt.
func isReceipt(id string) bool { return id != "" && len(id) <= wire.MaxSigned && wire.IsBase64(id) }

// isPayment reports whether s can be the ID of a payment.
func isPayment(s string) bool {
	return s != "" && len(s) <= 64 && wire.IsBase64(s) && !strings.Contains(s, "_")
}
