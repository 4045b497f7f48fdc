package redistest_test

import (
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/redisstore"
)

var (
	twinAsks = flag.Int("twin.asks", 0, "random asks per rule of the twin tests; 0: 12000 per test, and at least 400 per rule")
	twinSeed = flag.Uint64("twin.seed", 1, "seed of the twin tests")
)

// asks returns the number of random asks for each of some rules.
func asks(rules int) int {
	if *twinAsks > 0 {
		return *twinAsks
	}
	return max(400, 12_000/rules)
}

// A twin compares one rule with its Lua twin in a real Redis. It sends the same random asks at
// the same instants to both and compares every result and every word of the state.
type twin struct {
	t    testing.TB
	c    *redistest.Conn
	sha  string
	rule algo.Rule
	any  []algo.Rule // which share the state; each ask is to one of them
	key  string
	rng  *rand.Rand

	now   int64
	words []int64   // the rule's state
	under algo.Rule // the rule that wrote it, of those that share it
	last  int64     // the largest instant of a write; 0: no state
	ahead int64     // the span by which the clock was set back; negative after a part of it
	past  [6]int64  // some instants of earlier asks
	ids   bool      // use named slots too
}

// runTwins compares the rules on one server.
func runTwins(t *testing.T, rules map[string]algo.Rule) {
	sharing := map[string][]algo.Rule{}
	for name, rule := range rules {
		sharing[name] = []algo.Rule{rule}
	}
	runSharing(t, sharing)
}

// runSharing compares lists of rules that share one state.
func runSharing(t *testing.T, rules map[string][]algo.Rule) {
	s := redistest.Start(t)
	for name, any := range rules {
		t.Run(name, func(t *testing.T) {
			c, err := redistest.Dial(s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			sha, err := c.Do("SCRIPT", "LOAD", redisstore.Script())
			if err != nil {
				t.Fatalf("SCRIPT LOAD: %v", err)
			}
			w := &twin{t: t, c: c, sha: sha.(string), rule: any[0], any: any, key: name,
				rng: rand.New(rand.NewPCG(*twinSeed, 0)), now: 1_700_000_000_000_000,
				ids: any[0].Name() == "concurrency"}
			w.run(asks(len(rules)))
		})
	}
}

// A step is one ask and the result of the rule.
type step struct {
	clock   int64
	ask     algo.Ask
	want    algo.Result
	unknown bool    // the ask is a Return of an unknown slot
	now     int64   // after the guard
	words   []int64 // the state after it; nil: none
	last    int64
	ahead   int64
	rule    algo.Rule // which wrote it
}

func (w *twin) run(n int) {
	admitted, denied := 0, 0
	for done := 0; done < n; done += 50 {
		var steps []step
		for range 50 {
			st := w.next()
			steps = append(steps, st)
			w.send(st)
			w.c.Send(stored(w.rule, w.key)...)
			if st.want.OK {
				admitted++
			} else {
				denied++
			}
		}
		if err := w.c.Flush(); err != nil {
			w.t.Fatal(err)
		}
		for i, st := range steps {
			w.check(done+i, st)
		}
	}
	w.t.Logf("seed %d: %d OK, %d denied", *twinSeed, admitted, denied)
}

// latest is the last clock value: two spans of 100 years after it are still exact in doubles.
const latest = algo.MaxInstant - 2*algo.MaxSpan

// next makes a random ask and applies the rule, with the same clock guard as the script.
func (w *twin) next() step {
	if len(w.any) > 1 {
		w.rule = w.any[w.rng.IntN(len(w.any))]
	}
	w.now = min(w.now+w.jump(), latest)
	a := algo.Ask{Op: algo.Op(w.rng.IntN(5)), N: w.amount()}
	if w.rng.IntN(2) == 0 {
		a.Op = algo.Take
	}
	if a.Op == algo.Return && w.rng.IntN(2) == 0 {
		a.At = w.now - w.rng.Int64N(w.rule.Horizon()+2)
		if w.rng.IntN(2) == 0 {
			a.At = w.past[w.rng.IntN(len(w.past))]
		}
	}
	if w.ids && (a.Op == algo.Take || a.Op == algo.Return) && w.rng.IntN(2) == 0 {
		a.ID, a.TTL, a.N = 1+w.rng.Uint64N(5), 1+w.rng.Int64N(2*w.rule.Horizon()), max(1, a.N)
		if a.Op == algo.Return {
			a.N, a.At, a.TTL = 0, 0, 0
		}
	}
	words, last := slices.Clone(w.words), w.last
	now := w.now
	asked := w.rule
	if w.under != nil {
		w.rule = w.under // until it is migrated
	}
	move := w.guard()
	if move != 0 {
		w.rule.Shift(words, move)
		last -= move
		if w.under != nil { // a Peek brings it forward
			words, _ = w.rule.Do(words, algo.Ask{Op: algo.Peek, Now: max(now, last)})
		}
		// A state moved by the clock guard is written even after a denial.
		if w.words, w.last = slices.Clone(words), max(now, last); w.rule.Until(words) <= w.last {
			w.unused()
		}
	}
	now = max(now, last)
	a.Now = now
	if w.rule = asked; w.bring(words, now, a) {
		words = slices.Clone(w.words)
	} else if w.under != nil && !algo.SameState(w.under, w.rule) {
		words = algo.Migrate(w.under, words, w.rule, nil, now)
	}
	w.past[w.rng.IntN(len(w.past))] = now
	// A limit with initial tokens records the first use of a key, whatever the decision.
	primed := w.rule.Name() == "primed" && a.Op != algo.Peek && a.N > 0
	first := w.rule.Until(words) <= now
	before := slices.Clone(words)
	words, r := w.rule.Do(words, a)
	if a.ID != 0 && a.Op == algo.Return && r.Granted == 0 {
		// The script reports an unknown slot and writes nothing but a state that moved, without
		// the slots that have expired.
		if move != 0 && len(w.words) > 0 {
			w.words = slices.Clone(words)
		}
		return step{clock: w.now, ask: a, want: algo.Result{}, unknown: true, now: now, words: w.words, last: w.last, ahead: w.ahead}
	}
	kept := primed && (first || r.OK)
	if w.ids && a.ID != 0 && a.Op == algo.Return {
		r.Granted = 0 // a cancelled slot grants nothing
	}
	if changes := r.OK && a.Op != algo.Peek; !changes && !kept {
		if !slices.Equal(trim(words), trim(before)) && w.under == nil {
			w.t.Fatalf("%+v = %+v changed %v to %v", a, r, before, words)
		}
	} else if a.N == 0 && a.ID == 0 && !kept {
		// A cost of 0 writes nothing.
	} else if w.last = max(last, now); r.Reset == 0 {
		w.unused()
	} else {
		w.words = slices.Clone(words)
	}
	if until := w.rule.Until(words); max(0, until-now) != r.Reset {
		w.t.Fatalf("%+v = %+v, but Until is %d", a, r, until-now)
	}
	return step{clock: w.now, ask: a, want: r, now: now, words: w.words, last: w.last, ahead: w.ahead, rule: w.under}
}

// guard returns by how much the clock guard of the script moves the state back, and records it.
func (w *twin) guard() int64 {
	step, ahead, move := w.now-w.last, max(w.ahead, -w.ahead), int64(0)
	switch refill := algo.Refill(w.rule); {
	case -step > refill:
		move = -step
	case ahead > 0 && step >= ahead:
		move = -ahead
	case w.ahead > 0 && step > refill:
		move = -step
	}
	if rest := move % w.grain(); rest < 0 {
		move -= w.grain() + rest
	} else {
		move -= rest
	}
	switch ahead = min(ahead+move, 366*24*3600*1_000_000); {
	case move > 0:
		w.ahead = ahead
	case move < 0:
		w.ahead = -max(0, ahead)
	}
	return move
}

// grain returns the unit in µs of the instants in a state.
func (w *twin) grain() int64 {
	rule, empty := w.rule, len(trim(w.words)) == 0
	if outer, ok := rule.(interface{ Inner() algo.Rule }); ok {
		if rule = outer.Inner(); empty {
			return 1
		}
	}
	switch rule.Name() {
	case "sliding_window":
		return rule.Params(w.now)[1]
	case "limit_req":
		return 1000
	}
	return 1
}

// unused removes the state of a key, unless the clock was set back.
func (w *twin) unused() {
	if w.words = nil; w.ahead == 0 {
		w.last = 0
	}
}

// trim returns the words without trailing unused ones.
func trim(words []int64) []int64 {
	for _, v := range words {
		if v != 0 {
			return words
		}
	}
	return nil
}

// jump returns how far the clock moves: mostly little, sometimes beyond the horizon, sometimes
// back.
func (w *twin) jump() int64 {
	h := w.rule.Horizon()
	token := max(1, h/max(1, w.rule.Capacity()))
	switch w.rng.IntN(12) {
	case 0, 1, 2:
		return 0
	case 3:
		return 1
	case 4, 5, 6:
		return w.rng.Int64N(2 * token)
	case 7, 8:
		return w.rng.Int64N(max(2, h/4))
	case 9:
		return w.rng.Int64N(2 * h)
	case 10:
		return -w.rng.Int64N(min(h, 1_000_000_000) + 1)
	}
	if w.now > 1_600_000_000_000_000 && w.now < 2_000_000_000_000_000 && h < 1<<40 {
		return -w.rng.Int64N(3 * h)
	}
	return 0
}

func (w *twin) amount() int64 {
	c := w.rule.Capacity()
	switch w.rng.IntN(10) {
	case 0:
		return 0
	case 1:
		return w.rng.Int64N(c + 2)
	case 2:
		return c
	case 3:
		return c + 1
	case 4:
		if w.rng.IntN(20) == 0 {
			return []int64{algo.MaxCount, algo.MaxCount + 1, algo.MaxInstant}[w.rng.IntN(3)]
		}
		return 1 + w.rng.Int64N(max(1, c/3))
	}
	return 1
}

func (w *twin) send(s step) {
	verb, more := int64(s.ask.Op), int64(0)
	if s.ask.ID != 0 {
		verb = map[algo.Op]int64{algo.Take: 6, algo.Return: 8}[s.ask.Op]
	}
	args := []any{"EVALSHA", w.sha, 1, w.key, nil, ruleName(w.rule), pack(append(w.rule.Params(s.clock), algo.Refill(w.rule))...)}
	rule := int64(2)
	if b, ok := w.rule.(*algo.TenantBucket); ok {
		args[6], rule = pack(append(b.AllParams(), algo.Refill(b))...), -2
		args = append(args, parentText(b))
	}
	if s.ask.At != 0 || s.ask.ID != 0 || w.rng.IntN(2) == 0 { // both paths of the script
		more = int64(len(args) - 3)
		rest, err := json.Marshal([]any{0, s.ask.At, s.ask.TTL, s.ask.ID, 0, 0, 0})
		if err != nil {
			w.t.Fatal(err)
		}
		args = append(args, string(rest))
	}
	args[4] = pack(s.clock, 3_600_000, 0, 1, rule, verb, s.ask.N, more)
	w.c.Send(args...)
}

// ruleName returns the name of a rule for the script; for a rule around another, both names.
func ruleName(r algo.Rule) string {
	if outer, ok := r.(interface{ Inner() algo.Rule }); ok {
		return r.Name() + "/" + ruleName(outer.Inner())
	}
	return r.Name()
}

// pack encodes numbers for the script.
func pack(vs ...int64) string {
	var b []byte
	for _, v := range vs {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return string(b)
}

// unpack decodes the script's answer to one request: seven numbers, or an error.
func unpack(reply any) string {
	vs, ok := reply.([]any)
	if !ok || len(vs) != 1 {
		return fmt.Sprint(reply)
	}
	text, ok := vs[0].(string)
	if !ok || len(text) != 56 {
		return fmt.Sprint(vs[0])
	}
	var ns []int64
	for b := []byte(text); len(b) > 0; b = b[8:] {
		ns = append(ns, int64(binary.LittleEndian.Uint64(b)))
	}
	return fmt.Sprint(ns)
}

func (w *twin) check(i int, s step) {
	reply, err := w.c.Receive()
	if err != nil {
		w.t.Fatal(err)
	}
	stored, err := w.c.Receive()
	if err != nil {
		w.t.Fatal(err)
	}
	want := fmt.Sprint([]int64{b2i(s.want.OK), s.want.Granted, s.want.Balance, never(s.want.Retry), s.want.Reset, s.want.Delay, s.now})
	if s.unknown {
		want = fmt.Sprint([]int64{2, 0, 0, 0, 0, 0, s.now})
	}
	got := unpack(reply)
	if s.want.Place != algo.Own {
		want = fmt.Sprintf("[%d %s", 5+s.want.Place, strings.TrimPrefix(want, "[1 "))
	}
	if s.ask.ID != 0 && strings.HasPrefix(got, "[4 ") {
		got = "[1 " + got[3:] // a slot that was held before, and still is
	}
	if got != want {
		w.t.Fatalf("step %d: %+v at %d: the twin returns %v, the rule %v\n(code, granted, balance, retry, reset, delay, now); stored %v, want %v %v",
			i, s.ask, s.clock, got, want, stored, s.words, s.last)
	}
	wantStored := "<nil>"
	if s.last != 0 {
		state := []any{}
		for _, v := range s.words {
			state = append(state, v)
		}
		if state = append(state, s.last); s.ahead != 0 {
			state = append(state, []int64{s.ahead})
		}
		text, err := json.Marshal(state)
		if err != nil {
			w.t.Fatal(err)
		}
		wantStored = string(text)
	}
	if w.rule.Name() == "sliding_log" {
		stored, wantStored = log(stored, s.last-w.rule.Horizon()), logWanted(s.words, s.last, s.last-w.rule.Horizon())
	}
	if b, ok := s.rule.(*algo.TenantBucket); ok {
		stored, wantStored = members(stored), tenantWanted(b, s)
	}
	if got := fmt.Sprint(stored); got != wantStored {
		w.t.Fatalf("step %d: %+v = %+v: the twin stores %s, the rule %s", i, s.ask, s.want, got, wantStored)
	}
}

func b2i(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func never(retry int64) int64 {
	if retry == math.MaxInt64 {
		return -1
	}
	return retry
}

func TestTwinTokenBucket(t *testing.T) {
	rules := map[string]algo.Rule{}
	for _, c := range [][3]int64{
		{10, 1_000_000, 20}, {1, 1_000_000, 1}, {3, 1_000_000, 3}, {7, 3_600_000_000, 100},
		{6000, 1_000_000, 6000}, {10_000_000, 1_000_000, 1000}, {1, 31_557_600_000_000, 5},
		{999_983, 1_000_003, 77}, {1 << 40, 86_400_000_001, 1 << 20}, {1<<40 - 1, algo.MaxSpan, 10},
		{1_000_003, 7, 1 << 30}, {1<<30 + 7, 1<<31 + 11, 5000},
	} {
		r, err := algo.NewTokenBucket(c[0], c[1], c[2])
		if err != nil {
			t.Fatal(err)
		}
		rules[fmt.Sprintf("%d per %dus burst %d", c[0], c[1], c[2])] = r
	}
	runTwins(t, rules)
}
