package meminventory

import (
	"fmt"

	"github.com/floodweir/weir/flashsale/sale"
)

// read does what is about a stream, whether its state is open or closed.
func (l *lane) read(c *command) {
	if c.op == opAdopt {
		l.adopt(c)
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
	case opDone:
		st.done(c.ids)
		l.tidy(st, c.epoch)
	case opDrop:
		l.drop(st, c)
	}
}

// deliver answers opNext.
func (l *lane) deliver(st *stream, c *command) {
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
	if l.tidy(st, c.epoch) {
		c.err = errStale(l.sale, c.epoch)
		return
	}
	c.out = st.next(int(c.n), l.e.now(), l.e.cfg.Redeliver.Microseconds())
	c.wake = st.wake
}

// adopt takes over what an earlier process left of the stream of an epoch that is not open.
func (l *lane) adopt(c *command) {
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

// isOpen says whether the state that writes to the stream of epoch is open.
func (l *lane) isOpen(epoch int64) bool {
	return l.state != nil && l.state.epoch == epoch && !l.state.closed
}

// tidy says whether a stream is read to its end for ever; then it forgets it, and wakes who
// waits for more of it.
func (l *lane) tidy(st *stream, epoch int64) bool {
	if l.isOpen(epoch) || st.reload || len(st.entries) > 0 {
		return false
	}
	if l.state != nil && l.state.epoch == epoch {
		st.rouse()
		return true // its state remembers that this epoch is over
	}
	delete(l.streams, epoch)
	st.rouse()
	l.end = l.empty()
	return true
}

// drop answers opDrop.
func (l *lane) drop(st *stream, c *command) {
	n := len(st.entries)
	if l.isOpen(c.epoch) {
		for _, f := range []*flight{l.flying, l.next} {
			if f != nil {
				n += len(f.holds)
			}
		}
	}
	if n > 0 || st.reload {
		c.err = fmt.Errorf("meminventory: the stream of %s at epoch %d has %d entries that are not done: %w", l.sale, c.epoch, n, sale.ErrConflict)
		return
	}
	delete(l.streams, c.epoch)
	if l.state != nil && l.state.epoch == c.epoch {
		l.state = nil
	}
	st.rouse()
	l.end = l.empty()
}
