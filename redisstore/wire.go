package redisstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// A mode selects how the script decides the requests of a call.
type mode int64

const (
	each      mode = 0 // each by itself
	all       mode = 1 // all or none
	dryRun    mode = 2 // like all, without writing
	carryOver mode = 3 // write only the state that precedes the decisions
	groups    mode = 4 // several groups, one after the other, each all or none
)

// The codes of a reply.
const (
	codeDenied   = 0
	codeOK       = 1
	codeUnknown  = 2 // no such reservation
	codeReserves = 3 // not decided: the call must declare the keys of reservations
	codeAgain    = 4 // OK, and reserved before
	codeParams   = 5 // not decided: the call must have all params of the rule
	codeCredit   = 6 // OK, of a tenant's credit
	codePool     = 7 // OK, of the tenants' pool
)

// modeAt is the index of the mode in the first argument.
const modeAt = 16

// answerSize is the size of a packed reply to one request: seven numbers.
const answerSize = 7 * 8

// An answer is the script's reply to one request.
type answer struct {
	code   int64
	result algo.Result
	now    int64
}

// parseAnswer parses one element of the reply of lua/main.lua.
func parseAnswer(text string) (answer, error) {
	switch {
	case len(text) > 0 && text[0] == '!':
		return answer{}, ServerError(text[1:])
	case len(text) != answerSize:
		return answer{}, fmt.Errorf("reply: got %.60q, want %d bytes", text, answerSize)
	}
	var n [7]int64
	for i := range n {
		n[i] = int64(binary.LittleEndian.Uint64([]byte(text[8*i : 8*i+8])))
	}
	a := answer{code: n[0], now: n[6], result: algo.Result{
		OK:      n[0] == codeOK || n[0] == codeAgain || n[0] >= codeCredit,
		Granted: n[1], Balance: n[2], Retry: n[3], Reset: n[4], Delay: n[5],
	}}
	switch n[0] {
	case codeCredit:
		a.result.Place = algo.Credit
	case codePool:
		a.result.Place = algo.Pool
	}
	if a.result.Retry < 0 {
		a.result.Retry = algo.Never
	}
	return a, nil
}

// A call collects the arguments of one run of the script.
type call struct {
	store *Store
	clock int64
	head  []byte
	keys  []string
	args  []string // from ARGV[2]
	named []named
	index map[string]int // of named, once they are many
	rules []ruleAt
	whole bool  // all params of rules
	sizes []int // of the groups, if there are several
}

// named has the index in KEYS of a state and of its keys of reservations, or 0.
type named struct {
	name          string
	key, reserves int

	// For lua/takes.lua:
	unit   int    // the last one with the state, from 1
	shared bool   // several units have the state
	op     *op    // the last one with the state
	stored string // the rule that is stored with the state
}

type ruleAt struct {
	known *known
	arg   int
}

// few is the largest number of names that are searched one by one.
const few = 8

func (s *Store) newCall(m mode, clock int64, n int) *call {
	c := &call{store: s, clock: clock}
	c.head = make([]byte, 0, 24+40*n)
	c.number(clock)
	c.number(s.slack)
	c.number(int64(m))
	c.keys = make([]string, 0, n)
	c.args = make([]string, 1, 3)
	return c
}

func (c *call) number(v int64) { c.head = binary.LittleEndian.AppendUint64(c.head, uint64(v)) }

// arg adds an argument and returns its index in ARGV.
func (c *call) arg(text string) int {
	c.args = append(c.args, text)
	return len(c.args)
}

// key returns the index in KEYS of the state with a name and, if reserves is set, that of
// its keys of reservations.
func (c *call) key(name string, reserves bool) (key, reservations int) {
	at := -1
	if c.index != nil {
		if i, ok := c.index[name]; ok {
			at = i
		}
	} else {
		for i := range c.named {
			if c.named[i].name == name {
				at = i
				break
			}
		}
	}
	if at < 0 {
		c.keys = append(c.keys, name)
		at = len(c.named)
		c.named = append(c.named, named{name: name, key: len(c.keys)})
		if c.index != nil {
			c.index[name] = at
		} else if len(c.named) > few {
			c.index = make(map[string]int, 4*few)
			for i := range c.named {
				c.index[c.named[i].name] = i
			}
		}
	}
	n := &c.named[at]
	if reserves && n.reserves == 0 {
		c.keys = append(c.keys, name+reservationsSuffix, name+deadlinesSuffix)
		n.reserves = len(c.keys) - 1
	}
	return n.key, n.reserves
}

// dropKeys removes the names after the first n, which no request has.
func (c *call) dropKeys(n int) {
	if c.index != nil {
		for _, dropped := range c.named[n:] {
			delete(c.index, dropped.name)
		}
	}
	c.keys, c.named = c.keys[:n], c.named[:n]
}

func (c *call) rule(k *known) int {
	for _, r := range c.rules {
		if r.known == k {
			return r.arg
		}
	}
	at := c.arg(k.name)
	if c.whole && k.all != "" {
		c.arg(k.all)
	} else {
		c.arg(k.params(c.clock))
	}
	if k.stored != "" {
		c.arg(k.stored)
		at = -at // the script finds the text of a named state by that
	}
	c.rules = append(c.rules, ruleAt{k, at})
	return at
}

// add adds a request, whose state has the given name.
func (c *call) add(r *weir.Request, k *known, name string, reserves bool) {
	reserves = reserves || k.reserves.Load() || r.Verb >= weir.Reset || len(r.From) > 0
	key, reservations := c.key(name, reserves)
	rule, more := c.rule(k), 0
	if reservations != 0 || r.Verb == weir.Return && (r.Borrowed || !r.At.IsZero()) {
		more = c.more(r, k, reservations)
	}
	for _, v := range [...]int64{int64(key), int64(rule), int64(r.Verb), min(r.N, algo.MaxInstant), int64(more)} {
		c.number(v)
	}
}

// more adds the part of a request that lua/reservations.lua reads.
func (c *call) more(r *weir.Request, k *known, reservations int) int {
	var at, ttl, id, name int64
	if r.Verb == weir.Return && !r.At.IsZero() {
		at = min(max(1, r.At.UnixMicro()), algo.MaxInstant)
	}
	switch r.Verb {
	case weir.Return:
		if r.Borrowed && k.all != "" {
			id = int64(algo.Surplus)
		}
	case weir.Commit:
		at, ttl = r.N&algo.MaxInstant, r.N>>53
	case weir.Reserve:
		ttl = int64((r.TTL + time.Microsecond - 1) / time.Microsecond)
	}
	if r.Verb >= weir.Reserve {
		if k.slots {
			id = slotID(r.ID)
		} else {
			name = int64(c.arg(r.Limit.Spec().Scope + r.ID))
		}
	}
	b := make([]byte, 0, 64)
	put := func(v int64) {
		if len(b) == 0 {
			b = append(b, '[')
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, v, 10)
	}
	for _, v := range [...]int64{int64(reservations), at, ttl, id, name} {
		put(v)
	}
	if len(r.From) > 0 {
		put(int64(r.Carry))
		put(r.Limit.Capacity())
		for _, from := range r.From {
			if from.IsZero() || from.Equal(r.Limit) {
				continue
			}
			old := c.store.rules.of(from)
			if old.text == k.text {
				continue // the same state
			}
			oldName, _ := c.store.stateName(r.Key, old.text)
			oldKey, oldReservations := c.key(oldName, true)
			for _, v := range [...]int64{int64(oldKey), int64(c.rule(old)), int64(oldReservations), from.Capacity()} {
				put(v)
			}
		}
	}
	return c.arg(string(append(b, ']')))
}

// slotID returns the number of a concurrency slot: 53 bits of the SHA-256 of its id.
func slotID(id string) int64 {
	sum := sha256.Sum256([]byte(id))
	return max(1, int64(binary.LittleEndian.Uint64(sum[:])&algo.MaxInstant))
}

// command returns the call as EVALSHA or, with the script itself, as EVAL.
func (c *call) command(eval bool) Command {
	if len(c.head) > 0 {
		if len(c.sizes) > 1 {
			binary.LittleEndian.PutUint64(c.head[modeAt:], uint64(groups))
			var b []byte
			for _, n := range c.sizes {
				b = binary.LittleEndian.AppendUint64(b, uint64(n))
			}
			c.args = append(c.args, string(b))
		}
		c.args[0], c.head = string(c.head), nil
	}
	head := []string{"EVALSHA", script().sha, strconv.Itoa(len(c.keys))}
	if eval {
		head[0], head[1] = "EVAL", script().text
	}
	return Command{Head: head, Keys: c.keys, Args: c.args}
}

// decision returns the decision for a reply of the script. The script counts up to
// algo.MaxInstant tokens. A larger Charge gets its own number back, and the higher bits of
// a settled reservation are in the field Delay.
func decision(r *weir.Request, a answer) weir.Decision {
	switch {
	case r.Verb == weir.Charge && a.result.OK:
		a.result.Granted = r.N
	case r.Verb == weir.Commit || r.Verb == weir.Cancel:
		a.result.Granted |= a.result.Delay << 53
		a.result.Delay = 0
	}
	return r.Limit.Spec().Decision(a.result, a.now)
}
