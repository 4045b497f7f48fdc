package layers

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/flashsale/sale"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/weirfile"
)

// UserHeader is the request header by which policies know the user. The caller of Serve sets it
// to the user of a verified session and removes what a client sent.
const UserHeader = "Flashsale-User"

// The request headers by which policies know what a request proves. The caller of Serve sets them
// and removes what a client sent.
const (
	ProofHeader   = "Flashsale-Proof"   // not empty for a proven session or a valid receipt
	ReceiptHeader = "Flashsale-Receipt" // the reservation of a valid receipt
)

// workHeader is the response header of a denial that work can avoid.
const workHeader = "Flashsale-Work"

// LayerHeader is the response header that names the layer which refused.
const LayerHeader = "Flashsale-Layer"

// localKeys bounds the keys that are kept in memory while the store is unavailable.
const localKeys = 200_000

//go:embed layers.yaml
var embedded string

// Default returns the built-in policy file.
func Default() []byte { return []byte(embedded) }

// Config configures Layers. Store is required.
type Config struct {
	// Store holds the state of L1, L2 and the login limits.
	Store weir.Store

	// Deadline is the timeout of Store; see package failover. Zero is for a store in this
	// process, which is called without a timeout.
	Deadline time.Duration

	// Nodes is the number of processes among which a limit is divided while Store is
	// unavailable; 1 if zero.
	Nodes int

	// Policies is a policy file; Default if nil.
	Policies []byte

	// Registry receives the metrics; none if nil.
	Registry prometheus.Registerer

	// TrustedProxies are the proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted.
	TrustedProxies []netip.Prefix

	// Front disables L1 and L2, which a proxy in front applies.
	Front bool

	Log *slog.Logger // discards if nil
}

// Layers applies the limits on the way to the shop. It is safe for concurrent use.
type Layers struct {
	c        Config
	client   httplimit.ClientAddress
	store    weir.Store
	local    weir.Store
	registry *guard.Registry
	logins   [logins]*guard.Guard
	counts   *counts
	spare    sync.Pool // of *record

	reload sync.Mutex
	now    atomic.Pointer[generation]
}

// New returns Layers. An error wraps weir.ErrInvalid.
func New(c Config) (*Layers, error) {
	if c.Store == nil {
		return nil, fmt.Errorf("layers: store: %w: want one, got nil", weir.ErrInvalid)
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	mem, err := memstore.New(memstore.Config{MaxKeys: localKeys, Full: memstore.Share})
	if err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	l := &Layers{c: c, store: c.Store, counts: newCounts(), client: httplimit.ClientAddress{Trusted: slices.Clone(c.TrustedProxies)}}
	l.spare.New = func() any { return new(record) }
	if l.local, err = failover.NewLocal(mem, max(c.Nodes, 1)); err != nil {
		return nil, fmt.Errorf("layers: nodes: %w", err)
	}
	if c.Deadline > 0 {
		if l.store, err = failover.New(c.Store, failover.Config{Deadline: c.Deadline}); err != nil {
			return nil, fmt.Errorf("layers: deadline: %w", err)
		}
	}
	if l.registry, err = guard.NewRegistry(guard.Config{Store: l.store, Options: enforce.Options{Local: l.local}}); err != nil {
		return nil, fmt.Errorf("layers: %w", err)
	}
	if err := l.makeLogins(); err != nil {
		return nil, err
	}
	file := c.Policies
	if file == nil {
		file = Default()
	}
	if err := l.Reload("layers.yaml", file); err != nil {
		return nil, err
	}
	if c.Registry != nil {
		if err := c.Registry.Register(l.counts); err != nil {
			return nil, fmt.Errorf("layers: metrics: %w", err)
		}
	}
	return l, nil
}

// Front reports whether a proxy in front applies L1 and L2.
func (l *Layers) Front() bool { return l.c.Front }

// Counts returns the refused requests by layer and reason.
func (l *Layers) Counts() map[sale.Layer]map[sale.Reason]int64 { return l.counts.refusals() }

// Totals returns the numbers of all, admitted and refused requests. Requests in progress are in
// the first alone.
func (l *Layers) Totals() (requests, admitted, refused int64) { return l.counts.totals() }

// Watch reloads the policy file at path until ctx ends, and returns the cause. An invalid file
// leaves the previous one in force. Watch logs each error and passes it to report, if that is
// not nil; after a repair it passes nil.
func (l *Layers) Watch(ctx context.Context, path string, report func(error)) error {
	f := weirfile.Follower{Path: path, Every: 250 * time.Millisecond, Adopt: l.adopt, Trouble: func(err error) {
		if err != nil {
			l.c.Log.Error("the policy file is not followed: the one before stays in force", "file", path, "error", err)
		} else {
			l.c.Log.Info("the policy file is followed", "file", path)
		}
		l.counts.broken.Store(err != nil)
		if report != nil {
			report(err)
		}
	}}
	return f.Run(ctx)
}

// Reload puts the policies of a file into force for later requests. After an error, which wraps
// weir.ErrInvalid, nothing has changed.
func (l *Layers) Reload(name string, data []byte) error {
	f, err := weirfile.Parse(name, data)
	if err != nil {
		return fmt.Errorf("layers: %w", err)
	}
	return l.adopt(f)
}
