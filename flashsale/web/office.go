package web

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/floodweir/weir/flashsale/layers"
	"github.com/floodweir/weir/flashsale/pass"
	"github.com/floodweir/weir/flashsale/sale"
)

// An OfficeConfig says what the office answers with. Desk, Merchants, Keys and Layers are
// required.
type OfficeConfig struct {
	Desk      sale.MerchantsDesk
	Merchants Merchants
	Keys      *pass.Keys
	Layers    *layers.Layers

	// Pages answers whatever is not below /api/; 404 if nil.
	Pages http.Handler

	// Lab runs the lock lab; 404 if nil. One run at a time.
	Lab func(ctx context.Context, a LabAsk) (LabRun, error)

	// Metrics answers /metrics; 404 if nil. With MetricsToken it asks for that as a bearer
	// token.
	Metrics      http.Handler
	MetricsToken string

	// Ready says why the process cannot serve now, for /readyz; nil is always ready.
	Ready func(ctx context.Context) error

	// SessionFor is how long a merchant's session is valid; 12 hours if zero.
	SessionFor time.Duration

	// Secure says that browsers come by TLS, so that cookies are sent by TLS alone.
	Secure bool

	Clock func() time.Time // the machine's if nil
	Log   *slog.Logger     // nothing is logged if nil
}

// Merchants knows the merchants' passwords: a sale.Ledger does.
type Merchants interface {
	MerchantHash(ctx context.Context, name string) (string, error)
}

// A LabAsk asks for one run of the lock lab.
type LabAsk struct {
	Design        string // naive, fenced, segmented or atomic
	Buyers, Stock int
	Pause         time.Duration
}

// A LabRun is what came of it.
type LabRun struct {
	LabAsk
	Sold, Oversold, Undersold int
	Took                      time.Duration
	PerSecond                 float64
}

// An Office is the HTTP interface of merchants. It is safe for concurrent use.
type Office struct {
	c OfficeConfig
}

// NewOffice makes an office.
func NewOffice(c OfficeConfig) (*Office, error) { return &Office{c: c}, nil }

// ServeHTTP implements http.Handler.
func (o *Office) ServeHTTP(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
