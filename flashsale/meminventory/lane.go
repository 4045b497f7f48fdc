package meminventory

import (
	"context"
	"fmt"

	"github.com/floodweir/weir/flashsale/crashpoint"
	"github.com/floodweir/weir/flashsale/sale"
)

// A lane is the goroutine of a sale and its mailbox. Everything below mail belongs to the
// goroutine.
type lane struct {
	e    *Inventory
	sale string
	mail chan *command
	gone chan struct{} // closed when the goroutine has ended

	state   *state
	streams map[int64]*stream // by epoch; of earlier ones only what has entries
	next    *flight           // what is reserved and not on its way to the journal
	flying  *flight           // what is on its way
	landed  chan error        // the answer to flying
	flights int64
	end     bool
}

// A flight is what goes to the journal together, and who is told when it is there.
type flight struct {
	n     int64 // they leave in this order
	state *state
	holds []*hold
	wait  []*command
}

const mailbox = 1024

func newLane(e *Inventory, id string) *lane {
	return &lane{
		e: e, sale: id, mail: make(chan *command, mailbox), gone: make(chan struct{}),
		streams: make(map[int64]*stream), landed: make(chan error, 1),
	}
}

// run serves the mailbox until the sale is dropped or the Inventory stops.
func (l *lane) run() {
	defer close(l.gone)
	for !l.end {
		select {
		case c := <-l.mail:
			l.handle(c)
			l.rest()
		case err := <-l.landed:
			l.land(err)
		case <-l.e.ctx.Done():
			l.settle(errStopped)
			return
		}
		l.launch()
	}
	l.e.forget(l)
}

// rest handles what waits in the mailbox, so that all of it goes to the journal together.
func (l *lane) rest() {
	for range mailbox {
		select {
		case c := <-l.mail:
			l.handle(c)
		default:
			return
		}
		if l.end {
			return
		}
	}
}

// handle answers a command, unless the answer has to wait for the journal.
func (l *lane) handle(c *command) {
	if f := l.do(c); f != nil {
		f.wait = append(f.wait, c)
		return
	}
	c.done <- struct{}{}
}

// do does a command. If its answer tells of a reservation that is on its way to the journal,
// it returns the flight that the answer has to wait for.
func (l *lane) do(c *command) *flight {
	switch c.op {
	case opOpen:
		c.err = l.open(c.opening)
		l.end = l.empty()
	case opClose:
		if l.state != nil && l.state.epoch == c.epoch {
			l.close(errStale(l.sale, c.epoch))
		}
	case opAdopt, opNext, opHas, opDone, opDrop:
		l.read(c)
	default:
		s := l.state
		if s == nil || s.epoch != c.epoch || s.closed {
			c.err = errStale(l.sale, c.epoch)
			return nil
		}
		return l.ask(s, c)
	}
	return nil
}

// empty says whether there is nothing to keep: then the goroutine ends.
func (l *lane) empty() bool { return l.state == nil && len(l.streams) == 0 }

// ask does what needs a state that is open.
func (l *lane) ask(s *state, c *command) *flight {
	now := l.e.now()
	switch c.op {
	case opPause:
		s.paused = c.flag
	case opStock:
		c.err = s.setStock(c.n)
	case opPaid:
		s.paid = max(s.paid, c.n)
	case opJoin:
		c.standing = s.join(&c.join, now)
		return s.people[c.join.User].flight()
	case opLook:
		p := s.people[c.user]
		c.standing = s.standing(p, now)
		return p.flight()
	case opAdmit:
		c.number = s.admit(c.id, int(c.n), micros(c.until), now)
	case opReserve:
		var h *hold
		c.outcome, h = s.reserve(&c.ask, now)
		if h != nil && !c.outcome.Repeated {
			if l.next == nil {
				l.flights++
				l.next = &flight{n: l.flights, state: s}
			}
			h.flight = l.next
			l.next.holds = append(l.next.holds, h)
		}
		if h != nil {
			return h.flight
		}
	case opReturn:
		var h *hold
		c.yes, h = s.giveBack(c.user, c.id)
		if h != nil {
			return h.flight
		}
	case opCount:
		c.counts = s.count(now)
	}
	return nil
}

// flight returns the last flight that has reservations which p's standing tells of.
func (p *person) flight() *flight {
	if p == nil {
		return nil
	}
	var f *flight
	if p.last != nil {
		f = p.last.flight
	}
	for _, h := range p.held {
		if h.flight != nil && (f == nil || h.flight.n > f.n) {
			f = h.flight
		}
	}
	return f
}

// launch gives what is reserved to the journal, if nothing is on its way.
func (l *lane) launch() {
	if l.flying != nil || l.next == nil {
		return
	}
	f := l.next
	l.flying, l.next = f, nil
	rs := make([]sale.Reservation, len(f.holds))
	for i, h := range f.holds {
		rs[i] = h.Reservation
	}
	go func() {
		l.e.cfg.Crash.At(crashpoint.ReserveDecided)
		err := l.e.cfg.Journal.Append(context.Background(), l.sale, f.state.epoch, rs)
		l.e.cfg.Crash.At(crashpoint.ReserveJournaled)
		l.landed <- err
	}()
}

// land takes the journal's answer. Without one nobody knows what is on the disk, so the
// epoch ends there, and its stream is read from the journal again.
func (l *lane) land(err error) {
	f := l.flying
	l.flying = nil
	for _, h := range f.holds {
		h.flight = nil
		if err == nil {
			f.state.stream.add(sale.Entry{ID: h.ID, Reservation: h.Reservation})
		}
	}
	if err != nil {
		err = fmt.Errorf("meminventory: journal of %s at epoch %d: %w: %w", l.sale, f.state.epoch, sale.ErrUnavailable, err)
		f.state.stream.reload = true
	}
	f.answer(err)
	if err != nil {
		l.close(errStale(l.sale, f.state.epoch))
	}
	f.state.stream.rouse()
}

// answer tells who waits for f.
func (f *flight) answer(err error) {
	for _, c := range f.wait {
		if err != nil {
			c.standing, c.outcome, c.yes, c.err = sale.TicketStatus{}, sale.ReserveResult{}, false, err
		}
		c.done <- struct{}{}
	}
	f.wait = nil
}

// settle waits for the journal, and refuses with why what was not given to it yet.
func (l *lane) settle(why error) {
	if l.flying != nil {
		l.land(<-l.landed)
	}
	if l.next != nil {
		l.next.answer(why)
		l.next = nil
	}
}

// close ends the state but for its stream. Its memory goes.
func (l *lane) close(why error) {
	s := l.state
	if s.closed {
		return
	}
	s.closed = true
	l.settle(why)
	s.people, s.holds, s.tickets, s.keys, s.line, s.tokens = nil, nil, nil, nil, line{}, tokens{}
	s.stream.rouse()
}

// unread is how many entries are in the streams of epochs before this one, or on their way
// there; at least one if that is not known.
func (l *lane) unread(epoch int64) int {
	n := 0
	for at, st := range l.streams {
		if at < epoch {
			n += len(st.entries)
			if st.reload {
				n++
			}
		}
	}
	for _, f := range []*flight{l.flying, l.next} {
		if f != nil {
			n += len(f.holds)
		}
	}
	return n
}

// open builds the state of an InitialState that was checked.
func (l *lane) open(o *sale.InitialState) error {
	id, epoch := l.sale, o.Sale.Epoch
	if s := l.state; s != nil && (s.epoch > epoch || s.epoch == epoch && s.closed) {
		return errStale(id, epoch)
	} else if s != nil && s.epoch == epoch {
		return nil
	}
	if n := l.unread(epoch); n > 0 {
		return fmt.Errorf("meminventory: %s at epoch %d: %d entries are in the streams of earlier epochs, want none: %w", id, epoch, n, sale.ErrConflict)
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
			// A process before this one had this epoch, and acknowledged what this
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
		st.rouse()
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
