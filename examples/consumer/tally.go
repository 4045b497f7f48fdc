package main

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// A tally counts events per second since it was made.
type tally struct {
	began time.Time

	mu     sync.Mutex
	counts map[int]int
	last   int
}

func newTally() *tally { return &tally{began: time.Now(), counts: map[int]int{}} }

func (t *tally) add() {
	t.mu.Lock()
	defer t.mu.Unlock()
	second := int(time.Since(t.began) / time.Second)
	t.counts[second]++
	t.last = max(t.last, second)
}

// print writes a line for each second.
func (t *tally) print(out io.Writer) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	for second := range t.last + 1 {
		if _, err := fmt.Fprintf(out, "second %d: %d sent\n", second+1, t.counts[second]); err != nil {
			return err
		}
	}
	return nil
}
