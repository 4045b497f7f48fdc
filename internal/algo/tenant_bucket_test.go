package algo_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// A family is a parent with its children and one state. Every admission is replayed into a
// token bucket of the parent, and into one of the child.
type family struct {
	t                    *testing.T
	count, period, burst int64
	weighted             bool
	children             []algo.Tenant
	parent               *algo.Tenants
	rules                []*algo.TenantBucket
	s                    []int64
	bucket               *algo.TokenBucket
	bucketState          []int64
	private              []*algo.TokenBucket
	states               [][]int64
	admitted             []int64
	latest               int64
}

func newFamily(t *testing.T, count, burst int64, weighted bool, children ...algo.Tenant) *family {
	f := &family{t: t, count: count, period: second, burst: burst, weighted: weighted}
	f.admitted = make([]int64, len(children))
	f.bucket = must(algo.NewTokenBucket(count, second, burst)).(*algo.TokenBucket)
	f.become(children)
	return f
}

// become changes the children, at the latest instant.
func (f *family) become(children []algo.Tenant) {
	weights := int64(0)
	for _, c := range children {
		weights += c.Weight
	}
	g, err := algo.NewTenants(f.count, f.period, f.burst, children, f.weighted)
	if err != nil {
		f.t.Fatal(err)
	}
	if f.parent != nil {
		f.s = algo.Migrate(f.rules[0], f.s, g.Child(0), nil, f.latest)
	}
	f.parent, f.children, f.rules, f.private = g, children, nil, nil
	f.states = make([][]int64, len(children))
	for i, c := range children {
		f.rules = append(f.rules, g.Child(i))
		p, err := algo.NewTokenBucket(f.count*c.Weight, f.period*weights, c.Burst)
		if err != nil {
			f.t.Fatal(err)
		}
		f.private = append(f.private, p)
	}
	f.sum()
}

// take takes n tokens for child i. It checks the parent and, if private is set, that exactly
// what the private bucket of the child admits is taken from its own level.
func (f *family) take(now int64, i int, n int64, private bool) algo.Result {
	f.t.Helper()
	var r algo.Result
	f.s, r = f.rules[i].Do(f.s, take(now, n))
	f.latest = max(f.latest, now)
	if r.OK {
		var p algo.Result
		if f.bucketState, p = f.bucket.Do(f.bucketState, take(f.latest, n)); !p.OK {
			f.t.Fatalf("child %d took %d at %d, above the parent: %+v", i, n, now, p)
		}
		f.admitted[i] += n
	}
	if private {
		var p algo.Result
		if f.states[i], p = f.private[i].Do(f.states[i], take(f.latest, n)); p.OK != (r.OK && r.Place == algo.Own) {
			f.t.Fatalf("child %d took %d at %d: %+v, its private bucket %+v", i, n, now, r, p)
		}
	}
	f.sum()
	return r
}

// sum checks that all levels together are at most the burst of the parent, and that the state
// counts them.
func (f *family) sum() {
	f.t.Helper()
	if len(f.s) == 0 || f.s[0] == 0 {
		return
	}
	const now, pool, lacks, rest, given, owed, lists = 0, 1, 3, 4, 5, 7, 8
	n := len(f.children)
	list := func(i int) []int64 { return f.s[lists+i*n : lists+i*n+n] }
	p := f.parent.Child(0).Params(0)
	sum, missing, credit := f.s[pool]+f.s[rest], int64(0), int64(0)
	for i := range f.children {
		c := f.parent.Child(i).Params(0)
		rate, burst, weight := c[6], c[7], c[8]
		lack := int64(0)
		if full := list(0)[i]; full > 0 {
			lack = rate*(full-f.s[now]) - list(1)[i]
			missing += lack
		}
		sum += burst - lack
		if !f.weighted {
			continue
		}
		if lack = 0; list(4)[i] > 0 {
			lack = weight*(list(4)[i]-f.s[given]) - list(5)[i]
			credit += lack
		}
		sum += burst - lack
	}
	if unit := p[1]; sum > f.burst*unit || missing != f.s[lacks] || credit != f.s[owed] {
		f.t.Fatalf("%d units in all levels, want at most %d; children lack %d, want %d; credits lack %d, want %d",
			sum, f.burst*unit, f.s[lacks], missing, f.s[owed], credit)
	}
}

func someChildren(r *rand.Rand, bursts int64) (children []algo.Tenant) {
	n := 1 + r.IntN(8)
	for i := range n {
		children = append(children, algo.Tenant{ID: int64(i + 1), Weight: 1 + r.Int64N(5), Burst: 3 + r.Int64N(bursts/int64(n)-3)})
	}
	return children
}

// forEachSurplus runs f for both ways to divide surplus. With credits, bursts are at most half
// as large.
func forEachSurplus(t *testing.T, f func(t *testing.T, weighted bool, bursts int64)) {
	t.Run("first_come", func(t *testing.T) { f(t, false, 100) })
	t.Run("weighted", func(t *testing.T) { f(t, true, 50) })
}

// TestTenantsKeepParentAndMinimum sends random requests with idle times. Every admission fits
// into the parent's bucket, and a child takes from its own level exactly what its private
// bucket admits.
func TestTenantsKeepParentAndMinimum(t *testing.T) {
	forEachSurplus(t, func(t *testing.T, weighted bool, bursts int64) {
		var places [3]int
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 2))
			f := newFamily(t, 1+r.Int64N(2000), 100, weighted, someChildren(r, bursts)...)
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
				if d := f.take(now, i, 1+r.Int64N(3), true); d.OK {
					places[d.Place]++
				}
			}
		}
		for p, n := range places {
			if n < 1000 && (weighted || p != int(algo.Credit)) {
				t.Errorf("%d requests from place %d, want at least 1000", n, p)
			}
		}
	})
}

// TestTenantsLendAll checks that one child with unlimited demand gets what the others leave,
// except for their bursts and credits.
func TestTenantsLendAll(t *testing.T) {
	forEachSurplus(t, func(t *testing.T, weighted bool, bursts int64) {
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 3))
			f := newFamily(t, 1000, 100, weighted, someChildren(r, min(bursts, 60))...)
			reserved, others := int64(0), int64(0)
			for _, c := range f.children {
				reserved += c.Burst
				if weighted {
					reserved += c.Burst
				}
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
			if least := 1000*d/second - reserved - others; f.admitted[0] < least {
				t.Errorf("seed %d: the child got %d, want at least %d", seed, f.admitted[0], least)
			}
		}
	})
}

// TestTenantsDivideByWeight has two children with demand 9:1 and 1:1, and equal and unequal
// weights, borrow what a third leaves.
func TestTenantsDivideByWeight(t *testing.T) {
	for _, c := range []struct {
		weighted bool
		weights  [2]int64
		demand   [2]int64 // requests per ms
		want     [2]int64 // per second, of 1000 in all
	}{
		{false, [2]int64{1, 1}, [2]int64{9, 1}, [2]int64{850, 150}},
		{true, [2]int64{1, 1}, [2]int64{9, 1}, [2]int64{500, 500}},
		{true, [2]int64{1, 3}, [2]int64{4, 4}, [2]int64{250, 750}},
	} {
		weights := c.weights[0] + c.weights[1]
		f := newFamily(t, 1000, 100, c.weighted,
			algo.Tenant{ID: 1, Weight: c.weights[0], Burst: 5}, algo.Tenant{ID: 2, Weight: c.weights[1], Burst: 5}, algo.Tenant{ID: 3, Weight: 8 * weights, Burst: 5})
		r := rand.New(rand.NewPCG(1, 9))
		const seconds = 20
		for now := int64(0); now < seconds*second; now += 1000 {
			var asks []int
			for i, n := range c.demand {
				asks = append(asks, slices.Repeat([]int{i}, int(n))...)
			}
			r.Shuffle(len(asks), func(i, j int) { asks[i], asks[j] = asks[j], asks[i] })
			for _, i := range asks {
				f.take(someInstant+now, i, 1, true)
			}
		}
		for i, want := range c.want {
			if got := f.admitted[i] / seconds; got < want-40 || got > want+40 {
				t.Errorf("weighted %v, weights %v, demand %v: child %d gets %d per second, want about %d", c.weighted, c.weights, c.demand, i, got, want)
			}
		}
		t.Logf("weighted %v, weights %v, demand %v: %d and %d per second", c.weighted, c.weights, c.demand, f.admitted[0]/seconds, f.admitted[1]/seconds)
	}
}

// TestTenantsRetry checks that a retry at Retry succeeds although all others take what they can,
// and that one µs earlier it fails.
func TestTenantsRetry(t *testing.T) {
	forEachSurplus(t, func(t *testing.T, weighted bool, bursts int64) {
		denied := 0
		for seed := range uint64(200) {
			r := rand.New(rand.NewPCG(seed, 4))
			f := newFamily(t, 1+r.Int64N(2000), 100, weighted, someChildren(r, bursts)...)
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
			for k := range got.Retry / 20 {
				if k < 20 {
					drain(someInstant + (k+1)*(got.Retry/20) - 1)
				}
			}
			drain(at - 1)
			if early := f.take(at-1, 0, n, true); len(f.children) > 1 && !weighted && (early.OK || early.Retry != 1) {
				t.Errorf("seed %d: %d, 1 µs before Retry: %+v", seed, n, early)
			} else if early.OK {
				continue // borrowed
			}
			drain(at)
			if late := f.take(at, 0, n, true); !late.OK {
				t.Errorf("seed %d: %d at Retry: %+v", seed, n, late)
			}
		}
		if denied < 100 {
			t.Errorf("%d denied, want at least 100", denied)
		}
	})
}

// TestTenantsReload changes weights, bursts and children during random requests, also
// between two versions that are in use together. The parent's bucket is kept, and if nothing
// is lost, all of it is used.
func TestTenantsReload(t *testing.T) {
	forEachSurplus(t, func(t *testing.T, weighted bool, bursts int64) {
		for seed := range uint64(60) {
			r := rand.New(rand.NewPCG(seed, 5))
			f := newFamily(t, 1000, 100, weighted, someChildren(r, bursts)...)
			f.admitted = make([]int64, 8)
			versions := [][]algo.Tenant{f.children, someChildren(r, bursts), someChildren(r, 40)}
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
			if least := 1000 * (now - someInstant) / second * 7 / 10; all < least {
				t.Errorf("seed %d: %d admitted, want at least %d", seed, all, least)
			}
		}
	})
}

// TestTenantsReloadKeepsLevels checks the levels after a change of weights and bursts.
func TestTenantsReloadKeepsLevels(t *testing.T) {
	f := newFamily(t, 1, 100, false, algo.Tenant{ID: 1, Weight: 1, Burst: 30}, algo.Tenant{ID: 2, Weight: 1, Burst: 20}, algo.Tenant{ID: 3, Weight: 1, Burst: 10})
	at := int64(someInstant)
	f.take(at, 0, 30, false)
	f.take(at, 0, 40, false) // borrowed: all of it
	f.take(at, 1, 15, false)
	f.become([]algo.Tenant{{ID: 2, Weight: 7, Burst: 8}, {ID: 1, Weight: 1, Burst: 5}, {ID: 4, Weight: 1, Burst: 9}, {ID: 3, Weight: 1, Burst: 10}})
	var left []int64
	for _, rule := range f.rules {
		_, r := rule.Do(slices.Clone(f.s), peek(at, 1))
		left = append(left, r.Balance)
	}
	if want := []int64{5, 0, 9, 1}; !slices.Equal(left, want) { // 15 in all
		t.Errorf("%v left, want %v", left, want)
	}
}

// TestTenantsAdded checks that a child which a reload adds gets its minimum within a second, although
// the others take all that they can before and after.
func TestTenantsAdded(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		f := newFamily(t, 1000, 200, weighted, algo.Tenant{ID: 1, Weight: 3, Burst: 30}, algo.Tenant{ID: 2, Weight: 1, Burst: 10})
		f.admitted = make([]int64, 3)
		now := int64(someInstant)
		second := func() {
			for range 10_000 { // each child asks 10 times as much as the parent has
				now += 100
				for i := range f.children {
					f.take(now, i, 1, false)
				}
			}
		}
		second()
		f.become([]algo.Tenant{{ID: 1, Weight: 3, Burst: 30}, {ID: 2, Weight: 1, Burst: 10}, {ID: 3, Weight: 1, Burst: 10}})
		for range 3 {
			before := f.admitted[2]
			second()
			if got, least := f.admitted[2]-before, int64(1000/5-1); got < least {
				t.Errorf("weighted %t: the added child got %d in a second, want at least %d", weighted, got, least)
			}
		}
	}
}

// TestTenantsClockBack lets the clock go back and forth. The parent's bucket, whose clock does
// not go back, admits everything.
func TestTenantsClockBack(t *testing.T) {
	forEachSurplus(t, func(t *testing.T, weighted bool, bursts int64) {
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, 6))
			f := newFamily(t, 1000, 100, weighted, someChildren(r, bursts)...)
			now := int64(someInstant)
			for range 2000 {
				now += r.Int64N(2000)
				f.take(now-r.Int64N(20)*r.Int64N(5000), r.IntN(len(f.children)), 1, false)
			}
		}
	})
}

// TestTenantsDenialIsUnseen checks that a denial and a Peek have no effect on later results:
// only the instant of a state may change.
func TestTenantsDenialIsUnseen(t *testing.T) {
	forEachSurplus(t, func(t *testing.T, weighted bool, bursts int64) {
		for seed := range uint64(100) {
			r := rand.New(rand.NewPCG(seed, 7))
			g, err := algo.NewTenants(1+r.Int64N(2000), second, 100, someChildren(r, bursts), weighted)
			if err != nil {
				t.Fatal(err)
			}
			w := newWalk(g.Child(0), seed)
			var without []int64
			for range 300 {
				w.move(false)
				a := w.ask()
				before := slices.Clone(w.s)
				got := w.do(a)
				if got.OK && a.Op != algo.Peek {
					var want algo.Result
					if without, want = w.rule.Do(without, a); got != want {
						t.Fatalf("%+v = %+v after denials, %+v without; state %v", a, got, want, before)
					}
				}
			}
		}
	})
}

// TestTenantsDebt checks that debt stays with its child, and that a return pays it first.
func TestTenantsDebt(t *testing.T) {
	rules := tenant(algo.NewTenants(20, second, 30, []algo.Tenant{{ID: 1, Weight: 1, Burst: 10}, {ID: 2, Weight: 1, Burst: 10}}, false))
	a, b := rules(0), rules(1)
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

// TestTenantsReturnToPlace checks that tokens go back to the place that they are from, and that
// what exceeds it is lent.
func TestTenantsReturnToPlace(t *testing.T) {
	for _, c := range []struct {
		place algo.Place
		n     int64
		own   string // of child 0, whose level, credit and pool lack 5 each
		other string // of child 1, of whom nothing is missing but the pool
	}{
		{algo.Own, 3, "8 0 5", "10 0 5"},
		{algo.Own, 8, "10 0 8", "10 0 8"},
		{algo.Pool, 3, "5 0 8", "10 0 8"},
		{algo.Pool, 8, "5 0 10", "10 0 10"}, // 3 have no room
	} {
		rules := tenant(algo.NewTenants(1, day, 30, []algo.Tenant{{ID: 1, Weight: 1, Burst: 10}, {ID: 2, Weight: 1, Burst: 10}}, false))
		at := int64(someInstant)
		s, _ := rules(0).Do(nil, take(at, 5))
		s, _ = rules(0).Do(s, take(at, 5))
		if s, r := rules(0).Do(s, take(at, 5)); r.Place != algo.Pool {
			t.Fatalf("%+v, want tokens of the pool", r)
		} else {
			s, _ = rules(0).Do(s, giveBack(at, 5)) // 5 of its own
			a := giveBack(at, c.n)
			a.Place = c.place
			s, _ = rules(0).Do(s, a)
			for i, want := range []string{c.own, c.other} {
				if got := placesOf(rules(i), s, at); got != want {
					t.Errorf("%d back to place %d: child %d has %s, want %s", c.n, c.place, i, got, want)
				}
			}
		}
	}
	rules := tenant(algo.NewTenants(1, day, 50, []algo.Tenant{{ID: 1, Weight: 1, Burst: 10}, {ID: 2, Weight: 1, Burst: 10}}, true))
	at := int64(someInstant)
	s, _ := rules(0).Do(nil, take(at, 10))
	s, _ = rules(0).Do(s, take(at, 10))
	a := giveBack(at, 4)
	a.Place = algo.Credit
	if s, _ = rules(0).Do(s, a); placesOf(rules(0), s, at) != "0 4 10" {
		t.Errorf("4 back to the credit: %s", placesOf(rules(0), s, at))
	}
	if s, _ = algo.Settling(rules(0), rules(0)).Do(s, giveBack(at, 3)); placesOf(rules(0), s, at) != "3 4 10" {
		t.Errorf("3 back to the level: %s", placesOf(rules(0), s, at))
	}
	old := tenant(algo.NewTenants(2, day, 50, []algo.Tenant{{ID: 1, Weight: 1, Burst: 10}}, true))(0)
	if s, _ = algo.Settling(rules(1), old).Do(s, giveBack(at, 2)); placesOf(rules(0), s, at) != "3 6 10" {
		t.Errorf("2 back under another parent: %s", placesOf(rules(0), s, at))
	}
}

// placesOf returns the tokens of a child in each place.
func placesOf(rule algo.Rule, s []int64, now int64) string {
	var n [3]int64
	s = slices.Clone(s)
	for r := (algo.Result{OK: true}); r.OK; {
		if s, r = rule.Do(s, take(now, 1)); r.OK {
			n[r.Place]++
		}
	}
	return fmt.Sprint(n[0], n[1], n[2])
}

// TestNewTenants checks the bounds of the constructor.
func TestNewTenants(t *testing.T) {
	one := algo.Tenant{ID: 1, Weight: 1, Burst: 5}
	for _, c := range []struct {
		name                 string
		count, period, burst int64
		children             []algo.Tenant
		weighted             bool
		want                 error
	}{
		{"no children", 10, second, 10, nil, false, algo.ErrRange},
		{"too many", 10, second, 10, make([]algo.Tenant, 1001), false, algo.ErrRange},
		{"weight", 10, second, 10, []algo.Tenant{{ID: 1, Burst: 1}}, false, algo.ErrRange},
		{"burst", 10, second, 10, []algo.Tenant{{ID: 1, Weight: 1}}, false, algo.ErrRange},
		{"sum of bursts", 10, second, 10, []algo.Tenant{one, {ID: 2, Weight: 1, Burst: 6}}, false, algo.ErrRange},
		{"sum of credits", 10, second, 19, []algo.Tenant{one, {ID: 2, Weight: 1, Burst: 5}}, true, algo.ErrRange},
		{"same id", 10, second, 10, []algo.Tenant{one, one}, false, algo.ErrRange},
		{"units", 1, day, algo.MaxCount, []algo.Tenant{one}, false, algo.ErrRange},
		{"units", 7, day, 200_000, []algo.Tenant{one, {ID: 2, Weight: 999_983, Burst: 1}}, false, algo.ErrInexact},
		{"fine", 1000, second, 1000, []algo.Tenant{one, {ID: 2, Weight: 999_983, Burst: 1}}, false, nil},
		{"fine by weight", 1000, second, 1000, []algo.Tenant{one, {ID: 2, Weight: 999_983, Burst: 1}}, true, nil},
	} {
		if _, err := algo.NewTenants(c.count, c.period, c.burst, c.children, c.weighted); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	g, _ := algo.NewTenants(1000, second, 1000, []algo.Tenant{{ID: 1, Weight: 3, Burst: 1}, {ID: 2, Weight: 1, Burst: 1}}, false)
	if n, period := g.Child(0).Guaranteed(); fmt.Sprint(n, period) != fmt.Sprint(3, 4000) {
		t.Errorf("Guaranteed() = %d per %d µs, want 3 per 4000", n, period)
	}
}
