package meminventory

import (
	"fmt"

	"github.com/floodweir/weir/flashsale/sale"
)

// executeStream executes a command about a stream, whose state may be closed.
func (l *shard) executeStream(c *command) {
	if c.op == opRestore {
		l.restore(c)
		return
	}
	st := l.streams[c.epoch]
	if st == nil {
		c.err = errStale(l.sale, c.epoch)
		return
	}
	switch c.op {
	case opNext:
		l.deliver(st, c)
	case opAck:
		st.ack(c.ids)
		l.removeDrained(st, c.epoch)
	case opDelete:
		l.remove(st, c)
	}
}

// deliver executes opNext.
func (l *shard) deliver(st *stream, c *command) {
	if st.reload {
		es, err := l.e.cfg.Journal.Pending(l.e.ctx, l.sale, c.epoch)
		if err != nil {
			c.err = unavailable("reading the journal", l.sale, err)
			return
		}
		for _, e := range es {
			st.add(e)
		}
		st.reload = false
	}
	if l.removeDrained(st, c.epoch) {
		c.err = errStale(l.sale, c.epoch)
		return
	}
	c.out = st.next(int(c.n), l.e.now(), l.e.cfg.Redeliver.Microseconds())
	c.wake = st.wake
}

// restore adds the entries that an earlier process left, if the epoch is not open.
func (l *shard) restore(c *command) {
	if l.isOpen(c.epoch) {
		return
	}
	st := l.streams[c.epoch]
	if st == nil {
		st = newStream()
		l.streams[c.epoch] = st
	}
	for _, e := range c.entries {
		st.add(e)
	}
}

// isOpen reports whether the state at epoch is open.
func (l *shard) isOpen(epoch int64) bool {
	return l.state != nil && l.state.epoch == epoch && !l.state.closed
}

// removeDrained removes a stream that has no entries and gets none, and wakes its waiting
// workers. It reports whether it did.
func (l *shard) removeDrained(st *stream, epoch int64) bool {
	if l.isOpen(epoch) || st.reload || len(st.entries) > 0 {
		return false
	}
	if l.state != nil && l.state.epoch == epoch {
		st.notify()
		return true // the state records that the epoch is closed
	}
	delete(l.streams, epoch)
	st.notify()
	l.end = l.empty()
	return true
}

// remove executes opDelete.
func (l *shard) remove(st *stream, c *command) {
	n := len(st.entries)
	if l.isOpen(c.epoch) {
		for _, f := range []*journalBatch{l.inFlight, l.pending} {
			if f != nil {
				n += len(f.reservations)
			}
		}
	}
	if n > 0 || st.reload {
		c.err = fmt.Errorf("meminventory: delete: sale %s at epoch %d: got %d unacknowledged entries, want none: %w", l.sale, c.epoch, n, sale.ErrConflict)
		return
	}
	delete(l.streams, c.epoch)
	if l.state != nil && l.state.epoch == c.epoch {
		l.state = nil
	}
	st.notify()
	l.end = l.empty()
}
