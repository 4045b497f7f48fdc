package database

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/floodweir/weir/flashsale/sale"
)

// maxGroup bounds the functions of one transaction.
const maxGroup = 64

// groups combines the WriteKeyed transactions of SQLite, which has one writer: functions that wait
// while a transaction runs share the next one, and its sync of the disk.
type groups struct {
	mu      sync.Mutex
	running bool // a goroutine runs a group
	waiting []*write
}

// write is a function that waits for its transaction.
type write struct {
	ctx  context.Context
	f    func(*Tx) error
	err  error
	done chan struct{} // closed when err is set

	commit int64 // that has the changes of f
}

var errEnded = fmt.Errorf("%w: the transaction ended without a result", sale.ErrUnavailable)

// writeTogether runs f in a transaction, possibly with other functions, and returns when its
// commit is durable. The next transaction begins before. If ctx ends before f begins, f is not run.
func (db *DB) writeTogether(ctx context.Context, f func(*Tx) error) error {
	w := &write{ctx: ctx, f: f, err: errEnded, done: make(chan struct{})}
	g := &db.groups
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	first := !g.running
	g.running = true
	g.mu.Unlock()
	if first {
		db.runGroup()
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		g.mu.Lock()
		i := slices.Index(g.waiting, w)
		if i >= 0 {
			g.waiting = slices.Delete(g.waiting, i, i+1)
		}
		g.mu.Unlock()
		if i >= 0 {
			return fmt.Errorf("begin: %w", ctx.Err())
		}
		<-w.done // f uses the variables of the caller
	}
	if w.err != nil {
		return w.err
	}
	return db.wal.waitCommit(w.commit)
}

// runGroup runs the functions that wait in one transaction, and starts the next group.
func (db *DB) runGroup() {
	g := &db.groups
	g.mu.Lock()
	n := min(maxGroup, len(g.waiting))
	group := slices.Clone(g.waiting[:n])
	g.waiting = slices.Delete(g.waiting, 0, n)
	g.mu.Unlock()
	defer func() { // also if a function ends the goroutine
		g.mu.Lock()
		if g.running = len(g.waiting) > 0; g.running {
			go db.runGroup()
		}
		g.mu.Unlock()
		for _, w := range group {
			close(w.done)
		}
	}()
	db.writeGroup(group)
}

// writeGroup runs the functions of a group in one transaction. If one of them fails, each has a
// transaction of its own. After a failed commit none is run again: the content of the disk is
// unknown.
func (db *DB) writeGroup(group []*write) {
	var began []*write
	for _, w := range group {
		if err := w.ctx.Err(); err != nil {
			w.err = fmt.Errorf("begin: %w", err)
		} else {
			began = append(began, w)
		}
	}
	if len(began) == 0 {
		return
	}
	ctx, cancel := whileAny(began)
	defer cancel()
	var failed error
	commit, err := db.transaction(ctx, db.w, nil, func(x *Tx) error {
		for _, w := range began {
			if failed = w.f(x); failed != nil {
				return failed
			}
		}
		return nil
	})
	if failed != nil && len(began) > 1 {
		for i := range began {
			db.writeGroup(began[i : i+1])
		}
		return
	}
	for _, w := range began {
		w.commit, w.err = commit, err
	}
}

// whileAny returns a context that ends with the last of the contexts of a group.
func whileAny(group []*write) (context.Context, context.CancelFunc) {
	if len(group) == 1 {
		return group[0].ctx, func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var left atomic.Int64
	left.Store(int64(len(group)))
	stops := make([]func() bool, len(group))
	for i, w := range group {
		stops[i] = context.AfterFunc(w.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}
