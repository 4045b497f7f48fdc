package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/batching"
	"github.com/floodweir/weir/internal/rediskey"
	"github.com/floodweir/weir/internal/waitqueue"
)

// An op has the requests of one call of Do or DoAll and their decisions.
type op struct {
	batching.Wait

	mode     mode
	rs       []weir.Request
	ds       []weir.Decision
	codes    []int64 // of the replies, for acrossSlots
	reserves bool    // declare the keys of reservations
	whole    bool    // send all params of rules
	general  bool    // lua/takes.lua does not decide it
	ok       bool    // all are OK

	one  [1]weir.Request // backs rs and ds of a single request
	oneD [1]weir.Decision
}

// Requests implements batching.Op.
func (o *op) Requests() int { return len(o.rs) }

// A batchCall is one run of the script and the ops whose requests it has.
type batchCall struct {
	*call
	ops  []*op
	eval bool // send the script itself

	// The requests of a call of lua/takes.lua:
	units     []unit
	takings   []taking
	ruleTexts []byte
}

// errReserves and errParams mark an op that the script did not decide because the call has to
// declare the keys of reservations, or have all params of rules. It does from then on.
var (
	errReserves = errors.New("the keys of reservations have to be declared")
	errParams   = errors.New("the params of all tenants have to be sent")
)

// migration is the pause before a call is repeated whose keys Redis is moving from one node
// to another.
const migration = 5 * time.Millisecond

var errMigrating = errors.New("keys are moving to another node; nothing was decided")

// send decides ops with one round trip. It repeats a call only if Redis reports that it did
// not run it.
func (s *Store) send(ops []*op) {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.Timeout)
	defer cancel()
	clock, err := s.config.now()
	if err != nil {
		for _, o := range ops {
			o.Err = unavailable(err)
		}
		return
	}
	calls, others := s.encodeTakes(ops, clock)
	if others != nil {
		calls = append(calls, s.encode(others, clock)...)
	}
	for calls != nil {
		cmds := make([]Command, len(calls))
		replies := make([]Reply, len(calls))
		for i, c := range calls {
			cmds[i] = c.batchCommand()
		}
		sent(calls)
		s.conn.Do(ctx, cmds, replies)
		replied(calls, replies)
		var again []*batchCall
		var undeclared []*op
		pause := false
		for i, c := range calls {
			switch err := replies[i].Err; {
			case refused(err, "NOSCRIPT") && !c.eval:
				c.eval = true
				again = append(again, c)
			case refused(err, "TRYAGAIN"):
				pause = true
				again = append(again, c)
			default:
				undeclared = append(undeclared, c.decode(replies[i])...)
			}
		}
		if pause && waitqueue.Sleep(ctx, migration) != nil {
			for _, c := range again {
				c.decode(Reply{Err: errMigrating})
			}
			again = nil
		}
		if undeclared != nil {
			again = append(again, s.encode(undeclared, clock)...)
		}
		calls = again
	}
	for _, o := range ops {
		if o.Err != nil {
			o.Err = unavailable(o.Err)
		}
	}
}

// sent reports to the callers that their requests are sent.
func sent(calls []*batchCall) {
	for _, c := range calls {
		for _, o := range c.ops {
			o.Progress.Sent()
		}
	}
}

// replied reports the replies to the callers. An error reply is none: a server that is
// loading or out of memory replies, but cannot decide.
func replied(calls []*batchCall, replies []Reply) {
	for i, c := range calls {
		if err := replies[i].Err; err != nil && !refused(err, "NOSCRIPT") && !refused(err, "TRYAGAIN") {
			continue
		}
		for _, o := range c.ops {
			o.Progress.Replied()
		}
	}
}

// encode puts single requests into one call, and ops of DoAll into another. On a cluster it
// puts single requests into one call for each slot, and every op of DoAll into a call of its own.
func (s *Store) encode(ops []*op, clock int64) []*batchCall {
	calls := make([]*batchCall, 0, 1)
	var bySlot map[uint16]*batchCall
	if s.cluster && len(ops) > 1 {
		bySlot = make(map[uint16]*batchCall, len(ops))
	}
	var shared, grouped *batchCall
	whole := slices.ContainsFunc(ops, func(o *op) bool { return o.whole }) // calls share the params of a rule
	for _, o := range ops {
		var to *batchCall
		var slot uint16
		k := s.rules.of(o.rs[0].Limit)
		name, tag := s.stateName(o.rs[0].Key, k.text)
		switch {
		case o.mode == all && !s.cluster:
			to = grouped
		case o.mode != each:
		case bySlot != nil:
			slot = rediskey.Slot(tag)
			to = bySlot[slot]
		case !s.cluster:
			to = shared
		}
		if to == nil {
			size := len(o.rs)
			if o.mode == each && !s.cluster {
				size = len(ops)
			}
			to = &batchCall{call: s.newCall(o.mode, clock, size)}
			calls = append(calls, to)
			switch {
			case o.mode == all && !s.cluster:
				grouped = to
			case o.mode != each:
			case bySlot != nil:
				bySlot[slot] = to
			case !s.cluster:
				shared = to
			}
		}
		to.ops, to.whole = append(to.ops, o), whole
		if to == grouped {
			to.sizes = append(to.sizes, len(o.rs))
		}
		to.add(&o.rs[0], k, name, o.reserves)
		for i := 1; i < len(o.rs); i++ {
			k := s.rules.of(o.rs[i].Limit)
			name, _ := s.stateName(o.rs[i].Key, k.text)
			to.add(&o.rs[i], k, name, o.reserves)
		}
	}
	return calls
}

// decode gives each op its part of the reply. It returns the ops that the script did not
// decide, which declare the keys of reservations from now on.
func (c *batchCall) decode(reply Reply) (undeclared []*op) {
	n := 0
	for _, o := range c.ops {
		n += len(o.rs)
	}
	err := reply.Err
	if refused(err, "MOVED") || refused(err, "ASK") {
		err = redirected(err, c.store.cluster)
	}
	if err == nil && c.units != nil {
		undecided, wrong := c.decodeTakes(reply.Items)
		if wrong == nil {
			return undecided
		}
		err = wrong
	}
	if err == nil && len(reply.Items) != n {
		err = fmt.Errorf("script: got %d decisions, want %d", len(reply.Items), n)
	}
	items := reply.Items
	for _, o := range c.ops {
		if err != nil {
			o.Err = err
			continue
		}
		o.read(c.store, items[:len(o.rs)])
		items = items[len(o.rs):]
		if o.Err == errReserves && !o.reserves || o.Err == errParams && !o.whole {
			o.reserves, o.whole = o.reserves || o.Err == errReserves, o.whole || o.Err == errParams
			o.Err = nil
			undeclared = append(undeclared, o)
		}
	}
	return undeclared
}

// read parses the reply to the requests of o.
func (o *op) read(s *Store, items []string) {
	o.ok = true
	for i := range o.rs {
		a, err := parseAnswer(items[i])
		switch {
		case err != nil:
			o.Err = fmt.Errorf("%s of key %.40q: %w", o.rs[i].Verb, o.rs[i].Key, err)
			return
		case a.code == codeUnknown:
			o.Err = fmt.Errorf("%s %.40q: %w", o.rs[i].Verb, o.rs[i].ID, weir.ErrNoReservation)
			return
		case a.code == codeReserves:
			s.rules.of(o.rs[i].Limit).reserves.Store(true)
			o.Err = errReserves
			continue
		case a.code == codeParams:
			o.Err = errParams
			continue
		}
		o.ds[i] = decision(&o.rs[i], a)
		o.ok = o.ok && a.result.OK
		if o.codes != nil {
			o.codes[i] = a.code
		}
	}
}
