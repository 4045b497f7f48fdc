package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/floodweir/weir"
)

// Callers share round trips without a timer: as long as fewer than InFlight are
// under way, a caller makes its own; otherwise it queues, and whichever round trip
// ends first takes the queue along on the next.

// An op is what one caller asks: one request, or several that belong together.
type op struct {
	mode  mode
	rs    []weir.Request
	ds    []weir.Decision
	codes []int64 // of the answers, for acrossSlots
	holds bool    // declare the hold keys
	ok    bool    // all were OK
	err   error

	one  [1]weir.Request // what rs and ds are for one request
	oneD [1]weir.Decision

	since time.Time     // it queues
	done  chan struct{} // closed when it is decided; nil if it never queued
}

// ask has ops decided, in one round trip. If ctx ends first it returns an error,
// and the ops must not be read: they may still be on their way. Otherwise each
// has its own.
func (s *Store) ask(ctx context.Context, ops ...*op) error {
	if err := ctx.Err(); err != nil {
		return unavailable(err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("redisstore: %w", weir.ErrClosed)
	}
	if s.flying < s.config.InFlight {
		s.flying++
		s.flights.Add(1)
		s.mu.Unlock()
		s.fly(ctx, ops)
		if next := s.land(); next != nil {
			go s.carryOn(next)
		}
		return nil
	}
	since := time.Now()
	for _, o := range ops {
		o.since, o.done = since, make(chan struct{})
	}
	s.queue = append(s.queue, ops...)
	s.mu.Unlock()
	for _, o := range ops {
		select {
		case <-o.done:
		case <-ctx.Done():
			return unavailable(ctx.Err())
		}
	}
	return nil
}

// carryOn makes round trips until nobody queues.
func (s *Store) carryOn(next []*op) {
	for next != nil {
		s.fly(context.Background(), next)
		for _, o := range next {
			close(o.done)
		}
		next = s.land()
	}
}

var errQueued = errors.New("no round trip became free in time; nothing was sent")

// land ends a round trip: it takes from the queue what goes on the next, or
// ends the flight if nobody queues. Who has waited for a whole Timeout is told.
func (s *Store) land() []*op {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next []*op
	if len(s.queue) > 0 {
		late := time.Now().Add(-s.config.Timeout)
		taken, requests := 0, 0
		for _, o := range s.queue {
			if o.since.Before(late) {
				o.err = unavailable(errQueued)
				close(o.done)
				taken++
				continue
			}
			if requests += len(o.rs); requests > s.config.MaxBatch && len(next) > 0 {
				break
			}
			next = append(next, o)
			taken++
		}
		rest := copy(s.queue, s.queue[taken:])
		clear(s.queue[rest:])
		s.queue = s.queue[:rest]
	}
	if next == nil {
		s.flying--
		s.flights.Done()
	}
	return next
}

// A cargo is a call and the ops whose requests it carries, in order.
type cargo struct {
	*call
	ops  []*op
	eval bool // bring the script along
}

// fly makes one round trip for all ops.
func (s *Store) fly(ctx context.Context, ops []*op) {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	s.send(ctx, ops)
	var again []*op
	for _, o := range ops {
		if o.err == errHolds {
			o.err, o.holds = nil, true
			again = append(again, o)
		}
	}
	if again != nil {
		s.send(ctx, again)
	}
	for _, o := range ops {
		if o.err != nil {
			o.err = unavailable(o.err)
		}
	}
}

// errHolds marks an op that the script did not decide because it needs the hold
// keys. From then on they are declared.
var errHolds = errors.New("the hold keys have to be declared")

// send loads the ops into calls, sends these together, and reads the answers.
func (s *Store) send(ctx context.Context, ops []*op) {
	clock, err := s.config.now()
	if err != nil {
		for _, o := range ops {
			o.err = err
		}
		return
	}
	for left := s.load(ops, clock); left != nil; {
		cmds := make([]Command, len(left))
		replies := make([]Reply, len(left))
		for i, c := range left {
			cmds[i] = c.command(c.eval)
		}
		s.conn.Do(ctx, cmds, replies)
		var again []*cargo
		pause := false
		for i, c := range left {
			switch err := replies[i].Err; {
			case refused(err, "NOSCRIPT") && !c.eval:
				c.eval = true
				again = append(again, c)
			case refused(err, "TRYAGAIN"):
				pause = true
				again = append(again, c)
			default:
				c.unload(replies[i])
			}
		}
		if left = again; pause && !wait(ctx, migration) {
			for _, c := range left {
				c.unload(Reply{Err: errMigrating})
			}
			return
		}
	}
}

// migration is how long Redis is left alone with the keys of a slot that it is
// moving from node to node, some of which have arrived and some not.
const migration = 5 * time.Millisecond

var errMigrating = errors.New("the keys are moving to another node; nothing was decided")

// refused reports whether Redis said that it did not run a command, for the
// given reason. After these errors alone a call is sent again.
func refused(err error, reason string) bool {
	var e ServerError
	return errors.As(err, &e) && strings.HasPrefix(string(e), reason)
}

// wait waits, and reports whether it did for all of d.
func wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// load puts single requests into one call, or into one for each slot on a
// cluster, and every batch into a call of its own.
func (s *Store) load(ops []*op, clock int64) []*cargo {
	cargos := make([]*cargo, 0, 1)
	var bySlot map[uint16]*cargo
	if s.cluster && len(ops) > 1 {
		bySlot = make(map[uint16]*cargo, len(ops))
	}
	var shared *cargo
	for _, o := range ops {
		var to *cargo
		var slot uint16
		k := s.rules.of(o.rs[0].Limit)
		name, tag := s.stateName(o.rs[0].Key, k.text)
		switch {
		case o.mode != each:
		case bySlot != nil:
			slot = slotOf(tag)
			to = bySlot[slot]
		case !s.cluster:
			to = shared
		}
		if to == nil {
			size := len(o.rs)
			if o.mode == each && !s.cluster {
				size = len(ops)
			}
			to = &cargo{call: s.newCall(o.mode, clock, size)}
			cargos = append(cargos, to)
			switch {
			case o.mode != each:
			case bySlot != nil:
				bySlot[slot] = to
			case !s.cluster:
				shared = to
			}
		}
		to.ops = append(to.ops, o)
		to.add(&o.rs[0], k, name, o.holds)
		for i := 1; i < len(o.rs); i++ {
			k := s.rules.of(o.rs[i].Limit)
			name, _ := s.stateName(o.rs[i].Key, k.text)
			to.add(&o.rs[i], k, name, o.holds)
		}
	}
	return cargos
}

// unload gives the ops of a cargo their answers.
func (c *cargo) unload(reply Reply) {
	n := 0
	for _, o := range c.ops {
		n += len(o.rs)
	}
	err := reply.Err
	if err == nil && len(reply.Items) != n {
		err = fmt.Errorf("the script answered %d requests of %d", len(reply.Items), n)
	}
	items := reply.Items
	for _, o := range c.ops {
		if err != nil {
			o.err = err
			continue
		}
		o.read(c.store, items[:len(o.rs)])
		items = items[len(o.rs):]
	}
}

// read takes the answers to the requests of o.
func (o *op) read(s *Store, items []string) {
	o.ok = true
	for i := range o.rs {
		a, err := parseAnswer(items[i])
		switch {
		case err != nil:
			o.err = fmt.Errorf("%s of key %.40q: %w", o.rs[i].Verb, o.rs[i].Key, err)
			return
		case a.code == codeUnknown:
			o.err = fmt.Errorf("%s %.40q: %w", o.rs[i].Verb, o.rs[i].ID, weir.ErrNoReservation)
			return
		case a.code == codeHolds:
			s.rules.of(o.rs[i].Limit).holds.Store(true)
			o.err = errHolds
			continue
		}
		o.ds[i] = decision(&o.rs[i], a)
		o.ok = o.ok && a.result.OK
		if o.codes != nil {
			o.codes[i] = a.code
		}
	}
}
