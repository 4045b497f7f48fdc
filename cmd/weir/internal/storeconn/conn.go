package storeconn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/redisstore"
)

const (
	// StartWait is the time in which the server has to respond at the start.
	StartWait = 10 * time.Second

	// CheckInterval is the time between two checks of a connection.
	CheckInterval = 2 * time.Second

	// The pause between two attempts to connect doubles from firstRetry to lastRetry.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second

	// retireAfter is the time after Config.Timeout in which the calls to a connection that was
	// replaced end.
	retireAfter = 5 * time.Second
)

// A Config is the configuration of a Conn. URL is required.
type Config struct {
	URL string

	// Rest opens the store of the rest of regions, which has keys of its own. It may be in the
	// server of the store of a region.
	Rest bool

	// Name is the URL without secrets, for the log.
	Name string

	// StartDegraded starts without the server, and with a problem that is a setup.Error.
	StartDegraded bool

	// Timeout bounds a round trip, as redisstore.Config.Timeout.
	Timeout time.Duration

	// Observe, if not nil, is called when Problem changes.
	Observe func(problem error)

	Log *slog.Logger
}

// A Conn is a weir.Store in Redis or PostgreSQL. Until it is connected, every request returns the
// error of the last attempt. Afterwards the client connects again by itself.
type Conn struct {
	config Config
	dial   func(context.Context, address) (*link, error)

	current atomic.Pointer[link]  // nil: not connected yet
	err     atomic.Pointer[error] // of the last attempt to connect
	problem atomic.Pointer[error] // nil: none

	mu      sync.Mutex
	address address  // of current or, without one, of the next attempt
	next    *address // has other secrets than address; nil: none

	wake   chan struct{} // has an element after Reload
	failed string        // the last error of replace in the log; used by maintain only
	cancel context.CancelFunc
	done   sync.WaitGroup
}

var _ weir.Store = (*Conn)(nil)

// Open connects to the server and checks it. An error wraps weir.ErrInvalid for a bad URL, a
// [setup.Error] if the server cannot keep limits, and weir.ErrUnavailable if it did not respond
// within StartWait. Close ends the background work.
func Open(ctx context.Context, c Config) (*Conn, error) {
	return open(ctx, c, func(ctx context.Context, a address) (*link, error) {
		return dial(ctx, a, c.Rest, c.Timeout)
	})
}

func open(ctx context.Context, c Config, dial func(context.Context, address) (*link, error)) (*Conn, error) {
	a, err := parse(c.URL)
	if err != nil {
		return nil, err
	}
	k := &Conn{config: c, dial: dial, address: a, wake: make(chan struct{}, 1)}
	if err := k.start(ctx); err != nil {
		return nil, err
	}
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.done.Go(func() { k.maintain(ctx) })
	return k, nil
}

// start connects. It returns an error if the program is to exit.
func (k *Conn) start(ctx context.Context) error {
	const overrule = "; or start without a usable store with --start-degraded"
	begin, pause := time.Now(), firstRetry
	for {
		err := k.connect(ctx)
		var wrong *setup.Error
		switch {
		case err == nil:
			return nil
		case k.config.StartDegraded:
			k.config.Log.Error("store not usable: requests are decided by the on_store_error of their policy", "store", k.config.Name, "error", err)
			return nil
		case errors.As(err, &wrong):
			k.drop()
			return fmt.Errorf("store %s: %w%s", k.config.Name, err, overrule)
		case time.Since(begin)+pause > StartWait:
			k.drop()
			return fmt.Errorf("store %s: no usable reply for %v: %w: start the server, or correct --store%s", k.config.Name, StartWait, err, overrule)
		}
		k.drop()
		k.config.Log.Warn("store unavailable: waiting", "store", k.config.Name, "waited", time.Since(begin).Round(firstRetry).String(), "at_most", StartWait.String(), "error", err)
		if waitqueue.Sleep(ctx, pause) != nil {
			return ctx.Err()
		}
		pause = min(2*pause, lastRetry)
	}
}

// drop closes the connection of a failed attempt.
func (k *Conn) drop() {
	if l := k.current.Swap(nil); l != nil {
		l.close()
	}
}

// connect connects with k.address and checks the server. After an error of the check the
// connection is in use nevertheless.
func (k *Conn) connect(ctx context.Context) error {
	k.mu.Lock()
	a := k.address
	k.mu.Unlock()
	l, err := k.dial(ctx, a)
	if err == nil {
		var info serverInfo
		if info, err = l.check(ctx); err == nil {
			k.connected(info)
		}
		k.current.Store(l)
	}
	if err != nil {
		k.err.Store(&err)
	}
	k.report(err)
	return err
}

func (k *Conn) connected(info serverInfo) {
	k.config.Log.Info("store connected", "store", k.config.Name, "server", info.name, "version", info.version)
	for _, w := range info.warnings {
		k.config.Log.Warn(w, "store", k.config.Name)
	}
}

// maintain connects if start did not, checks the connection, and replaces it after Reload.
func (k *Conn) maintain(ctx context.Context) {
	pause := firstRetry
	timer := time.NewTimer(k.step(ctx, &pause))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.wake:
			pause = firstRetry
		case <-timer.C:
		}
		timer.Reset(k.step(ctx, &pause))
	}
}

// step does what is due, and returns the time until the next step. Pause is the pause
// between attempts to connect.
func (k *Conn) step(ctx context.Context, pause *time.Duration) time.Duration {
	k.mu.Lock()
	next := k.next
	k.mu.Unlock()
	switch l := k.current.Load(); {
	case l == nil:
		if next != nil {
			k.adopt(*next)
		}
		if k.connect(ctx) == nil {
			return CheckInterval
		}
	case next != nil:
		if k.replace(ctx, l, *next) {
			return CheckInterval
		}
	default:
		_, err := l.check(ctx)
		k.report(err)
		*pause = firstRetry
		return CheckInterval
	}
	wait := *pause
	*pause = min(2*wait, lastRetry)
	return wait
}

// adopt makes a the address of the connection.
func (k *Conn) adopt(a address) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.address = a
	if k.next != nil && k.next.files == a.files {
		k.next = nil
	}
}

// replace connects with other secrets. If that fails, the old connection stays in use.
func (k *Conn) replace(ctx context.Context, old *link, a address) bool {
	l, err := k.dial(ctx, a)
	if err == nil {
		if _, err = l.check(ctx); err != nil {
			l.close()
		}
	}
	if ctx.Err() != nil {
		return false
	}
	if err != nil {
		if k.failed != err.Error() {
			k.failed = err.Error()
			k.config.Log.Error("store: new password or certificate not usable: the old one stays in use", "store", k.config.Name, "error", err)
		}
		return false
	}
	k.failed = ""
	k.adopt(a)
	k.current.Store(l)
	k.report(nil)
	k.config.Log.Info("store: connected with the new password or certificate", "store", k.config.Name)
	k.done.Go(func() {
		waitqueue.Sleep(ctx, k.config.Timeout+retireAfter) // decisions in progress use it until they end
		old.close()
	})
	return true
}

// Reload reads the files again that the URL names: passwords, certificates. If they have
// changed, it requests a connection with them, which is repeated until it succeeds.
func (k *Conn) Reload() {
	a, err := parse(k.config.URL)
	if err != nil {
		k.config.Log.Error("store: password or certificate not reloaded: the old one stays in use", "store", k.config.Name, "error", err)
		return
	}
	k.mu.Lock()
	if k.next = &a; k.address.files == a.files {
		k.next = nil
	}
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// report records the result of a check. An error other than a setup.Error keeps the problem:
// a server that does not respond may still have it.
func (k *Conn) report(err error) {
	var wrong *setup.Error
	if err != nil && !errors.As(err, &wrong) {
		return
	}
	before := k.problem.Load()
	switch {
	case wrong == nil && before == nil, wrong != nil && before != nil && (*before).Error() == wrong.Error():
		return
	case wrong == nil:
		k.problem.Store(nil)
		k.config.Log.Info("store: configuration problem solved", "store", k.config.Name)
		err = nil
	default:
		err = wrong
		k.problem.Store(&err)
		if k.cancel != nil { // the start reports it itself
			k.config.Log.Error("store: configuration problem", "store", k.config.Name, "error", err)
		}
	}
	if k.config.Observe != nil {
		k.config.Observe(err)
	}
}

// Problem returns the setup.Error of the last check; nil for none.
func (k *Conn) Problem() error {
	if err := k.problem.Load(); err != nil {
		return *err
	}
	return nil
}

// Connected reports whether there is a connection. It may be interrupted.
func (k *Conn) Connected() bool { return k.current.Load() != nil }

// Redis reports whether the store is a Redis.
func (k *Conn) Redis() bool { return setup.Redis(k.config.URL) }

// Conn returns the connection to Redis itself, or nil while there is none.
func (k *Conn) Conn() redisstore.Conn {
	if l := k.current.Load(); l != nil {
		return l.conn
	}
	return nil
}

// Close ends the background work and closes the connection.
func (k *Conn) Close() {
	k.cancel()
	k.done.Wait()
	k.drop()
}

// Do implements [weir.Store].
func (k *Conn) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	for {
		l := k.current.Load()
		if l == nil {
			if err := r.Validate(); err != nil {
				return weir.Decision{}, err
			}
			return weir.Decision{}, *k.err.Load()
		}
		d, err := l.store.Do(ctx, r)
		if !k.replaced(l, err) {
			return d, err
		}
	}
}

// DoAll implements [weir.Store].
func (k *Conn) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	for {
		l := k.current.Load()
		if l == nil {
			if err := bounds.Check("storeconn", weir.ErrInvalid, rs, len(ds)); err != nil {
				return false, err
			}
			return false, *k.err.Load()
		}
		ok, err := l.store.DoAll(ctx, rs, ds)
		if !k.replaced(l, err) {
			return ok, err
		}
	}
}

// replaced reports whether l was closed before it sent a call, because another connection
// replaced it. The call is then repeated.
func (k *Conn) replaced(l *link, err error) bool {
	return err != nil && errors.Is(err, weir.ErrClosed) && k.current.Load() != l
}
