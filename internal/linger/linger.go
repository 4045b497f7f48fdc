// Package linger lets handlers run on after their client has disconnected.
package linger

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Time bounds the time in which a handler runs on.
	Time = 30 * time.Second
	// Max bounds the handlers that run on at the same time.
	Max = 100
)

// Drains counts the handlers that run on. It is safe for concurrent use.
type Drains struct{ n atomic.Int64 }

// A Life is the context of a handler, which may last after its client has disconnected.
type Life struct {
	Cancel context.CancelCauseFunc // ends the context
	stop   func() bool             // waiting for the client to disconnect
	drains *Drains
	lasts  bool        // with drain
	gone   atomic.Bool // the client has disconnected, and the handler runs on

	mu     sync.Mutex
	timer  *time.Timer
	closed bool
}

// New returns a context that ends with ctx or, with drain, up to Time after the client has
// disconnected. It must be closed.
func New(ctx context.Context, drain bool, drains *Drains) (context.Context, *Life) {
	l := &Life{drains: drains, stop: func() bool { return true }}
	if !drain {
		ctx, l.Cancel = context.WithCancelCause(ctx)
		return ctx, l
	}
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	l.Cancel, l.lasts = cancel, true
	l.stop = context.AfterFunc(ctx, func() {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || !l.drain() {
			cancel(context.Cause(ctx))
		}
	})
	return lasting, l
}

// drain lets the handler run on without its client. It reports false if too many do.
func (l *Life) drain() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.timer != nil || l.closed:
		return true
	case l.drains.n.Add(1) > Max:
		l.drains.n.Add(-1)
		return false
	}
	l.gone.Store(true)
	l.timer = time.AfterFunc(Time, func() { l.Cancel(context.Canceled) })
	return true
}

// Write writes to a client, or nowhere after it has disconnected.
func (l *Life) Write(w http.ResponseWriter, b []byte) (int, error) {
	if l.gone.Load() {
		return len(b), nil
	}
	n, err := w.Write(b)
	if err != nil && l.lasts && l.drain() { // before the context of the client ends
		return len(b), nil
	}
	return n, err
}

// Gone reports whether the client has disconnected and the handler runs on.
func (l *Life) Gone() bool { return l.gone.Load() }

// Close ends the context.
func (l *Life) Close() {
	l.stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed = true; l.timer != nil {
		l.timer.Stop()
		l.drains.n.Add(-1)
	}
	l.Cancel(nil)
}
