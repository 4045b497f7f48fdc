package run

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/httpapi"
)

const (
	probeTimeout = time.Second
	probeEvery   = time.Second // however often /readyz is asked
)

// readiness is what /readyz says.
type readiness struct {
	store    weir.Store
	name     string        // of the store, without a password
	policies func() string // what is in force, in a few words
	without  func() bool   // whether the program can do its work without the store
	open     atomic.Bool   // every door is
	draining atomic.Bool
	refused  [2]atomic.Pointer[error] // by origin: why the last reload changed nothing; nil if it did

	mu   sync.Mutex
	last httpapi.Check
	at   time.Time
}

var probeLimit = weir.MustLimit("1/s")

// checks implements the Ready of an httpapi.Config.
func (r *readiness) checks(ctx context.Context) []httpapi.Check {
	policies := httpapi.Check{Name: "policies", OK: true, Detail: r.policies()}
	for i := range r.refused {
		err := r.refused[i].Load()
		if err == nil {
			continue
		}
		first, more, _ := strings.Cut((*err).Error(), "\n")
		if more != "" {
			first += " (and more)"
		}
		policies.Detail += "; the last reload changed nothing: " + first
		policies.OK, policies.Warn = false, true
	}
	checks := []httpapi.Check{policies, r.probe(ctx)}
	switch {
	case r.draining.Load():
		checks = append(checks, httpapi.Check{Name: "accepting", Detail: "the program is about to stop"})
	case !r.open.Load():
		checks = append(checks, httpapi.Check{Name: "accepting", Detail: "the doors are being opened"})
	}
	return checks
}

// An origin is where a reload found what is new. What is wrong with one is not mended by
// the other.
type origin int

const (
	ofFiles origin = iota
	ofStore
)

// reloaded remembers what became of the last reload.
func (r *readiness) reloaded(from origin, err error) {
	if err == nil {
		r.refused[from].Store(nil)
		return
	}
	r.refused[from].Store(&err)
}

// probe asks the store something that changes nothing. One answer serves all who
// ask within a second.
func (r *readiness) probe(ctx context.Context) httpapi.Check {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.at) >= probeEvery {
		// A caller that leaves says nothing about the store.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), probeTimeout)
		defer cancel()
		r.last = httpapi.Check{Name: "store", OK: true, Detail: r.name}
		if _, err := r.store.Do(ctx, weir.Request{Verb: weir.Peek, Key: "weir:ready", Limit: probeLimit}); err != nil {
			r.last.OK, r.last.Detail = false, r.name+": "+err.Error()
		}
		r.at = now
	}
	c := r.last
	c.Warn = !c.OK && r.without()
	return c
}
