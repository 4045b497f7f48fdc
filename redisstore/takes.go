package redisstore

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// Takes of token buckets have a script of their own, lua/takes.lua, which replies with the
// states before the call. From those, the decisions are computed here. Equal requests of several
// callers are one unit of the call, so that the cost of a hot key does not grow with its callers.

// takesScript is the name of lua/takes.lua in a call.
const takesScript = "takes"

// A unit is a group of requests that several ops have made.
type unit struct {
	from, to int // of its takings in the call
	ops      []*op
}

// A taking is a request of a unit.
type taking struct {
	known *known
	key   int // index in KEYS, from 1
	rule  int // index in ARGV of its rule
	n     int64
}

// encodeTakes returns calls of lua/takes.lua for ops, one for each slot; or nil if that cannot decide
// all of them.
func (s *Store) encodeTakes(ops []*op, clock int64) []*batchCall {
	for _, o := range ops {
		if !o.takes() {
			return nil
		}
	}
	calls := make([]*batchCall, 0, 1)
	var bySlot map[uint16]*batchCall
	if s.cluster && len(ops) > 1 {
		bySlot = make(map[uint16]*batchCall, len(ops))
	}
	for _, o := range ops {
		k := s.rules.of(o.rs[0].Limit)
		name, tag := s.stateName(o.rs[0].Key, k.text)
		var to *batchCall
		var slot uint16
		switch {
		case bySlot != nil:
			slot = slotOf(tag)
			to = bySlot[slot]
		case len(calls) > 0:
			to = calls[0]
		}
		if to == nil {
			to = &batchCall{call: s.newCall(each, clock, len(ops))}
			to.head = to.head[:modeAt]
			to.arg(takesScript)
			calls = append(calls, to)
			if bySlot != nil {
				bySlot[slot] = to
			}
		}
		if !to.take(o, k, name) {
			return nil
		}
	}
	return calls
}

// takes reports whether o has only Takes without further parts.
func (o *op) takes() bool {
	if o.general || o.reserves || o.whole || o.mode != each && o.mode != all {
		return false
	}
	for i := range o.rs {
		if r := &o.rs[i]; r.Verb != weir.Take || r.N <= 0 || len(r.From) > 0 {
			return false
		}
	}
	return true
}

// take adds an op, whose first request has the rule k and the state name. It returns false if
// lua/takes.lua cannot decide it.
func (c *batchCall) take(o *op, k *known, name string) bool {
	from := len(c.takings)
	for i := range o.rs {
		r := &o.rs[i]
		if i > 0 {
			k = c.store.rules.of(r.Limit)
			name, _ = c.store.stateName(r.Key, k.text)
		}
		if k.bucket == nil || k.reserves.Load() {
			return false
		}
		key, _ := c.key(name, false)
		for _, t := range c.takings[from:] {
			if t.key == key {
				return false
			}
		}
		c.takings = append(c.takings, taking{k, key, c.takeRule(k), min(r.N, algo.MaxInstant)})
	}
	c.ops = append(c.ops, o)
	if u := c.equal(from); u != nil {
		u.ops = append(u.ops, o)
		c.takings = c.takings[:from]
		return true
	}
	c.units = append(c.units, unit{from: from, to: len(c.takings), ops: []*op{o}})
	for _, t := range c.takings[from:] {
		c.named[t.key-1].unit = len(c.units)
	}
	return true
}

// takeRule returns the index in ARGV of a rule.
func (c *batchCall) takeRule(k *known) int {
	for _, r := range c.rules {
		if r.known == k {
			return r.arg
		}
	}
	at := c.arg(k.packed)
	c.arg(k.stored)
	c.rules = append(c.rules, ruleAt{k, at})
	return at
}

// equal returns the unit with the takings from an index on, if it is the last one of each of their
// keys; else nil. So each key has its requests in their order.
func (c *batchCall) equal(from int) *unit {
	last := c.named[c.takings[from].key-1].unit
	if last == 0 {
		return nil
	}
	u := &c.units[last-1]
	if u.to-u.from != len(c.takings)-from {
		return nil
	}
	for i, t := range c.takings[from:] {
		if t != c.takings[u.from+i] || c.named[t.key-1].unit != last {
			return nil
		}
	}
	return u
}

// batchCommand returns the call as a Command.
func (c *batchCall) batchCommand() Command {
	if c.units != nil && len(c.head) > 0 {
		c.packUnits()
	}
	return c.command(c.eval)
}

// packUnits completes the arguments of a call of lua/takes.lua.
func (c *batchCall) packUnits() {
	b := c.head
	for _, u := range c.units {
		b = binary.LittleEndian.AppendUint16(b, uint16(u.to-u.from))
		b = binary.LittleEndian.AppendUint16(b, uint16(len(u.ops)))
		for _, t := range c.takings[u.from:u.to] {
			b = binary.LittleEndian.AppendUint16(b, uint16(t.key))
			b = binary.LittleEndian.AppendUint16(b, uint16(t.rule))
			b = binary.LittleEndian.AppendUint64(b, uint64(t.n))
		}
	}
	c.head = b
}

// A pair is the TAT of a token bucket.
type pair struct{ us, rem int64 }

// decodeTakes computes the decisions of the ops from the reply of lua/takes.lua. It returns the ops that
// the script did not decide.
func (c *batchCall) decodeTakes(items []string) (undecided []*op, err error) {
	if len(items) != len(c.keys)+1 {
		return nil, fmt.Errorf("script: got %d states, want %d", len(items)-1, len(c.keys))
	}
	end := items[len(c.keys)]
	if len(end) < 16 || len(end)%2 != 0 {
		return nil, fmt.Errorf("script: got %.60q, want 16 bytes and 2 for each undecided unit", end)
	}
	clock := int64(binary.LittleEndian.Uint64([]byte(end[:8])))
	want := int64(binary.LittleEndian.Uint64([]byte(end[8:16])))
	end = end[16:]
	states := make([]pair, len(c.keys))
	read := make([]bool, len(c.keys))
	admitted := int64(0)
	for i := range c.units {
		u := &c.units[i]
		if len(end) > 0 && int(binary.LittleEndian.Uint16([]byte(end[:2]))) == i {
			end = end[2:]
			for _, o := range u.ops {
				o.general = true
			}
			undecided = append(undecided, u.ops...)
			continue
		}
		takings := c.takings[u.from:u.to]
		for _, t := range takings {
			if at := t.key - 1; !read[at] {
				if states[at], err = parsePair(items[at]); err != nil {
					return nil, err
				}
				read[at] = true
			}
		}
		for _, o := range u.ops {
			if o.decide(takings, states, clock) {
				admitted++
			}
		}
	}
	if admitted != want || len(end) > 0 {
		return nil, fmt.Errorf("script: admitted %d, and %d computed from its states", want, admitted)
	}
	return undecided, nil
}

// decide decides the requests of o at clock, and changes the states if all are admitted.
func (o *op) decide(takings []taking, states []pair, clock int64) bool {
	o.ok = true
	var few [4]pair
	after := few[:0]
	for i, t := range takings {
		s := states[t.key-1]
		us, rem, r := t.known.bucket.Step(s.us, s.rem, algo.Ask{Op: algo.Take, Now: clock, N: t.n})
		after = append(after, pair{us, rem})
		o.ok = o.ok && r.OK
		if o.codes != nil {
			o.codes[i] = codeDenied
			if r.OK {
				o.codes[i] = codeOK
			}
		}
		o.ds[i] = o.rs[i].Limit.Spec().Decision(r, clock)
	}
	if o.ok {
		for i, t := range takings {
			states[t.key-1] = after[i]
		}
	}
	return o.ok
}

// parsePair parses the state of a token bucket, [µs,units,last] or [µs,units,last,"rule"].
func parsePair(text string) (p pair, err error) {
	if text == "" {
		return p, nil
	}
	us, rest, _ := strings.Cut(strings.TrimPrefix(text, "["), ",")
	rem, _, ok := strings.Cut(rest, ",")
	p.us, err = strconv.ParseInt(us, 10, 64)
	if err == nil {
		p.rem, err = strconv.ParseInt(rem, 10, 64)
	}
	if err != nil || !ok {
		return p, fmt.Errorf("script: got the state %.60q, want that of a token bucket", text)
	}
	return p, nil
}
