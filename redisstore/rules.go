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
)

// A known has what the script needs for a limit.
type known struct {
	name   string // of the algorithm, for the script
	packed string // params and refill time; not valid for a calendar
	text   string // weir.Limit.State, encoded for names
	stored string // the rule as it is stored with a named state, or empty
	rule   algo.Rule
	slots  bool // a concurrency limit: its state contains the reservations
	dated  bool // a calendar: the params depend on the time

	// reserves is set when the script has required the keys of reservations. Every later
	// call declares them.
	reserves atomic.Bool
}

// maxKnown bounds the cache of limits, since clients may choose limits. A full cache is
// emptied.
const maxKnown = 4096

type rules struct {
	mu     sync.RWMutex
	byText map[limitText]*known
}

// A limitText identifies a limit.
type limitText struct{ text, state string }

func (r *rules) of(l weir.Limit) *known {
	text := limitText{l.String(), l.Spec().State}
	r.mu.RLock()
	k := r.byText[text]
	r.mu.RUnlock()
	if k != nil {
		return k
	}
	rule := l.Spec().Rule
	k = &known{
		name:  ruleName(rule),
		text:  encode(l.Spec().State, false),
		rule:  rule,
		slots: l.IsConcurrency(),
		dated: l.Period() == 0, // the windows of a calendar
	}
	k.packed = k.pack(1)
	if l.Spec().Named {
		k.stored = k.storedText(l)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byText == nil || len(r.byText) >= maxKnown {
		r.byText = map[limitText]*known{}
	}
	r.byText[limitText{strings.Clone(text.text), strings.Clone(text.state)}] = k
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
	var b strings.Builder
	b.WriteString(k.name)
	for i, p := range params {
		b.WriteByte(" ,"[min(i, 1)])
		b.WriteString(strconv.FormatInt(p, 10))
	}
	if k.dated {
		b.WriteByte(' ')
		b.WriteString(encode(l.String(), false))
	}
	return b.String()
}

func (k *known) pack(now int64) string {
	params := k.rule.Params(now)
	b := make([]byte, 0, 8*(len(params)+1))
	for _, p := range params {
		b = binary.LittleEndian.AppendUint64(b, uint64(p))
	}
	return string(binary.LittleEndian.AppendUint64(b, uint64(algo.Refill(k.rule))))
}
