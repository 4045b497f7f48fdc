package run

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/redisstore"
)

// The pause between two attempts to connect doubles from firstRetry to lastRetry.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// A redis is a Redis store and its connection.
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

// probe logs the version of the server and what is wrong with its configuration.
func (r *redis) probe(ctx context.Context, name string, log *slog.Logger) {
	f, err := r.store.Probe(ctx)
	if err != nil {
		log.Error("store cannot keep limits", "store", name, "error", err)
		return
	}
	log.Info("store connected", "store", name, "server", f.Server, "version", f.Version)
	for _, w := range f.Warnings {
		log.Warn(w, "store", name)
	}
}

// A redisConnection is a Redis store that may become reachable after the program has
// started. Until then every request returns the error of the last attempt; afterwards the
// client reconnects by itself.
type redisConnection struct {
	url, name string
	log       *slog.Logger
	current   atomic.Pointer[redis]
	err       atomic.Pointer[error] // of the last attempt
	cancel    context.CancelFunc
	done      sync.WaitGroup
}

// connectInBackground tries to connect once and, if that fails, repeats it until close.
func connectInBackground(ctx context.Context, url, name string, log *slog.Logger) (*redisConnection, error) {
	c := &redisConnection{url: url, name: name, log: log}
	err := c.connect(ctx)
	if errors.Is(err, weir.ErrInvalid) {
		return nil, err
	}
	ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err != nil {
		log.Error("store unavailable: requests are decided by the on_store_error of their policy until it is connected", "store", name, "error", err)
		c.done.Go(func() { c.retry(ctx) })
	}
	return c, nil
}

func (c *redisConnection) connect(ctx context.Context) error {
	r, err := connect(c.url)
	if err != nil {
		c.err.Store(&err)
		return err
	}
	r.probe(ctx, c.name, c.log)
	c.current.Store(r)
	return nil
}

func (c *redisConnection) retry(ctx context.Context) {
	wait := firstRetry
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if c.connect(ctx) == nil {
			return
		}
		wait = min(2*wait, lastRetry)
		timer.Reset(wait)
	}
}

func (c *redisConnection) close() {
	c.cancel()
	c.done.Wait()
	if r := c.current.Load(); r != nil {
		r.close()
	}
}

// Do implements [weir.Store].
func (c *redisConnection) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if s := c.current.Load(); s != nil {
		return s.store.Do(ctx, r)
	}
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	return weir.Decision{}, *c.err.Load()
}

// DoAll implements [weir.Store].
func (c *redisConnection) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if s := c.current.Load(); s != nil {
		return s.store.DoAll(ctx, rs, ds)
	}
	for i := range rs {
		if err := rs[i].Validate(); err != nil {
			return false, err
		}
	}
	return false, *c.err.Load()
}
