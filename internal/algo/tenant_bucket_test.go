package algo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// A family is a parent with its children and one state. Every admission is replayed into a
// token bucket of the parent, and into one of the child.
type family struct {
	t                    *testing.T
	count, period, burst int64
	children             []algo.Tenant
	rules                []*algo.TenantBucket
	s                    []int64
	parent               *algo.TokenBucket
	parentState          []int64
	private              []*algo.TokenBucket
	states               [][]int64
	admitted             []int64
	latest               int64
}

func newFamily(t *testing.T, count, period, burst int64, children ...algo.Tenant) *family {
	f := &family{t: t, count: count, period: period, burst: burst, admitted: make([]int64, len(children))}
	f.parent = must(algo.NewTokenBucket(count, period, burst)).(*algo.TokenBucket)
	f.become(children)
	return f
}

// become changes the children.
func (f *family) become(children []algo.Tenant) {
	weights := int64(0)
	for _, c := range children {
		weights += c.Weight
	}
	f.children, f.rules, f.private = children, nil, nil
	f.states = make([][]int64, len(children))
	for i, c := range children {
		r, err := algo.NewTenantBucket(f.count, f.period, f.burst, children, i)
		if err != nil {
			f.t.Fatal(err)
		}
		f.rules = append(f.rules, r)
		p, err := algo.NewTokenBucket(f.count*c.Weight, f.period*weights, c.Burst)
		if err != nil {
			f.t.Fatal(err)
		}
		f.private = append(f.private, p)
	}
}

// take takes n tokens for child i, and checks the parent and, if private is set, the child.
func (f *family) take(now int64, i int, n int64, private bool) algo.Result {
	f.t.Helper()
	before := len(f.s)
	var r algo.Result
	f.s, r = f.rules[i].Do(f.s, take(now, n))
	f.latest = max(f.latest, now)
	if r.OK {
		var p algo.Result
		if f.parentState, p = f.parent.Do(f.parentState, take(f.latest, n)); !p.OK {
			f.t.Fatalf("child %d took %d at %d, above the parent: %+v (%d words before)", i, n, now, p, before)
		}
		f.admitted[i] += n
	}
	if private {
		var p algo.Result
		if f.states[i], p = f.private[i].Do(f.states[i], take(f.latest, n)); p.OK && !r.OK {
			f.t.Fatalf("child %d was denied %d at %d: %+v, its private bucket admits it: %+v", i, n, now, r, p)
		}
		if level := f.level(i, p.Balance); level != p.Balance {
			f.t.Fatalf("child %d has a level of %d at %d, its private bucket has %d", i, level, now, p.Balance)
		}
	}
	f.sum()
	return r
}

// words of the state, as algo documents them.
const (
	unitWord, poolWord, levelsWord = 2, 3, 4
)

// level returns the level of child i in whole tokens, or full if the state was never used.
func (f *family) level(i int, full int64) int64 {
	if len(f.s) == 0 || f.s[0] == 0 || f.s[0] < f.latest { // denied: not written
		return full
	}
	return f.s[levelsWord+2*i+1] / f.s[unitWord]
}

// sum checks that all levels together are at most the burst of the parent.
func (f *family) sum() {
	f.t.Helper()
	if len(f.s) == 0 || f.s[0] == 0 {
		return
	}
	sum := f.s[poolWord]
	for i := levelsWord + 1; i < len(f.s); i += 2 { // children of the version that wrote it
		sum += f.s[i]
	}
	if sum > f.burst*f.s[unitWord] {
		f.t.Fatalf("levels of %d units together, the parent has a burst of %d", sum, f.burst*f.s[unitWord])
	}
}

func someChildren(r *rand.Rand, burst int64) (children []algo.Tenant) {
	n := 1 + r.IntN(8)
	for i := range n {
		children = append(children, algo.Tenant{ID: int64(i + 1), Weight: 1 + r.Int64N(5), Burst: 3 + r.Int64N(burst/int64(n)-3)})
	}
	return children
}

// TestTenantsKeepParentAndMinimum sends random requests with idle times. Every admission fits
// into the parent's bucket, the level of each child is that of its private bucket, and what
// that admits is admitted.
func TestTenantsKeepParentAndMinimum(t *testing.T) {
	borrowed := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 2))
		f := newFamily(t, 1+r.Int64N(2000), second, 100, someChildren(r, 100)...)
		now := int64(someInstant)
		for range 2000 {
			switch r.IntN(20) {
			case 0:
				now += r.Int64N(second)
			case 1:
				now += 100 * second / f.count
			default:
				now += r.Int64N(3*second/f.count + 2)
			}
			i := r.IntN(len(f.children))
			if r.IntN(3) > 0 {
				i = 0 // greedy
			}
			had := f.admitted[i]
			_, p := on(f.private[i], f.states[i], peek(now, 1))
			if f.take(now, i, 1+r.Int64N(3), true); !p.OK && f.admitted[i] > had {
				borrowed++
			}
		}
	}
	if borrowed < 1000 {
		t.Errorf("%d requests borrowed, want at least 1000", borrowed)
	}
}

// TestTenantsLendAll checks that one child with unlimited demand gets what the others leave,
// except for their bursts.
func TestTenantsLendAll(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		f := newFamily(t, 1000, second, 100, someChildren(r, 60)...)
		bursts, others := int64(0), int64(0)
		for _, c := range f.children {
			bursts += c.Burst
		}
		const d = 3 * second
		for now := int64(0); now < d; now += 500 {
			if r.IntN(5) == 0 && len(f.children) > 1 {
				f.take(someInstant+now, 1+r.IntN(len(f.children)-1), 1, true)
			}
			for f.take(someInstant+now, 0, 1, true).OK {
			}
		}
		for _, n := range f.admitted[1:] {
			others += n
		}
		if least := 1000*d/second - bursts - others; f.admitted[0] < least {
			t.Errorf("seed %d: the child got %d, want at least %d", seed, f.admitted[0], least)
		}
	}
}

// TestTenantsRetry checks that a retry at Retry succeeds although all others take what they can,
// and that one µs earlier it fails.
func TestTenantsRetry(t *testing.T) {
	denied := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 4))
		f := newFamily(t, 1+r.Int64N(2000), second, 100, someChildren(r, 100)...)
		drain := func(now int64) {
			for i := range f.children {
				for i > 0 && f.take(now, i, 1, true).OK {
				}
			}
		}
		drain(someInstant)
		for f.take(someInstant, 0, 1, true).OK {
		}
		n := 1 + r.Int64N(f.children[0].Burst)
		got := f.take(someInstant, 0, n, true)
		if got.OK {
			continue
		}
		denied++
		at := someInstant + got.Retry
		for range 20 {
			drain(someInstant + r.Int64N(got.Retry))
		}
		drain(at - 1)
		if len(f.children) > 1 {
			if early := f.take(at-1, 0, n, true); early.OK || early.Retry != 1 {
				t.Errorf("seed %d: %d, 1 µs before Retry: %+v", seed, n, early)
			}
		}
		drain(at)
		if late := f.take(at, 0, n, true); !late.OK {
			t.Errorf("seed %d: %d at Retry: %+v", seed, n, late)
		}
	}
	if denied < 100 {
		t.Errorf("%d denied, want at least 100", denied)
	}
}

// TestTenantsReload changes weights, bursts and children during random requests, also
// between two versions that are in use together. The parent's bucket is kept, and if nothing
// is lost, all of it is used.
func TestTenantsReload(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 5))
		f := newFamily(t, 1000, second, 100, someChildren(r, 100)...)
		f.admitted = make([]int64, 8)
		versions := [][]algo.Tenant{f.children, someChildren(r, 100), someChildren(r, 60)}
		now := int64(someInstant)
		for range 3000 {
			now += r.Int64N(1500)
			if r.IntN(5) == 0 {
				f.become(versions[r.IntN(len(versions))])
			}
			f.take(now, r.IntN(len(f.children)), 1+r.Int64N(2), false)
		}
		all := int64(0)
		for _, n := range f.admitted {
			all += n
		}
		if least := 1000 * (now - someInstant) / second * 8 / 10; all < least {
			t.Errorf("seed %d: %d admitted, want at least %d", seed, all, least)
		}
	}
}

// TestTenantsClockBack lets the clock go back and forth. The parent's bucket, whose clock does
// not go back, admits everything.
func TestTenantsClockBack(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 6))
		f := newFamily(t, 1000, second, 100, someChildren(r, 100)...)
		now := int64(someInstant)
		for range 2000 {
			now += r.Int64N(2000)
			f.take(now-r.Int64N(20)*r.Int64N(5000), r.IntN(len(f.children)), 1, false)
		}
	}
}

// TestTenantsDebt checks that debt stays with its child, and that a return pays it first.
func TestTenantsDebt(t *testing.T) {
	children := []algo.Tenant{{ID: 1, Weight: 1, Burst: 10}, {ID: 2, Weight: 1, Burst: 10}}
	a := must(algo.NewTenantBucket(20, second, 30, children, 0))
	b := must(algo.NewTenantBucket(20, second, 30, children, 1))
	var s []int64
	do := func(rule algo.Rule, ask algo.Ask, want string) {
		t.Helper()
		var r algo.Result
		if s, r = rule.Do(s, ask); story(r) != want {
			t.Fatalf("%+v = %q, want %q", ask, story(r), want)
		}
	}
	at := int64(someInstant)
	do(a, charge(at, 15), "ok 15, -5 left, reset 1500000") // neither place has 15
	do(a, take(at, 1), "denied, -5 left, retry 600000, reset 1500000")
	do(b, take(at, 10), "ok 10, 10 left, reset 1500000")
	do(b, takeUpTo(at, 12), "ok 10, 0 left, reset 1750000")
	do(b, take(at, 1), "denied, 0 left, retry 100000, reset 1750000")
	do(b, take(at, 11), "denied, 0 left, never, reset 1750000")
	do(a, giveBack(at, 7), "ok 0, 2 left, reset 1400000")
	do(a, giveBack(at, 100), "ok 0, 20 left, reset 1000000")
	do(b, take(at+100_000, 2), "ok 2, 9 left, reset 900000") // from the pool
}

// TestNewTenantBucket checks the bounds of the constructor.
func TestNewTenantBucket(t *testing.T) {
	one := algo.Tenant{ID: 1, Weight: 1, Burst: 5}
	for _, c := range []struct {
		name                 string
		count, period, burst int64
		children             []algo.Tenant
		child                int
		want                 error
	}{
		{"no children", 10, second, 10, nil, 0, algo.ErrRange},
		{"too many", 10, second, 10, make([]algo.Tenant, 257), 0, algo.ErrRange},
		{"no such child", 10, second, 10, []algo.Tenant{one}, 1, algo.ErrRange},
		{"weight", 10, second, 10, []algo.Tenant{{ID: 1, Burst: 1}}, 0, algo.ErrRange},
		{"burst", 10, second, 10, []algo.Tenant{{ID: 1, Weight: 1}}, 0, algo.ErrRange},
		{"sum of bursts", 10, second, 10, []algo.Tenant{one, {ID: 2, Weight: 1, Burst: 6}}, 0, algo.ErrRange},
		{"same id", 10, second, 10, []algo.Tenant{one, one}, 0, algo.ErrRange},
		{"units", 1, day, algo.MaxCount, []algo.Tenant{one}, 0, algo.ErrRange},
		{"units", 7, day, 200_000, []algo.Tenant{one, {ID: 2, Weight: 999_983, Burst: 1}}, 0, algo.ErrInexact},
		{"fine", 1000, second, 1000, []algo.Tenant{one, {ID: 2, Weight: 999_983, Burst: 1}}, 1, nil},
	} {
		if _, err := algo.NewTenantBucket(c.count, c.period, c.burst, c.children, c.child); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	r, _ := algo.NewTenantBucket(1000, second, 1000, []algo.Tenant{{ID: 1, Weight: 3, Burst: 1}, {ID: 2, Weight: 1, Burst: 1}}, 0)
	if n, period := r.Guaranteed(); fmt.Sprint(n, period) != fmt.Sprint(3, 4000) {
		t.Errorf("Guaranteed() = %d per %d µs, want 3 per 4000", n, period)
	}
}
