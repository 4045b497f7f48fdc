package ledger

import (
	"context"
	"fmt"
	"sync"

	"github.com/floodweir/weir/flashsale/sale"
)

// A gather makes one call of those that come while others are under way. Nobody waits for
// company: who finds room begins at once.
type gather[A, B any] struct {
	atOnce int              // calls under way at most
	most   int              // asked for by one call
	keys   func(A) []string // two that share a key are not asked for by the same call

	// do answers every one. It runs in a goroutine of one of those who ask, but not for its
	// context.
	do func([]*asked[A, B])

	mu      sync.Mutex
	calls   int // under way; nobody waits while there are less than atOnce
	waiting []*asked[A, B]
}

// An asked is a question and, when it is told, its answer.
type asked[A, B any] struct {
	a     A
	b     B
	err   error
	told  chan struct{}
	leads []*asked[A, B] // when it is told: nothing is answered yet, it has to make this call
}

func (g *gather[A, B]) ask(ctx context.Context, a A) (B, error) {
	q := &asked[A, B]{a: a, told: make(chan struct{}, 1)}
	if err := ctx.Err(); err != nil {
		return q.b, err
	}
	g.mu.Lock()
	if g.calls < g.atOnce {
		g.calls++
		g.mu.Unlock()
		g.call([]*asked[A, B]{q})
		return q.b, q.err
	}
	g.waiting = append(g.waiting, q)
	g.mu.Unlock()
	select {
	case <-q.told:
	case <-ctx.Done():
		if !g.leads(q) {
			return *new(B), ctx.Err()
		}
		<-q.told // at once
	}
	if q.leads != nil {
		g.call(q.leads)
	}
	return q.b, q.err
}

// leads takes back what is asked for in vain, and reports whether it has to make a call all
// the same, for others.
func (g *gather[A, B]) leads(q *asked[A, B]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, w := range g.waiting {
		if w == q {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return false
		}
	}
	return q.leads != nil
}

// call asks for all of a batch, and has the next one asked for.
func (g *gather[A, B]) call(batch []*asked[A, B]) {
	defer func() {
		g.mu.Lock()
		if next := g.cut(); next != nil {
			next[0].leads = next
			next[0].told <- struct{}{}
		} else {
			g.calls--
		}
		g.mu.Unlock()
		for _, q := range batch[1:] {
			q.told <- struct{}{}
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
