package algo_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// A walk is a random history of one key: asks of all kinds at instants that
// mostly go on, often to just where an answer changes, and sometimes go back.
type walk struct {
	*rand.Rand
	rule algo.Rule
	s    []int64
	now  int64
	past []int64 // instants of asks
	wait int64   // the last Retry or Reset
}

const someInstant = 1_700_000_000_000_000

func newWalk(rule algo.Rule, seed uint64) *walk {
	w := &walk{Rand: rand.New(rand.NewPCG(seed, 1)), rule: rule}
	w.now = someInstant + w.Int64N(2*rule.Horizon()+2)
	return w
}

// walks runs f with the states of some walks, which f must not change.
func walks(t *testing.T, rule algo.Rule, f func(w *walk)) {
	t.Helper()
	for seed := range uint64(20) {
		w := newWalk(rule, seed)
		for range 100 {
			w.move(true)
			w.do(w.ask())
			f(w)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

// move goes to the next instant, by steps of which a thousand stay in range.
func (w *walk) move(back bool) {
	h := min(w.rule.Horizon(), 1<<41)
	switch k := w.IntN(20); {
	case k < 4:
	case k < 7:
		w.now += w.Int64N(3)
	case k < 12:
		w.now += w.Int64N(h/8 + 2)
	case k < 14:
		w.now += w.Int64N(2*h + 2)
	case k < 19 && w.wait > 0 && w.wait < 4*h:
		w.now += max(0, w.wait-1+w.Int64N(2))
	case k == 19 && back:
		w.now = max(1, w.now-w.Int64N(h+2))
	}
}

// tokens is an amount: small, or around the capacity, or huge.
func (w *walk) tokens() int64 {
	c := w.rule.Capacity()
	switch w.IntN(12) {
	case 0:
		return 0
	case 1:
		return c + w.Int64N(3) - 1
	case 2:
		return w.Int64()
	case 3, 4, 5:
		return 1 + w.Int64N(c)
	}
	return 1 + w.Int64N(1+min(c, max(3, c/5)))
}

// ask is a question at w.now.
func (w *walk) ask() algo.Ask {
	a := algo.Ask{Now: w.now, N: w.tokens()}
	switch k := w.IntN(20); {
	case k < 10:
		a.Op = algo.Take
	case k < 12:
		a.Op = algo.TakeUpTo
	case k < 14:
		a.Op = algo.Peek
	case k < 16:
		a.Op = algo.Charge
		a.N = min(a.N, 2*w.rule.Capacity())
	default:
		a.Op = algo.Return
		if len(w.past) > 0 && w.IntN(2) == 0 {
			a.At = w.past[max(0, len(w.past)-1-w.IntN(8))]
		}
	}
	if w.IntN(3) == 0 {
		a.ID = 1 + w.Uint64N(4)
		a.TTL = w.Int64N(2 * w.rule.Horizon())
	}
	return a
}

// do puts a to the state of w.
func (w *walk) do(a algo.Ask) algo.Result {
	var r algo.Result
	w.s, r = w.rule.Do(w.s, a)
	w.past = append(w.past, a.Now)
	w.wait = r.Retry
	if r.OK {
		w.wait = r.Reset
	}
	return r
}

// on answers a for a copy of s, and the state after it.
func on(rule algo.Rule, s []int64, a algo.Ask) ([]int64, algo.Result) {
	return rule.Do(slices.Clone(s), a)
}

// balance is the balance of s at now.
func balance(rule algo.Rule, s []int64, now int64) int64 {
	_, r := on(rule, s, algo.Ask{Op: algo.Peek, Now: now})
	return r.Balance
}
