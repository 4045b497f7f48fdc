package redisinventory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/floodweir/weir/flashsale/sale"
	"github.com/redis/rueidis"
)

// Config configures an Inventory. The zero value works.
type Config struct {
	// Prefix begins every key: "fs:" if empty. At most 32 letters, digits and . _ : -
	Prefix string

	// Deadline is the timeout of a call, in addition to the wait of Next: 2 s if 0, at least 10
	// ms.
	Deadline time.Duration

	// Redeliver is the time after which an unacknowledged entry is delivered again: 5 s if 0,
	// at least 10 ms.
	Redeliver time.Duration

	// Watch is the period of the checks of the server's identity: 1 s if 0, at least 10 ms.
	// Sales with a call in the last ten minutes are checked.
	Watch time.Duration

	// MaxTickets bounds the memory of a sale in one epoch: the users with a ticket or a unit,
	// and the reservations. Above it Join refuses with sale.QueueFull. 5,000,000 if 0, and not
	// negative.
	MaxTickets int64

	// Clock replaces the time of the server, for tests.
	Clock func() time.Time

	// Log receives which states were found stale, and why; discards if nil.
	Log *slog.Logger
}

// Inventory implements sale.Inventory with its state in Redis. It is safe for concurrent use,
// and any number of processes can use one state.
type Inventory struct {
	client rueidis.Client
	cfg    Config

	scripts *scripts
	states  knownStates

	mu     sync.Mutex
	latest int64 // the latest time of Config.Clock, in µs

	attended sync.Map // the workers that have called Attend

	kick chan struct{} // a call failed: check the server now
	stop context.CancelFunc
	done chan struct{}
}

var _ sale.Inventory = (*Inventory)(nil)

// ErrConfig is wrapped by errors of New about a Config.
var ErrConfig = errors.New("redisinventory: configuration")

// New returns an Inventory on a client. The caller closes the client after Stop. The client's
// own retries (rueidis.ClientOption.DisableRetry) have no effect, because no script is marked
// as retryable. Its ConnWriteTimeout should be about Config.Deadline.
func New(client rueidis.Client, cfg Config) (*Inventory, error) {
	if client == nil {
		return nil, fmt.Errorf("%w: client is nil, want a client", ErrConfig)
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "fs:"
	}
	if len(cfg.Prefix) > 32 || strings.Trim(cfg.Prefix, wordChars+":.") != "" {
		return nil, fmt.Errorf("%w: Prefix is %q, want at most 32 letters, digits and . _ : -", ErrConfig, cfg.Prefix)
	}
	for _, f := range []struct {
		name string
		d    *time.Duration
		zero time.Duration
	}{
		{"Deadline", &cfg.Deadline, 2 * time.Second},
		{"Redeliver", &cfg.Redeliver, 5 * time.Second},
		{"Watch", &cfg.Watch, time.Second},
	} {
		if *f.d == 0 {
			*f.d = f.zero
		}
		if *f.d < 10*time.Millisecond {
			return nil, fmt.Errorf("%w: %s is %v, want at least 10ms", ErrConfig, f.name, *f.d)
		}
	}
	if cfg.MaxTickets == 0 {
		cfg.MaxTickets = 5_000_000
	}
	if cfg.MaxTickets < 0 {
		return nil, fmt.Errorf("%w: MaxTickets is %d, want 0 or more", ErrConfig, cfg.MaxTickets)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	texts, err := load()
	if err != nil {
		return nil, fmt.Errorf("redisinventory: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Inventory{
		client: client, cfg: cfg, scripts: texts,
		states: knownStates{prefix: cfg.Prefix, log: cfg.Log, bySale: map[string]*known{}},
		kick:   make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
	}
	go g.watch(ctx)
	return g, nil
}

// Stop ends the checks of the server. It may be called again. It leaves the client open.
func (g *Inventory) Stop() {
	g.stop()
	<-g.done
}
