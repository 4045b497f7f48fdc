package run

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
)

// How long to wait between two tries to connect.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 2 * time.Second
)

// A late store is a Redis that may come later than the program. Until it does no
// request is decided; from then on the client reconnects by itself.
type late struct {
	url, name string
	log       *slog.Logger
	redis     atomic.Pointer[redis]
	cause     atomic.Pointer[error] // why there is none
	cancel    context.CancelFunc
	done      sync.WaitGroup
}

// openLate tries to connect once and, if that fails, goes on trying until close.
func openLate(ctx context.Context, url, name string, log *slog.Logger) (*late, error) {
	l := &late{url: url, name: name, log: log}
	err := l.try(ctx)
	if errors.Is(err, weir.ErrInvalid) {
		return nil, err
	}
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err != nil {
		log.Error("the store does not answer: every request goes by the on_store_error of its policy until it does", "store", name, "error", err)
		l.done.Go(func() { l.retry(ctx) })
	}
	return l, nil
}

func (l *late) try(ctx context.Context) error {
	r, err := connect(l.url)
	if err != nil {
		l.cause.Store(&err)
		return err
	}
	r.describe(ctx, l.name, l.log)
	l.redis.Store(r)
	return nil
}

func (l *late) retry(ctx context.Context) {
	wait := firstRetry
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if l.try(ctx) == nil {
			return
		}
		wait = min(2*wait, lastRetry)
		timer.Reset(wait)
	}
}

func (l *late) close() {
	l.cancel()
	l.done.Wait()
	if r := l.redis.Load(); r != nil {
		r.close()
	}
}

// Do implements [weir.Store].
func (l *late) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if s := l.redis.Load(); s != nil {
		return s.store.Do(ctx, r)
	}
	if err := r.Validate(); err != nil {
		return weir.Decision{}, err
	}
	return weir.Decision{}, *l.cause.Load()
}

// DoAll implements [weir.Store].
func (l *late) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (bool, error) {
	if s := l.redis.Load(); s != nil {
		return s.store.DoAll(ctx, rs, ds)
	}
	for i := range rs {
		if err := rs[i].Validate(); err != nil {
			return false, err
		}
	}
	return false, *l.cause.Load()
}
