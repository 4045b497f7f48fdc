package shop

import (
	"context"
	"slices"
	"sync"
)

// readyStreams lists the sales whose streams may have entries. A sale that is added while an
// order writer has it is listed again when the writer returns it, so two writers never read one
// stream at once.
type readyStreams struct {
	mu     sync.Mutex
	listed []*liveSale             // in the order of add
	state  map[*liveSale]readiness // of sales that are listed or taken
	wake   chan struct{}
}

type readiness int

const (
	listed readiness = 1 + iota
	taken
	takenAgain // taken, and added since
)

func newReadyStreams() *readyStreams {
	return &readyStreams{state: map[*liveSale]readiness{}, wake: make(chan struct{}, 1)}
}

// add lists a sale.
func (r *readyStreams) add(l *liveSale) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch r.state[l] {
	case listed, takenAgain:
		return
	case taken:
		r.state[l] = takenAgain
		return
	}
	r.state[l] = listed
	r.listed = append(r.listed, l)
	signal(r.wake)
}

// take takes up to max sales, and waits for the first. It returns none when ctx ends.
func (r *readyStreams) take(ctx context.Context, max int) []*liveSale {
	for {
		r.mu.Lock()
		n := min(max, len(r.listed))
		ls := slices.Clone(r.listed[:n])
		r.listed = slices.Delete(r.listed, 0, n)
		for _, l := range ls {
			r.state[l] = taken
		}
		if len(r.listed) > 0 {
			signal(r.wake)
		}
		r.mu.Unlock()
		if n > 0 {
			return ls
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
	}
}

// giveBack returns a sale that was taken. With again it is listed.
func (r *readyStreams) giveBack(l *liveSale, again bool) {
	r.mu.Lock()
	again = again || r.state[l] == takenAgain
	delete(r.state, l)
	r.mu.Unlock()
	if again {
		r.add(l)
	}
}
