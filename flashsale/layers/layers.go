package layers

import (
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/flashsale/sale"
)

// UserHeader is the request field by which policies know the user. Who calls Wrap sets it
// to the user of a verified session, and removes what a client sent under this name.
const UserHeader = "Flashsale-User"

// LayerHeader is the response field that names the layer which refused.
const LayerHeader = "Flashsale-Layer"

// A Config says where limits keep their state and what they are. Store is required.
type Config struct {
	// Store keeps the state of L1, L2 and the limits of the login.
	Store weir.Store

	// Deadline is how long Store may take to decide, for one that is not in this process:
	// see package failover. Zero asks Store as it is.
	Deadline time.Duration

	// Nodes is among how many processes a limit is divided while Store does not answer; 1
	// if zero.
	Nodes int

	// Policies is a policy file; Default if nil.
	Policies []byte

	// Registry gets the metrics; none if nil.
	Registry prometheus.Registerer

	// TrustedProxies are the proxies in front, whose X-Forwarded-For says who the client is.
	TrustedProxies []netip.Prefix

	// Front says that L1 and L2 are kept in front of this process: they are off here.
	Front bool

	Log *slog.Logger // nothing is logged if nil
}

// Layers are the limits that a request passes on its way to the shop. They are safe for
// concurrent use.
type Layers struct {
	counts *counts
}

// New makes layers. An error wraps weir.ErrInvalid.
func New(c Config) (*Layers, error) {
	return &Layers{counts: newCounts()}, nil
}

// Wrap is next behind L4, L1 and L2, in this order.
func (l *Layers) Wrap(next http.Handler) http.Handler { return next }

// Counts are the requests that were refused since l was made, by layer and reason.
func (l *Layers) Counts() map[sale.Layer]map[sale.Reason]int64 { return nil }
