package redisstore

import (
	"encoding/binary"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// A known is what the store knows of a limit.
type known struct {
	name   string // of the algorithm, for the script
	packed string // params and horizon; of a calendar, made anew for each call
	text   string // weir.Limit.Spec, encoded for names
	rule   algo.Rule
	slots  bool // a concurrency limit: its state remembers reservations itself
	dated  bool // a calendar's: the params depend on the time

	// holds is set once the script has asked for the hold keys: from then on every
	// call declares them.
	holds atomic.Bool
}

// maxKnown bounds the limits that a store remembers, since a limit may come from
// outside. Beyond it the memory starts afresh; it holds nothing that matters.
const maxKnown = 4096

type rules struct {
	mu     sync.RWMutex
	byText map[string]*known
}

func (r *rules) of(l weir.Limit) *known {
	text := l.String()
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
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byText == nil || len(r.byText) >= maxKnown {
		r.byText = map[string]*known{}
	}
	r.byText[strings.Clone(text)] = k
	return k
}

// ruleName is the name of a rule as the script takes it: of a rule around
// another, both.
func ruleName(r algo.Rule) string {
	if outer, ok := r.(interface{ Inner() algo.Rule }); ok {
		return r.Name() + "/" + ruleName(outer.Inner())
	}
	return r.Name()
}

// params are the rule's numbers as the script takes them. clock is 0 if Redis
// tells the time; the process's own is then near enough.
func (k *known) params(clock int64) string {
	if !k.dated {
		return k.packed
	}
	if clock == 0 {
		clock = time.Now().UnixMicro()
	}
	return k.pack(clock)
}

func (k *known) pack(now int64) string {
	params := k.rule.Params(now)
	b := make([]byte, 0, 8*(len(params)+1))
	for _, p := range params {
		b = binary.LittleEndian.AppendUint64(b, uint64(p))
	}
	return string(binary.LittleEndian.AppendUint64(b, uint64(k.rule.Horizon())))
}
