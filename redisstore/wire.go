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

// A mode says how the script decides the requests of a call.
type mode int64

const (
	each   mode = 0 // each for itself
	all    mode = 1 // all or none
	dryRun mode = 2 // as all, and nothing is written

	preceding mode = 3 // write only what comes before the decisions
)

// The codes of an answer.
const (
	codeDenied  = 0
	codeOK      = 1
	codeUnknown = 2 // no such reservation
	codeHolds   = 3 // not decided: the hold keys have to be declared
	codeAgain   = 4 // OK, and reserved before
)

// answerSize is the size of a packed answer: seven numbers.
const answerSize = 7 * 8

// An answer is what the script says of one request.
type answer struct {
	code   int64
	result algo.Result
	now    int64
}

// parseAnswer reads what lua/main.lua returns.
func parseAnswer(text string) (answer, error) {
	switch {
	case len(text) > 0 && text[0] == '!':
		return answer{}, ServerError(text[1:])
	case len(text) != answerSize:
		return answer{}, fmt.Errorf("want %d bytes, got %.60q", answerSize, text)
	}
	var n [7]int64
	for i := range n {
		n[i] = int64(binary.LittleEndian.Uint64([]byte(text[8*i : 8*i+8])))
	}
	a := answer{code: n[0], now: n[6], result: algo.Result{
		OK:      n[0] == codeOK || n[0] == codeAgain,
		Granted: n[1], Balance: n[2], Retry: n[3], Reset: n[4], Delay: n[5],
	}}
	if a.result.Retry < 0 {
		a.result.Retry = algo.Never
	}
	return a, nil
}

// A call is one run of the script in the making.
type call struct {
	store *Store
	clock int64
	head  []byte
	keys  []string
	args  []string // from ARGV[2]
	named []named
	index map[string]int // of named, once they are many
	rules []ruleAt
}

// named is where a state stands in KEYS; its hold keys, or 0, as well.
type named struct {
	name       string
	key, holds int
}

type ruleAt struct {
	known *known
	arg   int
}

// few is up to how many names are looked for one by one.
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

// arg adds an argument and says where it stands in ARGV.
func (c *call) arg(text string) int {
	c.args = append(c.args, text)
	return len(c.args)
}

// key is where the state of a name stands in KEYS, and where its hold keys stand
// if they are asked for.
func (c *call) key(name string, holds bool) (key, hold int) {
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
	if holds && n.holds == 0 {
		c.keys = append(c.keys, name+holdsSuffix, name+deadlinesSuffix)
		n.holds = len(c.keys) - 1
	}
	return n.key, n.holds
}

func (c *call) rule(k *known) int {
	for _, r := range c.rules {
		if r.known == k {
			return r.arg
		}
	}
	at := c.arg(k.name)
	c.arg(k.params(c.clock))
	c.rules = append(c.rules, ruleAt{k, at})
	return at
}

// add puts a request into the call. name is that of its state.
func (c *call) add(r *weir.Request, k *known, name string, holds bool) {
	holds = holds || k.holds.Load() || r.Verb >= weir.Reset || len(r.From) > 0
	key, hold := c.key(name, holds)
	rule, more := c.rule(k), 0
	if hold != 0 || r.Verb == weir.Return && !r.At.IsZero() {
		more = c.more(r, k, hold)
	}
	for _, v := range [...]int64{int64(key), int64(rule), int64(r.Verb), min(r.N, algo.MaxInstant), int64(more)} {
		c.number(v)
	}
}

// more adds the rest of a request as lua/holds.lua takes it.
func (c *call) more(r *weir.Request, k *known, hold int) int {
	var at, ttl, id, name int64
	if r.Verb == weir.Return && !r.At.IsZero() {
		at = min(max(1, r.At.UnixMicro()), algo.MaxInstant)
	}
	switch r.Verb {
	case weir.Commit:
		at, ttl = r.N&algo.MaxInstant, r.N>>53
	case weir.Reserve:
		ttl = int64((r.TTL + time.Microsecond - 1) / time.Microsecond)
	}
	if r.Verb >= weir.Reserve {
		if k.slots {
			id = slotID(r.ID)
		} else {
			name = int64(c.arg(r.ID))
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
	for _, v := range [...]int64{int64(hold), at, ttl, id, name} {
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
				continue // it is the same state
			}
			oldName, _ := c.store.stateName(r.Key, old.text)
			oldKey, oldHold := c.key(oldName, true)
			for _, v := range [...]int64{int64(oldKey), int64(c.rule(old)), int64(oldHold), from.Capacity()} {
				put(v)
			}
		}
	}
	return c.arg(string(append(b, ']')))
}

// slotID is the number of a concurrency slot: 53 bits of the SHA-256 of its id.
func slotID(id string) int64 {
	sum := sha256.Sum256([]byte(id))
	return max(1, int64(binary.LittleEndian.Uint64(sum[:])&algo.MaxInstant))
}

// command is the call as EVALSHA, or as EVAL, which brings the script along.
func (c *call) command(eval bool) Command {
	if len(c.head) > 0 {
		c.args[0], c.head = string(c.head), nil
	}
	head := []string{"EVALSHA", script().sha, strconv.Itoa(len(c.keys))}
	if eval {
		head[0], head[1] = "EVAL", script().text
	}
	return Command{Head: head, Keys: c.keys, Args: c.args}
}

// decision is what a store answers for an answer of the script. The script
// counts up to algo.MaxInstant tokens; whoever charged more hears their own number
// again, and of what a reservation was settled at the higher bits come apart.
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
