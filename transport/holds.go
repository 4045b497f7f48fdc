package transport

import (
	"container/list"
	"sync"
	"time"
)

// holds remember until when servers asked to be left alone.
type holds struct {
	most    int
	longest time.Duration

	mu    sync.Mutex
	byKey map[string]*list.Element // guarded by mu, as order
	order list.List                // of *hold, the one told first in front
}

type hold struct {
	key   string
	until time.Time
}

// put holds key back for d from now. It never shortens what it was told before, since
// answers do not come in the order in which the server gave them.
func (h *holds) put(key string, d time.Duration) {
	if d <= 0 {
		return
	}
	until := time.Now().Add(min(d, h.longest))
	h.mu.Lock()
	defer h.mu.Unlock()
	if e := h.byKey[key]; e != nil {
		if o := e.Value.(*hold); until.After(o.until) {
			o.until = until
		}
		h.order.MoveToBack(e)
		return
	}
	if h.order.Len() >= h.most {
		h.forget(h.order.Front())
	}
	h.byKey[key] = h.order.PushBack(&hold{key, until})
}

// left is for how long key is still held back.
func (h *holds) left(key string) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.byKey[key]
	if e == nil {
		return 0
	}
	left := time.Until(e.Value.(*hold).until)
	if left <= 0 {
		h.forget(e)
		return 0
	}
	return left
}

// forget requires mu.
func (h *holds) forget(e *list.Element) {
	delete(h.byKey, h.order.Remove(e).(*hold).key)
}
