package run

import (
	"context"
	"log/slog"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/redisstore"
)

// OpenStore opens the store that name says, memory or the URL of a Redis, which
// has to answer. The function that it returns closes the store.
func OpenStore(name string) (weir.Store, func(), error) {
	if name == "memory" {
		return openMemory("", slog.New(slog.DiscardHandler))
	}
	r, err := connect(name)
	if err != nil {
		return nil, nil, err
	}
	return r.store, r.close, nil
}

// openMemory makes a store in memory, which outlives the process in the file
// snapshot if that is not empty.
func openMemory(snapshot string, log *slog.Logger) (weir.Store, func(), error) {
	store, err := memstore.New(memstore.Config{Snapshot: snapshot})
	if err != nil {
		return nil, nil, err
	}
	return store, func() {
		if err := store.Close(); err != nil {
			log.Error("the snapshot was not written", "file", snapshot, "error", err)
		}
	}, nil
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
