package redistest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/redisstore"
)

// newTwin returns a twin of rule on a new server.
func newTwin(t testing.TB, rule algo.Rule) *twin {
	c, err := redistest.Dial(redistest.Start(t).Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	sha, err := c.Do("SCRIPT", "LOAD", redisstore.Script())
	if err != nil {
		t.Fatal(err)
	}
	return &twin{t: t, c: c, sha: sha.(string), rule: rule, key: "k", rng: rand.New(rand.NewPCG(*twinSeed, 0))}
}

// answer returns the result of the rule for a, at a clock that advances.
func (w *twin) answer(a algo.Ask) step {
	words, r := w.rule.Do(slices.Clone(w.words), a)
	if r.OK && a.Op != algo.Peek && a.N > 0 {
		w.words, w.last = words, a.Now
		if r.Reset == 0 {
			w.words, w.last = nil, 0
		}
	}
	return step{clock: a.Now, ask: a, want: r, now: a.Now, words: slices.Clone(w.words), last: w.last}
}

// compare sends asks to both.
func (w *twin) compare(asks ...algo.Ask) {
	var steps []step
	for _, a := range asks {
		st := w.answer(a)
		steps = append(steps, st)
		w.send(st)
		w.c.Send(stored(w.rule, w.key)...)
	}
	if err := w.c.Flush(); err != nil {
		w.t.Fatal(err)
	}
	for i, st := range steps {
		w.check(i, st)
	}
}

// TestTwinSlidingLogIsBounded charges a log until it has 10,000 entries. Further charges join
// the newest entry.
func TestTwinSlidingLogIsBounded(t *testing.T) {
	w := newTwin(t, must(algo.NewSlidingLog(10, 1_000_000)))
	now := int64(1_700_000_000_000_000)
	for i := range int64(10_020) {
		now++
		a := algo.Ask{Op: algo.Charge, Now: now, N: 1 + i%2}
		w.words, _ = w.rule.Do(w.words, a)
		w.send(step{clock: now, ask: a})
		if i%1002 == 1001 {
			drain(t, w, 1002)
		}
	}
	w.last = now
	w.compare(algo.Ask{Now: now, N: 1}, algo.Ask{Op: algo.Return, Now: now, N: 3, At: 1_700_000_000_000_500},
		algo.Ask{Op: algo.Charge, Now: now + 2, N: 1}, algo.Ask{Op: algo.Charge, Now: now + 3, N: 1},
		algo.Ask{Op: algo.Return, Now: now + 4, N: 40}, algo.Ask{Now: now + 999_000, N: 1})
	if n, err := w.c.Do("ZCARD", "k"); err != nil || n.(int64) > 10_001 {
		t.Errorf("ZCARD = %v, %v, want at most 10001", n, err)
	}
}

// TestTwinSlidingLogCountsAgain checks that a large running total is reset to zero.
func TestTwinSlidingLogCountsAgain(t *testing.T) {
	w := newTwin(t, must(algo.NewSlidingLog(10, 1000)))
	now, total := int64(1_700_000_000_000_000), int64(0)
	for range 100 {
		var asks []algo.Ask
		for range 45 {
			now += 600
			asks = append(asks, algo.Ask{Op: algo.Charge, Now: now, N: algo.MaxCount})
		}
		w.compare(asks...)
		head, err := w.c.Do("ZRANGE", "k", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		text, _, _ := strings.Cut(strings.SplitN(head.([]any)[0].(string), ",", 2)[1], ",")
		if total, err = strconv.ParseInt(text, 10, 64); err != nil || total > algo.MaxInstant {
			t.Fatalf("head %v: total %d, %v", head, total, err)
		}
	}
	if total >= 4096*algo.MaxCount {
		t.Errorf("total %d after 4500 charges of %d", total, int64(algo.MaxCount))
	}
}

// TestTwinBatches checks that requests of one call see the effects of those before them,
// before anything is written. At the end all of them are written, or each by itself.
func TestTwinBatches(t *testing.T) {
	for name, rule := range map[string]algo.Rule{
		"fixed_window":   must(algo.NewFixedWindow(9, 1000, false)),
		"sliding_window": must(algo.NewSlidingWindow(9, 1000, 4, true)),
		"sliding_log":    must(algo.NewSlidingLog(9, 1000)),
		"concurrency":    must(algo.NewConcurrency(9, 1000)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newTwin(t, rule)
			w.now = 1_700_000_000_000_000
			for i := range 1500 {
				w.now += max(0, w.jump()) / 2
				w.batch(i, w.rng.Int64N(2))
			}
		})
	}
}

// batch sends several random requests in one call, in a mode of the script.
func (w *twin) batch(i int, mode int64) {
	numbers := []int64{w.now, 3_600_000, mode}
	rest := []any{}
	words, last, fits, asks, want := w.words, w.last, true, []algo.Ask{}, ""
	for j := range 1 + w.rng.Int64N(5) {
		a := algo.Ask{Op: algo.Op(w.rng.IntN(5)), Now: w.now, N: 1 + w.rng.Int64N(4)}
		if w.rng.IntN(2) == 0 {
			a.Op = algo.Take
		}
		if a.Op == algo.Return && w.rng.IntN(2) == 0 {
			a.At = w.past[w.rng.IntN(len(w.past))]
		}
		asks = append(asks, a)
		numbers = append(numbers, 1, 2, int64(a.Op), a.N, 4+j)
		rest = append(rest, fmt.Sprintf("[0,%d,0,0,0,0,0]", a.At))
		st := w.answer(a)
		fits = fits && st.want.OK
		want += fmt.Sprint([]int64{b2i(st.want.OK), st.want.Granted, st.want.Balance, never(st.want.Retry), st.want.Reset, st.want.Delay, w.now})
	}
	if mode == 1 && !fits {
		w.words, w.last = words, last
	}
	w.past[w.rng.IntN(len(w.past))] = w.now
	args := append([]any{"EVALSHA", w.sha, 1, w.key, pack(numbers...), ruleName(w.rule),
		pack(append(w.rule.Params(w.now), w.rule.Horizon())...)}, rest...)
	reply, err := w.c.Do(args...)
	if err != nil {
		w.t.Fatal(err)
	}
	got := ""
	for _, one := range reply.([]any) {
		got += unpack([]any{one})
	}
	if got != want {
		w.t.Fatalf("batch %d, mode %d: %+v\n got %s\nwant %s", i, mode, asks, got, want)
	}
}

// BenchmarkSlidingLog measures the time of Redis itself, from its commandstats, for an
// admitted and a denied Take, by length of the log.
//
//	go test -run '^$' -bench SlidingLog -benchtime 20000x ./e2e/redistest
func BenchmarkSlidingLog(b *testing.B) {
	for _, entries := range []int64{10, 1000, 9000} {
		for _, n := range []int64{1, 10_000} {
			b.Run(fmt.Sprintf("entries=%d/n=%d", entries, n), func(b *testing.B) {
				w := newTwin(b, must(algo.NewSlidingLog(10_000, 1000*entries)))
				now, sent := int64(1_700_000_000_000_000), 0
				ask := func(n int64) {
					now += 1000
					w.send(step{clock: now, ask: algo.Ask{Now: now, N: n}})
					if sent++; sent == 64 {
						drain(b, w, sent)
						sent = 0
					}
				}
				for range entries + 10 {
					ask(1)
				}
				drain(b, w, sent)
				sent = 0
				if _, err := w.c.Do("CONFIG", "RESETSTAT"); err != nil {
					b.Fatal(err)
				}
				for b.Loop() {
					if ask(n); n > 1 {
						now -= 1000
					}
				}
				drain(b, w, sent)
				stats, err := w.c.Do("INFO", "commandstats")
				if err != nil {
					b.Fatal(err)
				}
				_, text, _ := strings.Cut(stats.(string), "cmdstat_evalsha:")
				_, text, _ = strings.Cut(text, "usec_per_call=")
				text, _, _ = strings.Cut(text, ",")
				us, err := strconv.ParseFloat(text, 64)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(us, "redis-us/op")
			})
		}
	}
}

// drain reads the replies to the sent commands.
func drain(t testing.TB, w *twin, n int) {
	if err := w.c.Flush(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if v, err := w.c.Receive(); err != nil {
			t.Fatal(v, err)
		}
	}
}
