package run

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/storeconn"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/share"
)

// OpenStore opens a store: "memory", or the URL of a server that must be reachable. The
// returned function closes it.
func OpenStore(name string) (weir.Store, func(), error) {
	if name == "memory" {
		store, stop, err := openMemory("", slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, nil, err
		}
		return store, stop, nil
	}
	store, _, stop, err := storeconn.Dial(context.Background(), name)
	return store, stop, err
}

// OpenConn connects to the Redis at url, which must be reachable. The returned function
// closes the connection.
func OpenConn(url string) (redisstore.Conn, func(), error) {
	_, conn, stop, err := storeconn.Dial(context.Background(), url)
	return conn, stop, err
}

// openMemory opens a memory store. A snapshot file that is not empty keeps its state
// across restarts.
func openMemory(snapshot string, log *slog.Logger) (*memstore.Store, func(), error) {
	// At MaxKeys, new keys share the overflow bucket. An error instead would admit them
	// without limit under on_store_error: open.
	store, err := memstore.New(memstore.Config{Snapshot: snapshot, Full: memstore.Share})
	if err != nil {
		return nil, nil, fmt.Errorf("--snapshot %q: want a file of a memory store, in a directory that can be written: %w", snapshot, err)
	}
	return store, func() {
		if err := store.Close(); err != nil {
			log.Error("snapshot not written", "file", snapshot, "error", err)
		}
	}, nil
}

// stores are the stores of the program.
type stores struct {
	name   string          // without a password
	main   weir.Store      // decides; with metrics and, if it is in a server, shares, a deadline and repeated denials
	server *storeconn.Conn // nil: the store is in memory
	local  weir.Store      // this process's part of each limit, for on_store_error: local

	breaker *failover.Store // below main, if it is in a server; else nil
	shares  *share.Store    // above and below breaker, if it is in a server; else nil
	divided atomic.Pointer[division]

	regional *regional // between main and the other stores; nil without regions
	stops    []func()  // in the order of starts
}

// openStores opens the stores that c names.
func openStores(ctx context.Context, c *config.Config, m *metrics.Metrics, log *slog.Logger) (*stores, error) {
	s := &stores{name: config.Redacted(c.Store)}
	raw, err := s.open(ctx, c, m, log)
	if err == nil {
		err = s.build(raw, c, m, log)
	}
	if err == nil {
		err = s.divideByRegions(ctx, c, m, log)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// open opens the store itself.
func (s *stores) open(ctx context.Context, c *config.Config, m *metrics.Metrics, log *slog.Logger) (weir.Store, error) {
	if c.Store == "memory" {
		store, stop, err := openMemory(c.Snapshot, log)
		if err != nil {
			return nil, err
		}
		m.Memory(store.Stats)
		s.stops = append(s.stops, stop)
		return store, nil
	}
	r, err := storeconn.Open(ctx, storeconn.Config{
		URL: c.Store, Name: s.name, StartDegraded: c.StartDegraded, Timeout: max(redisstore.DefaultTimeout, c.Deadline), Observe: func(err error) { m.Misconfigured(err != nil) }, Log: log,
	})
	if err != nil {
		return nil, err
	}
	s.server = r
	s.stops = append(s.stops, r.Close)
	return r, nil
}

// build adds metrics to raw and, if it is in a server, a deadline, a circuit breaker, a cache of denials
// and shares. Shares decide before the others, so that they do while the circuit breaker is open. It
// also opens the store for local decisions.
func (s *stores) build(raw weir.Store, c *config.Config, m *metrics.Metrics, log *slog.Logger) error {
	local, stop, err := openMemory("", log)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, stop)
	if s.local, err = failover.NewLocal(local, max(1, c.Nodes)); err != nil {
		return err
	}
	if s.server == nil {
		s.main = m.Store(raw)
		return nil
	}
	// A call for a renewal holds up those of requests, which the breaker measures from their own.
	s.shares, err = share.New(raw, s.server.Ledger(), share.Config{Timeout: max(c.Deadline, time.Millisecond), Terms: s.terms})
	if err != nil {
		return err
	}
	s.local = s.shares.Local(s.local)
	m.Shares(s.shares.Stats)
	s.stops = append(s.stops, func() { returnShares(s.shares, log) })
	s.breaker, err = failover.New(s.shares.Calls(), failover.Config{Deadline: c.Deadline, Observe: logChanges(log), ObserveCall: m.StoreCalls()})
	if err != nil {
		return err
	}
	m.Failover(s.breaker.Stats)
	s.stops = append(s.stops, func() { s.breaker.Close() })
	denials, err := denycache.New(s.breaker, denycache.Config{})
	if err != nil {
		return err
	}
	m.DenyCache(denials.Stats)
	s.main = s.shares.Over(s.breaker, denials)
	return nil
}

// logChanges returns a function that logs each change of the state of the store, and the
// begin and the end of an overload of this process. Its counts are since the begin.
func logChanges(log *slog.Logger) func(failover.Change) {
	last := failover.Change{State: failover.Up}
	var undecided, rejected int64
	return func(c failover.Change) {
		undecided, rejected = undecided+c.Unavailable, rejected+c.Overload
		switch {
		case c.State == last.State:
		case c.State == failover.Up:
			log.Info("store available again", "undecided", undecided)
			undecided = 0
		default:
			log.Error("store "+string(c.State)+": requests are decided by the on_store_error of their policy", "error", c.Cause)
		}
		switch {
		case c.Overloaded == last.Overloaded:
		case c.Overloaded:
			log.Warn("process overloaded: requests that wait too long are rejected")
		default:
			log.Info("process no longer overloaded", "rejected", rejected)
			rejected = 0
		}
		last = c
	}
}

// withFallback returns the main store, which decides by mode while it is unavailable; ""
// returns the error.
func (s *stores) withFallback(mode policy.FailMode) weir.Store {
	var fallback weir.Store
	switch mode {
	case policy.Open:
		fallback = failover.Open()
	case policy.Closed:
		fallback = failover.Closed()
	case policy.Local:
		fallback = s.local
	}
	if fallback == nil || s.breaker == nil {
		return s.main
	}
	return failover.WithFallback(s.main, fallback)
}

// inRedis returns s.conn, or nil if the store is not a Redis.
func (s *stores) inRedis() func() redisstore.Conn {
	if s.server == nil || !s.server.Redis() {
		return nil
	}
	return s.conn
}

// conn returns the connection to the Redis, or nil while there is none.
func (s *stores) conn() redisstore.Conn {
	if s.server == nil {
		return nil
	}
	return s.server.Conn()
}

// reload reads the files again that the URLs of stores name.
func (s *stores) reload() {
	if s.server != nil {
		s.server.Reload()
	}
	if s.regional != nil && s.regional.global != nil {
		s.regional.global.Reload()
	}
}

// problem returns what is wrong with the configuration of the server; nil for nothing.
func (s *stores) problem() error {
	if s.server == nil {
		return nil
	}
	return s.server.Problem()
}

// available reports whether requests are decided by the store.
func (s *stores) available() bool { return s.breaker == nil || s.breaker.Stats().State == failover.Up }

func (s *stores) close() {
	for i := len(s.stops) - 1; i >= 0; i-- {
		s.stops[i]()
	}
}
