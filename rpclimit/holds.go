package rpclimit

import (
	"context"
	"sync"
	"time"

	"github.com/floodweir/weir/internal/waitqueue"
)

const (
	// maxHold is how long a server is obeyed that says to stay away for longer.
	maxHold = 24 * time.Hour
	// maxHolds is how many are remembered at a time.
	maxHolds = 4096
)

// holds say until when servers are not to be asked.
type holds struct {
	mu    sync.Mutex
	until map[string]time.Time // by scope; guarded by mu
}

// set notes that scope is to be left alone for d, or for longer if that was said before.
func (h *holds) set(scope string, d time.Duration) {
	now := time.Now()
	until := now.Add(min(d, maxHold))
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.until == nil {
		h.until = map[string]time.Time{}
	}
	if !until.After(h.until[scope]) {
		return
	}
	if _, known := h.until[scope]; !known && len(h.until) >= maxHolds {
		h.makeRoom(now)
	}
	h.until[scope] = until
}

// makeRoom forgets what is over, or else what is over first. It requires mu.
func (h *holds) makeRoom(now time.Time) {
	first, firstUntil := "", time.Time{}
	for scope, until := range h.until {
		if !until.After(now) {
			delete(h.until, scope)
			continue
		}
		if firstUntil.IsZero() || until.Before(firstUntil) {
			first, firstUntil = scope, until
		}
	}
	if len(h.until) >= maxHolds {
		delete(h.until, first)
	}
}

// left is how long scope is to be left alone.
func (h *holds) left(scope string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	until, held := h.until[scope]
	if !held {
		return 0
	}
	left := time.Until(until)
	if left <= 0 {
		delete(h.until, scope)
	}
	return left
}

// wait waits until scope may be asked. It returns how the call ends, at once, if that is
// after until; nil if it does not.
func (h *holds) wait(ctx context.Context, scope string, until time.Time) *End {
	for {
		left := h.left(scope)
		switch {
		case left <= 0:
			return nil
		case time.Now().Add(left).After(until):
			return unsent("the server", left)
		case waitqueue.Sleep(ctx, left) != nil:
			e := gone(ctx)
			return &e
		}
	}
}
