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

// UserHeader is the request field by which policies know the user. Who calls Serve sets it
// to the user of a verified session, and removes what a client sent under this name.
const UserHeader = "Flashsale-User"

// LayerHeader is the response field that names the layer which refused.
const LayerHeader = "Flashsale-Layer"

// localKeys bounds what is kept of users and addresses while the store does not answer.
const localKeys = 200_000

//go:embed layers.yaml
var embedded string

// Default is the policy file that is used if there is no other.
func Default() []byte { return []byte(embedded) }

// A Config says where limits keep their state and what they are. Store is required.
type Config struct {
	// Store keeps the state of L1, L2 and the limits of the login.
	Store weir.Store

	// Deadline is how long Store may take to decide, for one that is not in this process:
	// see package failover. Zero asks Store as it is, for one that is.
	Deadline time.Duration

	// Nodes is among how many processes a limit is divided while Store does not answer; 1
	// if zero.
	Nodes int

	// Policies is a policy file; Default if nil.
	Policies []byte

	// Registry gets the metrics; none if nil.
	Registry prometheus.Registerer

	// TrustedProxies are the proxies in front, whose X-Forwarded-For says who the client is
	// and whose X-Forwarded-Proto how it came.
	TrustedProxies []netip.Prefix

	// Front says that L1 and L2 are kept in front of this process: they are off here.
	Front bool

	Log *slog.Logger // nothing is logged if nil
}

// Layers are the limits that a request passes on its way to the shop. They are safe for
// concurrent use.
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

// New makes layers. An error wraps weir.ErrInvalid.
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

// Counts are the requests that were refused since l was made, by layer and reason.
func (l *Layers) Counts() map[sale.Layer]map[sale.Reason]int64 { return l.counts.refusals() }

// Totals are the requests that came since l was made, those that were admitted, and those
// that were refused. Those under way are in requests alone.
func (l *Layers) Totals() (requests, admitted, refused int64) { return l.counts.totals() }

// Follow keeps to the policy file at path until ctx is done, whose cause it returns. A file
// that is broken, or says what Reload refuses, leaves the one before in force; what is
// wrong is logged, and told to trouble if that is not nil, and nil when it is well again.
func (l *Layers) Watch(ctx context.Context, path string, trouble func(error)) error {
	f := weirfile.Follower{Path: path, Every: 250 * time.Millisecond, Adopt: l.adopt, Trouble: func(err error) {
		if err != nil {
			l.c.Log.Error("the policy file is not followed: the one before stays in force", "file", path, "error", err)
		} else {
			l.c.Log.Info("the policy file is followed", "file", path)
		}
		l.counts.broken.Store(err != nil)
		if trouble != nil {
			trouble(err)
		}
	}}
	return f.Run(ctx)
}

// Reload puts the policies of a file into force for every request that begins from now on.
// After an error, which wraps weir.ErrInvalid, nothing has changed.
func (l *Layers) Reload(name string, data []byte) error {
	f, err := weirfile.Parse(name, data)
	if err != nil {
		return fmt.Errorf("layers: %w", err)
	}
	return l.adopt(f)
}
