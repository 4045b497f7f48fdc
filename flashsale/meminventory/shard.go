package meminventory

import (
	"context"
	"fmt"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

// shard is the goroutine of a sale and its inbox. The goroutine alone uses the fields from state
// on.
type shard struct {
	e     *Inventory
	sale  string
	inbox chan *command
	ended chan struct{} // closed when the goroutine has ended

	state    *state
	streams  map[int64]*stream // by epoch; earlier ones only while they have entries
	pending  *journalBatch     // reserved, and not being appended to the journal yet
	inFlight *journalBatch     // being appended
	appended chan error        // the result for inFlight
	batches  int64
	end      bool
}

// journalBatch holds reservations that are appended to the journal together, and the commands
// that wait for it.
type journalBatch struct {
	n            int64 // ascending in the order of appending
	state        *state
	reservations []*reservation
	waiting      []*command
}

const inboxSize = 1024

func newShard(e *Inventory, id string) *shard {
	return &shard{
		e: e, sale: id, inbox: make(chan *command, inboxSize), ended: make(chan struct{}),
		streams: make(map[int64]*stream), appended: make(chan error, 1),
	}
}

// run executes commands until the sale is deleted or the Inventory stops.
func (l *shard) run() {
	defer close(l.ended)
	for !l.end {
		select {
		case c := <-l.inbox:
			l.handle(c)
			l.drainInbox()
		case err := <-l.appended:
			l.finish(err)
		case <-l.e.ctx.Done():
			l.awaitJournal(errStopped)
			return
		}
		l.flush()
	}
	l.e.remove(l)
}

// drainInbox handles the queued commands, so that one append covers all of them.
func (l *shard) drainInbox() {
	for range inboxSize {
		select {
		case c := <-l.inbox:
			l.handle(c)
		default:
			return
		}
		if l.end {
			return
		}
	}
}

// handle executes a command, and completes it unless it waits for the journal.
func (l *shard) handle(c *command) {
	if f := l.execute(c); f != nil {
		f.waiting = append(f.waiting, c)
		return
	}
	c.done <- struct{}{}
}

// execute executes a command. If its result includes a reservation that is not in the journal
// yet, execute returns the batch to wait for.
func (l *shard) execute(c *command) *journalBatch {
	switch c.op {
	case opOpen:
		c.err = l.open(c.initial)
		l.end = l.empty()
	case opClose:
		if l.state != nil && l.state.epoch == c.epoch {
			l.close(errStale(l.sale, c.epoch))
		}
	case opRestore, opNext, opHasStream, opAck, opDelete:
		l.executeStream(c)
	default:
		s := l.state
		if s == nil || s.epoch != c.epoch || s.closed {
			c.err = errStale(l.sale, c.epoch)
			return nil
		}
		return l.executeOpen(s, c)
	}
	return nil
}

// empty reports whether the shard has nothing to keep. Then the goroutine ends.
func (l *shard) empty() bool { return l.state == nil && len(l.streams) == 0 }

// executeOpen executes a command that needs an open state.
func (l *shard) executeOpen(s *state, c *command) *journalBatch {
	now := l.e.now()
	switch c.op {
	case opPause:
		s.paused = c.flag
	case opStock:
		c.err = s.setStock(c.n)
	case opTerms:
		s.setTerms(c.terms)
	case opPaid:
		s.paid = max(s.paid, c.n)
	case opJoin:
		var h *reservation
		if c.status, h = s.join(&c.join, now); h != nil {
			l.journal(s, h)
		}
		return s.users[c.join.User].lastBatch()
	case opPoll:
		var h *reservation
		if c.status, h = s.poll(&c.poll, now); h != nil {
			l.journal(s, h)
		}
		return s.users[c.poll.User].lastBatch()
	case opStatus:
		s.park(now, parkPerCall)
		p := s.users[c.user]
		c.status = s.status(p, now)
		return p.lastBatch()
	case opReserve:
		var h *reservation
		c.result, h = s.reserve(&c.reserve, now)
		if h != nil && !c.result.Repeated {
			l.journal(s, h)
		}
		if h != nil {
			return h.batch
		}
	case opTransfer:
		var isNew bool
		var h *reservation
		c.returned, isNew, h = s.transfer(c.transfer)
		if isNew {
			l.journal(s, h)
		}
		if h != nil {
			return h.batch
		}
	case opReturn:
		var h *reservation
		c.returned, h = s.returnUnits(c.user, c.id, c.flag)
		if h != nil {
			return h.batch
		}
	case opCounts:
		c.counts = s.counts(now)
	}
	return nil
}

// journal adds a new reservation to the pending batch.
func (l *shard) journal(s *state, h *reservation) {
	if l.pending == nil {
		l.batches++
		l.pending = &journalBatch{n: l.batches, state: s}
	}
	h.batch = l.pending
	l.pending.reservations = append(l.pending.reservations, h)
}

// lastBatch returns the last batch with a reservation that the user's status includes.
func (p *userState) lastBatch() *journalBatch {
	if p == nil {
		return nil
	}
	var f *journalBatch
	if p.last != nil {
		f = p.last.batch
	}
	for _, h := range p.reserved {
		if h.batch != nil && (f == nil || h.batch.n > f.n) {
			f = h.batch
		}
	}
	return f
}

// flush appends the pending batch to the journal, unless one is in flight.
func (l *shard) flush() {
	if l.inFlight != nil || l.pending == nil {
		return
	}
	f := l.pending
	l.inFlight, l.pending = f, nil
	rs := make([]sale.Reservation, len(f.reservations))
	for i, h := range f.reservations {
		rs[i] = h.Reservation
	}
	go func() {
		l.e.cfg.Crash.At(crashpoint.ReserveDecided)
		err := l.e.cfg.Journal.Append(context.Background(), l.sale, f.state.epoch, rs)
		l.e.cfg.Crash.At(crashpoint.ReserveJournaled)
		l.appended <- err
	}()
}

// finish applies the result of an append. After an error the content of the disk is unknown, so
// finish closes the epoch and marks its stream for reading from the journal.
func (l *shard) finish(err error) {
	f := l.inFlight
	l.inFlight = nil
	for _, h := range f.reservations {
		h.batch = nil
		if err == nil {
			f.state.stream.add(sale.Entry{ID: h.ID, Reservation: h.Reservation})
		}
	}
	if err != nil {
		err = fmt.Errorf("meminventory: journal of %s at epoch %d: %w: %w", l.sale, f.state.epoch, sale.ErrUnavailable, err)
		f.state.stream.reload = true
	}
	f.complete(err)
	if err != nil {
		l.close(errStale(l.sale, f.state.epoch))
	}
	f.state.stream.notify()
}

// complete completes the commands that wait for f.
func (f *journalBatch) complete(err error) {
	for _, c := range f.waiting {
		if err != nil {
			c.status, c.result, c.returned, c.err = sale.TicketStatus{}, sale.ReserveResult{}, false, err
		}
		c.done <- struct{}{}
	}
	f.waiting = nil
}

// awaitJournal waits for the append in flight, and fails the pending batch with why.
func (l *shard) awaitJournal(why error) {
	if l.inFlight != nil {
		l.finish(<-l.appended)
	}
	if l.pending != nil {
		l.pending.complete(why)
		l.pending = nil
	}
}

// close closes the state, keeps its stream and releases the rest.
func (l *shard) close(why error) {
	s := l.state
	if s.closed {
		return
	}
	s.closed = true
	l.awaitJournal(why)
	s.users, s.reservations, s.tickets, s.keys, s.queue, s.tokens = nil, nil, nil, nil, queue{}, tokens{}
	s.stream.notify()
}

// earlierEntries returns how many entries are in the streams of earlier epochs or are being
// appended to them; at least one if that is unknown.
func (l *shard) earlierEntries(epoch int64) int {
	n := 0
	for at, st := range l.streams {
		if at < epoch {
			n += len(st.entries)
			if st.reload {
				n++
			}
		}
	}
	for _, f := range []*journalBatch{l.inFlight, l.pending} {
		if f != nil {
			n += len(f.reservations)
		}
	}
	return n
}

// open builds the state of a valid InitialState.
func (l *shard) open(o *sale.InitialState) error {
	id, epoch := l.sale, o.Sale.Epoch
	if s := l.state; s != nil && (s.epoch > epoch || s.epoch == epoch && s.closed) {
		return errStale(id, epoch)
	} else if s != nil && s.epoch == epoch {
		return nil
	}
	if n := l.earlierEntries(epoch); n > 0 {
		return fmt.Errorf("meminventory: open: sale %s at epoch %d: got %d entries in earlier streams, want none: %w", id, epoch, n, sale.ErrConflict)
	}
	left, err := l.e.cfg.Journal.Pending(l.e.ctx, id, epoch)
	if err != nil {
		return unavailable("reading the journal", id, err)
	}
	known := make(map[string]bool, len(o.Reserved)+len(o.Pending))
	for _, rs := range [][]sale.Reservation{o.Reserved, o.Pending} {
		for _, r := range rs {
			known[r.ID] = true
		}
	}
	for _, e := range left {
		if !known[e.ID] {
			// An earlier process had this epoch open and acknowledged a reservation that this
			// InitialState does not have.
			return errStale(id, epoch)
		}
	}
	if len(o.Pending) > 0 {
		if err := l.e.cfg.Journal.Append(l.e.ctx, id, epoch, o.Pending); err != nil {
			return unavailable("writing the journal", id, err)
		}
	}
	if l.state != nil {
		l.close(errStale(id, l.state.epoch))
	}
	for at, st := range l.streams {
		if len(st.entries) == 0 && !st.reload {
			delete(l.streams, at)
		}
		st.notify()
	}
	st := newStream()
	for _, e := range left {
		st.add(e)
	}
	for _, r := range o.Pending {
		st.add(sale.Entry{ID: r.ID, Reservation: r})
	}
	l.streams[epoch] = st
	l.state = newState(o, l.e.cfg.MaxTickets, st)
	return nil
}
