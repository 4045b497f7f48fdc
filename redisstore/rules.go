package redisstore

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/rediskey"
)

// A known has what the script needs for a limit.
type known struct {
	name   string // of the algorithm, for the script
	packed string // params and refill time; not valid for a calendar
	text   string // weir.Limit.State, encoded for names
	stored string // the rule as it is stored with a named state, or empty
	all    string // more params than packed, for a state of another version of the rule, or empty
	rule   algo.Rule
	take   func(pair, algo.Ask) (pair, algo.Result) // the twin of rule in lua/takes.lua, or nil
	takes  []byte                                   // the rule for lua/takes.lua
	slots  bool                                     // a concurrency limit: its state contains the reservations
	dated  bool                                     // a calendar: the params depend on the time

	// reserves is set when the script has required the keys of reservations. Every later
	// call declares them.
	reserves atomic.Bool
}

// maxKnown bounds the cache of limits, since clients may choose limits. A full cache is
// emptied.
const maxKnown = 4096

type rules struct {
	byText ruleCache[limitText]
	lists  ruleCache[weir.Limit] // limits with a long text: tenants
}

// A limitText identifies a limit.
type limitText struct{ text, state string }

func (r *rules) of(l weir.Limit) *known {
	if _, ok := l.Spec().Rule.(*algo.TenantBucket); ok {
		if k := r.lists.get(l); k != nil {
			return k
		}
		return r.lists.add(l, newKnown(l))
	}
	text := limitText{l.String(), l.Spec().State}
	if k := r.byText.get(text); k != nil {
		return k
	}
	return r.byText.add(limitText{strings.Clone(text.text), strings.Clone(text.state)}, newKnown(l))
}

// A ruleCache is a cache of at most maxKnown limits. It is safe for concurrent use.
type ruleCache[K comparable] struct {
	mu sync.RWMutex
	m  map[K]*known
}

func (c *ruleCache[K]) get(key K) *known {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.m[key]
}

func (c *ruleCache[K]) add(key K, k *known) *known {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || len(c.m) >= maxKnown {
		c.m = map[K]*known{}
	}
	c.m[key] = k
	return k
}

func newKnown(l weir.Limit) *known {
	rule := l.Spec().Rule
	k := &known{
		name:  ruleName(rule),
		text:  rediskey.Encode(l.Spec().State, false),
		rule:  rule,
		slots: l.IsConcurrency(),
		dated: l.Period() == 0, // the windows of a calendar
	}
	k.packed = k.pack(1)
	if b, ok := rule.(*algo.TenantBucket); ok {
		k.all = packed(b.AllParams(), rule)
		k.stored = k.textOf(append(b.Params(1)[:5], 0, 1, 0, 0, algo.Refill(rule))) // of no child
	} else if l.Spec().Named {
		k.stored = k.storedText(l)
	}
	k.take, k.takes = takeBy(rule, k.stored)
	return k
}

// ruleName returns the name of a rule for the script, OUTER/INNER for a rule that wraps
// another.
func ruleName(r algo.Rule) string {
	if outer, ok := r.(interface{ Inner() algo.Rule }); ok {
		return r.Name() + "/" + ruleName(outer.Inner())
	}
	return r.Name()
}

// params returns the rule's numbers for the script. If clock is 0, Redis uses its own
// clock, and the clock of this process selects the windows of a calendar.
func (k *known) params(clock int64) string {
	if !k.dated {
		return k.packed
	}
	if clock == 0 {
		clock = time.Now().UnixMicro()
	}
	return k.pack(clock)
}

// storedText returns the rule as text, for the script to read when the limit has changed. The
// windows of a calendar are not part of it; its text is.
func (k *known) storedText(l weir.Limit) string {
	params := append(slices.Clone(k.rule.Params(1)), algo.Refill(k.rule))
	if k.dated {
		params = []int64{params[0], params[1], algo.Refill(k.rule)}
	}
	text := k.textOf(params)
	if k.dated {
		text += " " + rediskey.Encode(l.String(), false)
	}
	return text
}

func (k *known) textOf(params []int64) string {
	var b strings.Builder
	b.WriteString(k.name)
	for i, p := range params {
		b.WriteByte(" ,"[min(i, 1)])
		b.WriteString(strconv.FormatInt(p, 10))
	}
	return b.String()
}

func (k *known) pack(now int64) string { return packed(k.rule.Params(now), k.rule) }

// packed returns params and the refill time of a rule as bytes.
func packed(params []int64, rule algo.Rule) string {
	b := make([]byte, 0, 8*(len(params)+1))
	for _, p := range params {
		b = binary.LittleEndian.AppendUint64(b, uint64(p))
	}
	return string(binary.LittleEndian.AppendUint64(b, uint64(algo.Refill(rule))))
}
