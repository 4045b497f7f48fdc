package algo_test

import (
	"slices"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// A namedRule is a rule of which every property in this file is tested.
type namedRule struct {
	name string
	rule algo.Rule

	// grain is a span by which a state can be shifted without changing an answer:
	// 1 for a rule that knows no instant but those of its requests.
	grain int64

	// most is the largest number of tokens that Take and TakeUpTo admit in any half
	// open span of span µs.
	span, most int64

	// lacks names the tests here whose property the rule does not have, and why.
	lacks map[string]string
}

// rules returns the rules of all files of this package.
func rules() []namedRule { return slices.Concat(windowRules, bucketRules) }

// must is the rule of a constructor that is known to accept its arguments.
func must[R algo.Rule](r R, err error) algo.Rule {
	if err != nil {
		panic(err)
	}
	return r
}

// forEachRule runs f as a subtest with every rule that has the property of t.
func forEachRule(t *testing.T, f func(t *testing.T, r namedRule)) {
	for _, r := range rules() {
		if why, ok := r.lacks[t.Name()]; ok {
			t.Logf("%s lacks it: %s", r.name, why)
			continue
		}
		t.Run(r.name, func(t *testing.T) { f(t, r) })
	}
}

// sameWords reports whether two states have the same words, but for zeros that
// stand for words never written.
func sameWords(a, b []int64) bool {
	n := min(len(a), len(b))
	zero := func(x int64) bool { return x != 0 }
	return slices.Equal(a[:n], b[:n]) && !slices.ContainsFunc(a[n:], zero) && !slices.ContainsFunc(b[n:], zero)
}

func TestDenialChangesNothing(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		denials := 0
		walks(t, r.rule, func(w *walk) {
			for range 4 {
				a := w.ask()
				after, got := on(r.rule, w.s, a)
				if got.OK && a.Op != algo.Peek {
					continue
				}
				if !got.OK {
					denials++
				}
				if !sameWords(after, w.s) {
					t.Errorf("%+v = %+v changed %v to %v", a, got, w.s, after)
				}
				if got.Granted != 0 {
					t.Errorf("%+v granted %d", a, got.Granted)
				}
			}
		})
		if denials == 0 {
			t.Error("no ask was denied")
		}
	})
}

func TestRetryIsTight(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		waits := 0
		walks(t, r.rule, func(w *walk) {
			a := w.ask()
			_, got := on(r.rule, w.s, a)
			want := a.N
			if a.Op == algo.TakeUpTo {
				want = 1
			}
			switch {
			case got.OK && got.Retry != 0:
				t.Errorf("%+v = %+v, want no Retry", a, got)
			case got.OK:
			case (got.Retry == algo.Never) != (want > r.rule.Capacity()):
				t.Errorf("%+v = %+v, want Never only above the capacity of %d", a, got, r.rule.Capacity())
			case got.Retry == algo.Never:
			case got.Retry < 1:
				t.Errorf("%+v = %+v, want a Retry of at least 1", a, got)
			default:
				waits++
				a.Now += got.Retry
				if _, at := on(r.rule, w.s, a); !at.OK {
					t.Errorf("%+v, at the Retry of %+v: denied: %+v", a, got, at)
				}
				a.Now--
				if _, early := on(r.rule, w.s, a); early.OK || early.Retry != 1 {
					t.Errorf("%+v, before the Retry of %+v: %+v, want denied with Retry 1", a, got, early)
				}
			}
		})
		if waits == 0 {
			t.Error("no ask had to wait")
		}
	})
}

// TestBalanceIsWhatFits checks that what a Peek says is what Take does, the balance is
// what can be taken, and TakeUpTo takes that.
func TestBalanceIsWhatFits(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		walks(t, r.rule, func(w *walk) {
			a := algo.Ask{Now: w.now}
			_, none := on(r.rule, w.s, a)
			if !none.OK || none.Granted != 0 {
				t.Errorf("%+v = %+v, want OK and nothing granted", a, none)
			}
			for _, n := range []int64{none.Balance, none.Balance + 1, w.tokens()} {
				if n = max(n, 1); n > r.rule.Capacity() {
					continue
				}
				a = algo.Ask{Now: w.now, N: n}
				_, took := on(r.rule, w.s, a)
				if took.OK != (n <= none.Balance) {
					t.Errorf("%+v = %+v with a balance of %d", a, took, none.Balance)
				}
				if took.OK && (took.Granted != n || took.Balance != none.Balance-n) {
					t.Errorf("%+v = %+v with a balance of %d", a, took, none.Balance)
				}
				a.Op = algo.Peek
				if _, saw := on(r.rule, w.s, a); saw.OK != took.OK || saw.Retry != took.Retry || saw.Balance != none.Balance {
					t.Errorf("Peek(%d) = %+v, Take = %+v", n, saw, took)
				}
				a.Op = algo.TakeUpTo
				want := max(0, min(n, none.Balance))
				if _, some := on(r.rule, w.s, a); some.Granted != want || some.OK != (want > 0) {
					t.Errorf("TakeUpTo(%d) = %+v, want %d", n, some, want)
				}
			}
		})
	})
}

func TestTakeSplits(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		walks(t, r.rule, func(w *walk) {
			n, m := 1+w.Int64N(r.rule.Capacity()), 1+w.Int64N(max(1, r.rule.Capacity()/2))
			once, all := on(r.rule, w.s, algo.Ask{Now: w.now, N: n + m})
			twice, first := on(r.rule, w.s, algo.Ask{Now: w.now, N: n})
			var second algo.Result
			if first.OK {
				twice, second = on(r.rule, twice, algo.Ask{Now: w.now, N: m})
			}
			if all.OK != second.OK {
				t.Errorf("Take(%d) = %+v, Take(%d), Take(%d) = %+v, %+v", n+m, all, n, m, first, second)
			}
			if !all.OK {
				return
			}
			for range 3 {
				at := w.now + w.Int64N(r.rule.Horizon()+1)
				if b, c := balance(r.rule, once, at), balance(r.rule, twice, at); b != c {
					t.Errorf("balance at %d after Take(%d) = %d, after Take(%d), Take(%d) = %d", at, n+m, b, n, m, c)
				}
			}
		})
	})
}

func TestBackwardTimeMintsNothing(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		walks(t, r.rule, func(w *walk) {
			before := balance(r.rule, w.s, w.now)
			back := max(1, w.now-w.Int64N(r.rule.Horizon()+2))
			if b := balance(r.rule, w.s, back); b > before {
				t.Errorf("balance %d at %d, %d at %d before it", before, w.now, b, back)
			}
			s, a := slices.Clone(w.s), algo.Ask{}
			for range 4 {
				for a = w.ask(); a.Op == algo.Return || a.ID != 0; a = w.ask() {
				}
				a.Now = back
				s, _ = r.rule.Do(s, a)
			}
			if b := balance(r.rule, s, w.now); b > before {
				t.Errorf("balance %d at %d, %d after asks at %d", before, w.now, b, back)
			}
		})
	})
}

func TestReturnNeverLiftsAboveCapacity(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		walks(t, r.rule, func(w *walk) {
			b := balance(r.rule, w.s, w.now)
			if b > r.rule.Capacity() {
				t.Errorf("balance %d, capacity %d", b, r.rule.Capacity())
			}
			a := algo.Ask{Op: algo.Return, Now: w.now, N: w.tokens()}
			if len(w.past) > 0 && w.IntN(2) == 0 {
				a.At = w.past[w.IntN(len(w.past))]
			}
			_, got := on(r.rule, w.s, a)
			if !got.OK || got.Balance < b || got.Balance > r.rule.Capacity() || a.N < got.Balance-b {
				t.Errorf("%+v = %+v with a balance of %d", a, got, b)
			}
		})
	})
}

// TestUntilIsAsNeverUsed checks that from Until on a state answers as none does, and a
// microsecond before it does not. Reset is the time until then.
func TestUntilIsAsNeverUsed(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		walks(t, r.rule, func(w *walk) {
			until := r.rule.Until(w.s)
			_, got := on(r.rule, w.s, algo.Ask{Op: algo.Peek, Now: w.now})
			if want := max(0, until-w.now); got.Reset != want {
				t.Errorf("Reset = %d at %d, Until = %d", got.Reset, w.now, until)
			}
			for _, late := range []int64{0, 1, w.Int64N(r.rule.Horizon() + 1)} {
				a := w.ask()
				a.Now = max(until+late, 1)
				_, used := on(r.rule, w.s, a)
				if _, fresh := on(r.rule, nil, a); used != fresh {
					t.Errorf("%+v, %d after Until: %+v, never used: %+v", a, late, used, fresh)
				}
			}
			if until < 2 {
				return
			}
			a := algo.Ask{Op: algo.Peek, Now: until - 1}
			_, used := on(r.rule, w.s, a)
			if _, fresh := on(r.rule, nil, a); used == fresh {
				t.Errorf("%+v, 1 before Until: %+v, as if never used", a, used)
			}
		})
	})
}

// TestHorizonIsLongEnough checks that a state without debt is as if never used after the
// Horizon.
func TestHorizonIsLongEnough(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		w := newWalk(r.rule, 1)
		for range 1000 {
			w.move(false)
			a := w.ask()
			if a.Op != algo.Charge && a.ID == 0 {
				w.do(a)
			}
			if until := r.rule.Until(w.s); until > w.now+r.rule.Horizon() {
				t.Fatalf("Until = %d at %d, Horizon = %d", until, w.now, r.rule.Horizon())
			}
		}
	})
}

func TestShiftKeepsAnswers(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		walks(t, r.rule, func(w *walk) {
			most := min(3*r.rule.Horizon(), w.now-1-r.rule.Horizon()) / r.grain
			d := r.grain * (1 + w.Int64N(max(1, most)))
			s := slices.Clone(w.s)
			r.rule.Shift(s, d)
			for range 3 {
				a := w.ask()
				a.At = 0
				_, want := on(r.rule, w.s, a)
				a.Now -= d
				if _, got := on(r.rule, s, a); got != want {
					t.Errorf("shifted by %d: %+v = %+v, want %+v", d, a, got, want)
				}
			}
			r.rule.Shift(s, algo.MaxInstant)
			if u := r.rule.Until(s); r.rule.Until(w.s) > 0 && u < 1 || slices.Min(append(s, 0)) < slices.Min(append(w.s, 0)) {
				t.Errorf("%v, shifted too far: %v", w.s, s)
			}
		})
	})
}

// TestBoundInAnySpan checks that in any span of r.span µs at most r.most tokens are
// admitted.
func TestBoundInAnySpan(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		type admission struct{ at, n int64 }
		for seed := range uint64(10) {
			w := newWalk(r.rule, seed)
			var log []admission
			first, sum := 0, int64(0)
			for range 1000 {
				w.move(false)
				a := algo.Ask{Now: w.now, N: w.tokens()}
				if w.IntN(2) == 0 {
					a.Op = algo.TakeUpTo
				}
				got := w.do(a)
				if !got.OK {
					continue
				}
				log, sum = append(log, admission{w.now, got.Granted}), sum+got.Granted
				for log[first].at <= w.now-r.span {
					sum -= log[first].n
					first++
				}
				if sum > r.most {
					t.Fatalf("seed %d: %d tokens in the %d µs to %d, want at most %d", seed, sum, r.span, w.now, r.most)
				}
			}
			if len(log) == 0 {
				t.Fatalf("seed %d: nothing was admitted", seed)
			}
		}
	})
}

// TestStateIsItsWords checks that a copy of a state decides as the state itself does:
// nothing hides elsewhere, and zeros stand for a state that was never used.
func TestStateIsItsWords(t *testing.T) {
	forEachRule(t, func(t *testing.T, r namedRule) {
		walks(t, r.rule, func(w *walk) {
			a := w.ask()
			_, want := on(r.rule, w.s, a)
			padded := append(make([]int64, 0, len(w.s)+64), w.s...)
			if _, got := r.rule.Do(padded, a); got != want {
				t.Errorf("%+v = %+v in a larger slice, want %+v", a, got, want)
			}
			_, want = on(r.rule, nil, a)
			if _, got := r.rule.Do(make([]int64, r.rule.Words()), a); got != want {
				t.Errorf("%+v = %+v of zeros, %+v of nothing", a, got, want)
			}
			if got := r.rule.Until(make([]int64, r.rule.Words())); got != 0 {
				t.Errorf("Until of zeros = %d, want 0", got)
			}
		})
	})
}
