package weircaddy

import (
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"

	"github.com/floodweir/weir"
	weirrueidis "github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/weirfile"
)

const memory = "memory"

// stores are the stores of all handlers, by storeKey. A store is open while a handler uses it,
// so it outlasts the reload of a configuration.
var stores = caddy.NewUsagePool()

// A storeKey names a store.
type storeKey struct {
	url      string
	failover weirfile.Failover
}

// keyOf returns the key of a store. Memory has no failover, so its state outlasts a change of
// the section.
func keyOf(url string, f weirfile.Failover) storeKey {
	if url == memory {
		f = weirfile.Failover{}
	}
	return storeKey{url, f}
}

// A shared is an open store, and the handlers that use it.
type shared struct {
	main, local weir.Store
	stops       []func() error // in the order of starts

	mu       sync.Mutex
	handlers []*Handler // the newest last
}

// acquire returns the store of key, which release closes after its last user.
func acquire(key storeKey, log *slog.Logger) (*shared, error) {
	s, _, err := stores.LoadOrNew(key, func() (caddy.Destructor, error) {
		s := new(shared)
		if err := s.open(key, log); err != nil {
			return nil, errors.Join(err, s.Destruct())
		}
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return s.(*shared), nil
}

func release(key storeKey) error {
	_, err := stores.Delete(key)
	return err
}

func (s *shared) open(key storeKey, log *slog.Logger) error {
	shares, err := s.memory()
	if err != nil {
		return err
	}
	if s.local, err = failover.NewLocal(shares, max(1, key.failover.Nodes)); err != nil {
		return err
	}
	if key.url == memory {
		s.main, err = s.memory()
		return err
	}
	conn, err := weirrueidis.Open(key.url)
	if err != nil {
		return err
	}
	s.stops = append(s.stops, conn.Close)
	store, err := redisstore.New(conn, redisstore.Config{Timeout: max(redisstore.DefaultTimeout, key.failover.Deadline)})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, store.Close)
	breaker, err := failover.New(store, failover.Config{Deadline: key.failover.Deadline, Observe: func(c failover.Change) {
		log.Warn("store "+string(c.State), "overloaded", c.Overloaded, "error", c.Cause)
	}})
	if err != nil {
		return err
	}
	s.stops = append(s.stops, func() error { breaker.Close(); return nil })
	s.main = breaker
	return nil
}

// memory opens a store in memory. When it is full, new keys share a bucket.
func (s *shared) memory() (*memstore.Store, error) {
	store, err := memstore.New(memstore.Config{Full: memstore.Share})
	if err == nil {
		s.stops = append(s.stops, store.Close)
	}
	return store, err
}

// Destruct closes the store.
func (s *shared) Destruct() error {
	var errs []error
	for _, stop := range slices.Backward(s.stops) {
		errs = append(errs, stop())
	}
	return errors.Join(errs...)
}

// policies returns the policies of the newest handler of a file, or nil.
func (s *shared) policies(file string) *policy.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range slices.Backward(s.handlers) {
		if h.File == file {
			return h.policies
		}
	}
	return nil
}

func (s *shared) add(h *Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers = append(s.handlers, h)
}

// remove drops h. If its configuration failed to start, the next one continues from the policies
// in force.
func (s *shared) remove(h *Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers = slices.DeleteFunc(s.handlers, func(other *Handler) bool { return other == h })
}
