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

// A Config is how an Inventory works. The zero value is good.
type Config struct {
	// Prefix begins every key: "fs:" if empty. At most 32 letters, digits and . _ : -
	Prefix string

	// Deadline is how long a call may take, beside what Next waits: 2 s if 0, at least 10 ms.
	Deadline time.Duration

	// Redeliver is how long an entry of the stream is with who took it before another may
	// take it: 5 s if 0, at least 10 ms.
	Redeliver time.Duration

	// Watch is how often the server's identity is compared, for each sale that was asked
	// about within the last ten minutes: 1 s if 0, at least 10 ms.
	Watch time.Duration

	// MaxTickets is how many users of one sale may have a ticket or a unit in one epoch, and
	// how many reservations all of them may get before Join is sale.QueueFull. It bounds the
	// memory of a sale. 5,000,000 if 0, and not negative.
	MaxTickets int64

	// Clock is asked for the time instead of the server, for tests.
	Clock func() time.Time

	// Log is told which sales were found stale, and why; nothing is logged if nil.
	Log *slog.Logger
}

// An Inventory is a sale.Inventory whose state is in Redis. It is safe for concurrent use, and any number
// of processes may use the same state.
type Inventory struct {
	client rueidis.Client
	cfg    Config

	scripts *scripts

	mu     sync.Mutex
	known  map[string]*known // by sale
	latest int64             // the largest that Config.Clock has said, in µs

	kick chan struct{} // a call failed: compare now
	stop context.CancelFunc
	done chan struct{}
}

var _ sale.Inventory = (*Inventory)(nil)

// ErrConfig is wrapped by what New answers to a field that it does not accept.
var ErrConfig = errors.New("redisinventory: configuration")

// New makes an Inventory of a client, which stays the caller's to close after Stop. The client's
// own retries (rueidis.ClientOption.DisableRetry) do not matter: no script is marked as one
// that may be sent again. Its ConnWriteTimeout should be about Config.Deadline.
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
	texts, err := load()
	if err != nil {
		return nil, fmt.Errorf("redisinventory: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	g := &Inventory{
		client: client, cfg: cfg, scripts: texts, known: map[string]*known{},
		kick: make(chan struct{}, 1), stop: stop, done: make(chan struct{}),
	}
	go g.watch(ctx)
	return g, nil
}

// Stop ends the watch. Stopping again does nothing. It leaves the client open.
func (g *Inventory) Stop() {
	g.stop()
	<-g.done
}
