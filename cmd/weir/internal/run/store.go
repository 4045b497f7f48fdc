package run

import (
	"context"
	"log/slog"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/config"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/redisstore"
)

// OpenStore opens the store that name says, memory or the URL of a Redis, which
// has to answer. The function that it returns closes the store.
func OpenStore(name string) (weir.Store, func(), error) {
	if name == "memory" {
		store, stop, err := openMemory("", slog.New(slog.DiscardHandler))
		if err != nil {
			return nil, nil, err
		}
		return store, stop, nil
	}
	r, err := connect(name)
	if err != nil {
		return nil, nil, err
	}
	return r.store, r.close, nil
}

// OpenConn connects to the Redis at url, which has to answer. The function that it
// returns closes the connection.
func OpenConn(url string) (redisstore.Conn, func(), error) {
	conn, err := rueidis.Open(url)
	if err != nil {
		return nil, nil, err
	}
	return conn, func() { conn.Close() }, nil
}

// openMemory makes a store in memory, which outlives the process in the file
// snapshot if that is not empty.
func openMemory(snapshot string, log *slog.Logger) (*memstore.Store, func(), error) {
	// Full of keys that owe, it lets new ones share what is left: to make no decision would
	// be to let them through where on_store_error is open.
	store, err := memstore.New(memstore.Config{Snapshot: snapshot, Full: memstore.Share})
	if err != nil {
		return nil, nil, err
	}
	return store, func() {
		if err := store.Close(); err != nil {
			log.Error("the snapshot was not written", "file", snapshot, "error", err)
		}
	}, nil
}

// startStore opens the store, puts a deadline on one that is not in this process, and
// makes ready what decides without it.
func (p *Program) startStore(ctx context.Context) error {
	name := config.Redacted(p.config.Store)
	if p.config.Store == "memory" {
		store, stop, err := openMemory(p.config.Snapshot, p.log)
		if err != nil {
			return err
		}
		p.raw = store
		p.metrics.Memory(store.Stats)
		p.stops = append(p.stops, func(context.Context) { stop() })
	} else {
		store, err := openLate(ctx, p.config.Store, name, p.log)
		if err != nil {
			return err
		}
		p.raw, p.late = store, store
		p.stops = append(p.stops, func(context.Context) { store.close() })
	}
	if err := p.over(p.raw); err != nil {
		return err
	}
	p.ready = &readiness{store: p.store, name: name, policies: p.inForce, without: p.without}
	return nil
}

// over makes the store that the doors ask, and the one for when that is away.
func (p *Program) over(raw weir.Store) error {
	shares, stop, err := openMemory("", p.log)
	if err != nil {
		return err
	}
	p.stops = append(p.stops, func(context.Context) { stop() })
	if p.local, err = failover.NewLocal(shares, max(1, p.config.Nodes)); err != nil {
		return err
	}
	p.store = p.metrics.Store(raw)
	if p.late == nil {
		return nil
	}
	p.bounded, err = failover.New(p.store, failover.Config{Deadline: p.config.Deadline, Observe: p.away})
	if err != nil {
		return err
	}
	p.store = p.bounded
	p.stops = append(p.stops, func(context.Context) { p.bounded.Close() })
	return nil
}

// away tells that the store is left alone, or asked again.
func (p *Program) away(away bool) {
	p.metrics.StoreAway(away)
	if away {
		p.log.Error("the store does not answer and is left alone for a moment: requests go by the on_store_error of their policy", "error", p.bounded.Err())
	} else {
		p.log.Info("the store answers again")
	}
}

// A redis is a store in Redis and the connection that it has.
type redis struct {
	store *redisstore.Store
	conn  *rueidis.Conn
}

func connect(url string) (*redis, error) {
	conn, err := rueidis.Open(url)
	if err != nil {
		return nil, err
	}
	store, err := redisstore.New(conn, redisstore.Config{})
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &redis{store, conn}, nil
}

func (r *redis) close() {
	r.store.Close()
	r.conn.Close()
}

// describe logs what the server is, and what is wrong with it.
func (r *redis) describe(ctx context.Context, name string, log *slog.Logger) {
	f, err := r.store.Probe(ctx)
	if err != nil {
		log.Error("the store is not fit to keep limits", "store", name, "error", err)
		return
	}
	log.Info("store connected", "store", name, "server", f.Server, "version", f.Version)
	for _, w := range f.Warnings {
		log.Warn(w, "store", name)
	}
}
