package backoff

import (
	"container/list"
	"sync"
	"time"
)

// Pauses records until when servers asked clients to send nothing, by key. It is safe for
// concurrent use once its fields are set.
type Pauses struct {
	MaxKeys  int           // the number of keys to record; beyond it the oldest is dropped
	MaxPause time.Duration // a longer pause is cut to this

	mu    sync.Mutex
	byKey map[string]*list.Element // guarded by mu, as order
	order list.List                // of *pause, the least recently set in front
}

type pause struct {
	key   string
	until time.Time
}

// Set records a pause of d from now for key. It never shortens a pause, since responses do
// not arrive in the order in which the server sent them.
func (p *Pauses) Set(key string, d time.Duration) {
	if d <= 0 {
		return
	}
	until := time.Now().Add(min(d, p.MaxPause))
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.byKey[key]; e != nil {
		if o := e.Value.(*pause); until.After(o.until) {
			o.until = until
		}
		p.order.MoveToBack(e)
		return
	}
	if p.order.Len() >= p.MaxKeys {
		p.remove(p.order.Front())
	}
	if p.byKey == nil {
		p.byKey = map[string]*list.Element{}
	}
	p.byKey[key] = p.order.PushBack(&pause{key, until})
}

// Left returns how long the pause of key still lasts, or 0.
func (p *Pauses) Left(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.byKey[key]
	if e == nil {
		return 0
	}
	left := time.Until(e.Value.(*pause).until)
	if left <= 0 {
		p.remove(e)
		return 0
	}
	return left
}

// remove requires mu.
func (p *Pauses) remove(e *list.Element) {
	delete(p.byKey, p.order.Remove(e).(*pause).key)
}
