package redisstore

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/rediskey"
)

// Takes of token buckets and fixed windows have a script of their own, lua/takes.lua, which replies with the
// states before the call. From those, the decisions are computed here. Equal requests of several
// callers are one unit of the call, so that the cost of a hot key does not grow with its callers.

// The sizes of a call of lua/takes.lua, in bytes.
const (
	takesHead  = 20 // clock, slack and the index of the rules
	unitHead   = 4
	takingSize = 14
)

// A unit is a group of requests that several ops have made.
type unit struct {
	from, to int // of its takings in the call
	ops      []*op
}

// A taking is a request of a unit.
type taking struct {
	known *known
	key   int // index in KEYS, from 1
	rule  int // index of its text from that of the first rule
	n     int64
}

// encodeTakes returns calls of lua/takes.lua, one for each slot, and the ops that have another kind
// of request. Concurrent ops have no order.
func (s *Store) encodeTakes(ops []*op, clock int64) (calls []*batchCall, others []*op) {
	var bySlot map[uint16]*batchCall
	if s.cluster && len(ops) > 1 {
		bySlot = make(map[uint16]*batchCall, len(ops))
	}
	for i, o := range ops {
		if !s.takes(o) {
			others = append(others, o)
			continue
		}
		k := s.rules.of(o.rs[0].Limit)
		name, tag := s.stateName(o.rs[0].Key, k.text)
		var to *batchCall
		var slot uint16
		switch {
		case bySlot != nil:
			slot = rediskey.Slot(tag)
			to = bySlot[slot]
		case len(calls) > 0:
			to = calls[0]
		}
		created := to == nil
		if created {
			to = &batchCall{call: s.newCall(each, clock, len(ops)-i)}
			to.head = append(to.head[:modeAt], make([]byte, takesHead-modeAt)...)
		}
		if !to.take(o, k, name) {
			others = append(others, o)
		} else if created {
			calls = append(calls, to)
			if bySlot != nil {
				bySlot[slot] = to
			}
		}
	}
	return calls, others
}

// takes reports whether o has only Takes without further parts, of rules that lua/takes.lua decides.
func (s *Store) takes(o *op) bool {
	if o.general || o.reserves || o.whole || o.mode != each && o.mode != all {
		return false
	}
	for i := range o.rs {
		r := &o.rs[i]
		if r.Verb != weir.Take || r.N <= 0 || len(r.From) > 0 {
			return false
		}
		if k := s.rules.of(r.Limit); k.take == nil || k.reserves.Load() {
			return false
		}
	}
	return true
}

// take adds an op, whose first request has the rule k and the state name. It adds nothing and returns
// false if two requests of the op have one state. It does so, too, if the call has one of the states
// under another rule that is stored with it.
func (c *batchCall) take(o *op, k *known, name string) bool {
	from, names := len(c.takings), len(c.named)
	for i := range o.rs {
		r := &o.rs[i]
		if i > 0 {
			k = c.store.rules.of(r.Limit)
			name, _ = c.store.stateName(r.Key, k.text)
		}
		key, _ := c.key(name, false)
		n := &c.named[key-1]
		if n.op == o || n.op != nil && n.stored != k.stored {
			c.takings = c.takings[:from]
			c.dropKeys(names)
			return false
		}
		n.op, n.stored = o, k.stored
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
		n := &c.named[t.key-1]
		n.shared = n.unit > 0
		n.unit = len(c.units)
	}
	return true
}

// takeRule returns the index of a rule from the first.
func (c *batchCall) takeRule(k *known) int {
	for _, r := range c.rules {
		if r.known == k {
			return r.arg
		}
	}
	at := len(c.ruleTexts)
	c.ruleTexts = append(c.ruleTexts, k.takes...)
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

// packUnits completes the argument of a call of lua/takes.lua.
func (c *batchCall) packUnits() {
	b := c.head
	rules := uint32(takesHead + unitHead*len(c.units) + takingSize*len(c.takings) + 1)
	binary.LittleEndian.PutUint32(b[modeAt:], rules)
	for _, u := range c.units {
		size := u.to - u.from
		if size == 1 && !c.named[c.takings[u.from].key-1].shared {
			size = 0
		}
		b = binary.LittleEndian.AppendUint16(b, uint16(size))
		b = binary.LittleEndian.AppendUint16(b, uint16(len(u.ops)))
		for _, t := range c.takings[u.from:u.to] {
			b = binary.LittleEndian.AppendUint16(b, uint16(t.key))
			b = binary.LittleEndian.AppendUint32(b, rules+uint32(t.rule))
			b = binary.LittleEndian.AppendUint64(b, uint64(t.n))
		}
	}
	c.head = append(b, c.ruleTexts...)
}

// A pair is the state of a rule that lua/takes.lua decides.
type pair [2]int64

// takeBy returns the twin of a rule in lua/takes.lua, and the rule for that script, whose states end
// with the text stored; or nil. The windows of a calendar depend on the time.
func takeBy(rule algo.Rule, stored string) (func(pair, algo.Ask) (pair, algo.Result), []byte) {
	p := rule.Params(1)
	text := func(numbers ...int64) (b []byte) {
		for _, n := range numbers {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		if stored != "" {
			b = append(append(append(b, `,"`...), stored...), '"')
		}
		return append(b, "]\x00"...)
	}
	switch rule := rule.(type) {
	case *algo.TokenBucket:
		return func(s pair, a algo.Ask) (pair, algo.Result) {
			us, rem, r := rule.Step(s[0], s[1], a)
			return pair{us, rem}, r
		}, text(p[0], p[1], p[2], p[4], p[5])
	case *algo.FixedWindow:
		if rule.Periodic() {
			return func(s pair, a algo.Ask) (pair, algo.Result) {
				_, r := rule.Do(s[:], a)
				return s, r
			}, text(0, p[0], p[1], p[2], 0)
		}
	}
	return nil, nil
}

// decodeTakes computes the decisions of the ops from the reply of lua/takes.lua. It returns the ops that
// the script did not decide.
func (c *batchCall) decodeTakes(items []string) (undecided []*op, err error) {
	if len(items) != 1 || len(items[0]) < 18 {
		return nil, fmt.Errorf("script: got %.60q, want one text of 18 bytes and more", items)
	}
	head, rest := []byte(items[0][:18]), items[0][18:]
	clock, want := int64(binary.LittleEndian.Uint64(head)), int64(binary.LittleEndian.Uint64(head[8:]))
	if want == -1 {
		for i := range c.units {
			undecided = append(undecided, c.units[i].general()...)
		}
		return undecided, nil
	}
	wrong := 2 * int(binary.LittleEndian.Uint16(head[16:]))
	if len(rest) < wrong {
		return nil, fmt.Errorf("script: got %d bytes after the head, want %d and the states", len(rest), wrong)
	}
	end, rest := []byte(rest[:wrong]), rest[wrong:]
	states := make([]pair, len(c.keys))
	for i := range states {
		text, more, found := strings.Cut(rest, "\n")
		if found != (i < len(states)-1) {
			return nil, fmt.Errorf("script: got the states %.60q, want %d", items[0][18+wrong:], len(states))
		}
		if states[i], err = parsePair(text); err != nil {
			return nil, err
		}
		rest = more
	}
	admitted := int64(0)
	for i := range c.units {
		u := &c.units[i]
		if len(end) > 0 && int(binary.LittleEndian.Uint16(end)) == i {
			end = end[2:]
			undecided = append(undecided, u.general()...)
			continue
		}
		for _, o := range u.ops {
			if o.decide(c.takings[u.from:u.to], states, clock) {
				admitted++
			}
		}
	}
	if admitted != want || len(end) > 0 {
		return nil, fmt.Errorf("script: admitted %d, and %d computed from its states", want, admitted)
	}
	return undecided, nil
}

// general returns the ops of a unit that the script did not decide: the general path does.
func (u *unit) general() []*op {
	for _, o := range u.ops {
		o.general = true
	}
	return u.ops
}

// decide decides the requests of o at clock, and changes the states if all are admitted.
func (o *op) decide(takings []taking, states []pair, clock int64) bool {
	o.ok = true
	var few [4]pair
	after := few[:0]
	for i, t := range takings {
		s := states[t.key-1]
		next, r := t.known.take(s, algo.Ask{Op: algo.Take, Now: clock, N: t.n})
		after = append(after, next)
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

// parsePair parses a state of two words, [word,word,last] or [word,word,last,"rule"].
func parsePair(text string) (p pair, err error) {
	if text == "" {
		return p, nil
	}
	first, rest, _ := strings.Cut(strings.TrimPrefix(text, "["), ",")
	second, _, ok := strings.Cut(rest, ",")
	p[0], err = strconv.ParseInt(first, 10, 64)
	if err == nil {
		p[1], err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil || !ok {
		return p, fmt.Errorf("script: got the state %.60q, want two words and an instant", text)
	}
	return p, nil
}
