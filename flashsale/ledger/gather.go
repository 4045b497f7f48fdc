package ledger

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/floodweir/weir/flashsale/sale"
)

// A gather makes one call of those that come while others are under way. Nobody waits for
// company: who finds room begins at once.
type gather[A, B any] struct {
	atOnce int              // calls under way at most
	most   int              // asked for by one call
	keys   func(A) []string // two that share a key are not asked for by the same call

	// do answers every one. It runs in a goroutine of its own: who asks waits for no longer
	// than it wants to, and what it asked for may then be done all the same.
	do func([]*asked[A, B])

	mu      sync.Mutex
	calls   int // under way; nobody waits while there are less than atOnce
	waiting []*asked[A, B]
}

// An asked is a question and, when it is told, its answer.
type asked[A, B any] struct {
	a    A
	b    B
	err  error
	told chan struct{} // closed then
}

func (g *gather[A, B]) ask(ctx context.Context, a A) (B, error) {
	q := &asked[A, B]{a: a, told: make(chan struct{})}
	if err := ctx.Err(); err != nil {
		return q.b, err
	}
	g.mu.Lock()
	if g.calls < g.atOnce {
		g.calls++
		go g.call([]*asked[A, B]{q})
	} else {
		g.waiting = append(g.waiting, q)
	}
	g.mu.Unlock()
	select {
	case <-q.told:
		return q.b, q.err
	case <-ctx.Done():
		g.giveUp(q)
		return *new(B), ctx.Err()
	}
}

// giveUp takes back what is asked for in vain, if nobody is asking for it yet.
func (g *gather[A, B]) giveUp(q *asked[A, B]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(w *asked[A, B]) bool { return w == q })
}

// call asks for all of a batch, and has the next one asked for.
func (g *gather[A, B]) call(batch []*asked[A, B]) {
	defer func() { // also if do ends the goroutine
		g.mu.Lock()
		if next := g.cut(); next != nil {
			go g.call(next)
		} else {
			g.calls--
		}
		g.mu.Unlock()
		for _, q := range batch {
			close(q.told)
		}
	}()
	for _, q := range batch {
		q.err = fmt.Errorf("%w: whoever asked for it has ended", sale.ErrUnavailable) // unless it does not
	}
	g.do(batch)
}

// cut takes the next batch out of those who wait.
func (g *gather[A, B]) cut() []*asked[A, B] {
	if g.keys == nil {
		n := min(g.most, len(g.waiting))
		batch := g.waiting[:n:n]
		g.waiting = g.waiting[n:]
		if n == 0 {
			g.waiting = nil
			return nil
		}
		return batch
	}
	var batch, rest []*asked[A, B]
	seen := map[string]bool{}
	for i, q := range g.waiting {
		if len(batch) == g.most {
			rest = append(rest, g.waiting[i:]...)
			break
		}
		free := true
		for _, k := range g.keys(q.a) {
			free = free && !seen[k]
		}
		if !free {
			rest = append(rest, q)
			continue
		}
		for _, k := range g.keys(q.a) {
			seen[k] = true
		}
		batch = append(batch, q)
	}
	g.waiting = rest
	return batch
}
