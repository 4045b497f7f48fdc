package run

import (
	"fmt"
	"log/slog"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// OpenStore opens the store that name says: memory, or the URL of a Redis.
func OpenStore(name string) (weir.Store, func(), error) {
	return openStore(name, "", slog.New(slog.DiscardHandler))
}

func openStore(name, snapshot string, log *slog.Logger) (weir.Store, func(), error) {
	if name == "memory" {
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
	return nil, nil, fmt.Errorf("store %s: not yet", name)
}
