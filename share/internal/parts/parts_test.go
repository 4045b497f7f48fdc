package parts_test

import (
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/share/internal/parts"
)

var limits = []string{
	"1000/s burst 300", "7/s burst 100", "100/h burst 150", "10000000/s burst 100000", "10000/day burst 10000",
	"999/m burst 100 leaky_bucket",
	"500/s fixed_window anchor epoch", "1000/day fixed_window calendar UTC",
	"300/s sliding_window segments 10", "300/m sliding_window segments 3 weighted",
	"200/s sliding_log",
}

// TestLemma moves parts of a limit among banks and takes tokens from them at random. Whatever
// the banks admit, one limit admits.
func TestLemma(t *testing.T) {
	for _, text := range limits {
		t.Run(text, func(t *testing.T) {
			for seed := range uint64(20) {
				lemma(t, text, seed)
			}
		})
	}
}

func lemma(t *testing.T, text string, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	l, err := parts.Divide(weir.MustLimit(text))
	if err != nil {
		t.Fatal(err)
	}
	now := int64(1_700_000_000_000_000)
	banks := make([]parts.Bank, 5)
	banks[0].Put(l, l.Whole, l.Whole.Size, now)
	whole := l.Spec().Rule
	var state []int64
	admitted := 0
	for step := range 3000 {
		now += r.Int64N(1 + 4*whole.Horizon()/l.Whole.Size*r.Int64N(5))
		from, to := &banks[r.IntN(len(banks))], &banks[r.IntN(len(banks))]
		if r.IntN(4) == 0 && from != to {
			level := max(0, from.Level(now))
			p := parts.Part{Rate: r.Int64N(from.Rate + 1), Size: r.Int64N(from.Size + 1)}
			switch {
			case !l.Bucket:
				p.Size = min(p.Size, level)
				p.Rate, level = p.Size, p.Size
			default:
				level = min(level, p.Size)
			}
			switch r.IntN(8) {
			case 0: // the whole part
				p, level = from.Part, min(max(0, from.Level(now)), from.Size)
				*from = parts.Bank{}
			case 1: // the holder dies
				p, level = from.Part, 0
				*from = parts.Bank{}
			default:
				from.Take(l, p, level, now)
			}
			now += r.Int64N(1000) // it takes time
			to.Put(l, p, level, now)
			continue
		}
		n := 1 + r.Int64N(1+l.Whole.Size/20)
		if r.IntN(20) == 0 {
			from.Do(algo.Ask{Op: algo.Return, Now: now, N: n})
			state, _ = whole.Do(state, algo.Ask{Op: algo.Return, Now: now, N: n})
			continue
		}
		op := algo.Take
		if r.IntN(3) == 0 {
			op = algo.TakeUpTo
		}
		res := from.Do(algo.Ask{Op: op, Now: now, N: n})
		if !res.OK || res.Granted == 0 {
			continue
		}
		admitted++
		var want algo.Result
		if state, want = whole.Do(state, algo.Ask{Op: algo.Take, Now: now, N: res.Granted}); !want.OK {
			t.Fatalf("seed %d, step %d: a part admits %d tokens, which one limit denies: %+v", seed, step, res.Granted, want)
		}
	}
	var sum parts.Part
	for _, b := range banks {
		sum = sum.Plus(b.Part)
	}
	if sum != l.Whole {
		t.Errorf("seed %d: parts sum to %+v, want %+v", seed, sum, l.Whole)
	}
	if admitted < 100 {
		t.Errorf("seed %d: %d admissions, want 100", seed, admitted)
	}
}

// TestDivide checks that limits without exact parts are refused, with a reason.
func TestDivide(t *testing.T) {
	for _, text := range []string{
		"10/s", "1000/s burst 99", "1000/s interval", "1000/s warmup 10s", "1000/s initial 5",
		"1000/s burst 200 leaky_bucket queue", "1000/s burst 200 leaky_bucket nginx", "1000/s burst 200 leaky_bucket shared",
		"1000/s fixed_window", "2000/s sliding_log", "1000 concurrency", "1000000/60d",
	} {
		l, err := weir.ParseLimit(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if _, err := parts.Divide(l); err == nil {
			t.Errorf("Divide(%q) = nil, want an error", text)
		} else {
			t.Log(err)
		}
	}
	if _, err := parts.Divide(weir.Limit{}); err == nil {
		t.Error("Divide(zero Limit) = nil, want an error")
	}
}
