package web

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// A ShopConfig says what the shop answers with. Desk, Keys and Layers are required.
type ShopConfig struct {
	Desk   sale.BuyersDesk
	Keys   *pass.Keys
	Layers *layers.Layers

	// Pages answers whatever is not below /api/; 404 if nil.
	Pages http.Handler

	// SessionFor is how long a guest's session is valid; 30 days if zero.
	SessionFor time.Duration

	// Secure says that browsers come by TLS, so that cookies are sent by TLS alone. Without
	// it that is so of requests that come by TLS.
	Secure bool

	Clock func() time.Time // the machine's if nil
	Log   *slog.Logger     // nothing is logged if nil
}

// A Shop is the HTTP interface of buyers. It is safe for concurrent use.
type Shop struct {
	c ShopConfig
}

// NewShop makes a shop. Close stops its payment provider.
func NewShop(c ShopConfig) (*Shop, error) { return &Shop{c: c}, nil }

// ServeHTTP implements http.Handler.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }

// Close drops what the mock payment provider has not called back yet, and waits for the
// calls that are under way.
func (s *Shop) Close() error { return nil }
