package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

func limits(texts ...string) (ls []weir.Limit) {
	for _, text := range texts {
		ls = append(ls, weir.MustLimit(text))
	}
	return ls
}

// follows returns the limits that the requests of r follow, such as "5/s: 7/s 9/s, 1/h:".
func follows(s *policy.Set, r policy.Attributes) string {
	var q policy.Matches
	s.Match(&q, r)
	var lines []string
	short := func(l weir.Limit) string { text, _, _ := strings.Cut(l.String(), " "); return text }
	for _, r := range q.Requests {
		line := short(r.Limit) + ":"
		for _, l := range r.From {
			line += " " + short(l)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, ", ")
}

// TestWithPrevious checks sequences of sets with one policy. The states of p have no names, those
// of n have.
func TestWithPrevious(t *testing.T) {
	n := func(texts ...string) policy.Config { return policy.Config{Limits: limits(texts...)} }
	p := func(texts ...string) policy.Config {
		return policy.Config{Limits: limits(texts...), Carry: weir.CarryAsIs}
	}
	with := func(c policy.Config, change func(*policy.Config)) policy.Config { change(&c); return c }
	gone := policy.Config{Name: "other"}
	reset := func(c *policy.Config) { c.Carry = weir.CarryReset }
	over := func(texts ...string) func(*policy.Config) {
		return func(c *policy.Config) {
			c.Overrides = append(c.Overrides, policy.Override{Key: []string{"1.2.3.4"}, Limits: limits(texts...)})
		}
	}
	block := func(c *policy.Config) {
		c.Overrides = append(c.Overrides, policy.Override{Key: []string{"1.2.3.4"}, Block: true})
	}
	wild := func(text string) func(*policy.Config) {
		return func(c *policy.Config) {
			c.Overrides = append(c.Overrides, policy.Override{Key: []string{"1.2.3.0/24"}, Limits: limits(text)})
		}
	}
	for _, tc := range []struct {
		name  string
		story []policy.Config
		want  []string
	}{
		{"nothing changed", []policy.Config{p("1/s"), p("1/s"), p("1/s burst 1")}, []string{"1/s:", "1/s:", "1/s:"}},
		{"changed once", []policy.Config{p("1/s"), p("2/s"), p("2/s")}, []string{"1/s:", "2/s: 1/s", "2/s: 1/s"}},
		{"there and back", []policy.Config{p("1/s"), p("2/s"), p("1/s"), p("2/s"), p("3/s")}, []string{"1/s:", "2/s: 1/s", "1/s: 2/s", "2/s: 1/s", "3/s: 2/s 1/s"}},
		{"four back", []policy.Config{p("1/s"), p("2/s"), p("3/s"), p("4/s"), p("4/s"), p("5/s"), p("6/s")},
			[]string{"1/s:", "2/s: 1/s", "3/s: 2/s 1/s", "4/s: 3/s 2/s 1/s", "4/s: 3/s 2/s 1/s", "5/s: 4/s 3/s 2/s 1/s", "6/s: 5/s 4/s 3/s 2/s"}},
		{"equal ones first", []policy.Config{p("1/s", "1/m", "1/h"), p("1/m", "2/s", "2/h"), p("2/h", "1/m")},
			[]string{"1/s:, 1/m:, 1/h:", "1/m:, 2/s: 1/s, 2/h: 1/h", "2/h: 1/h, 1/m:"}},
		{"fewer and more", []policy.Config{p("1/s", "1/m"), p("2/s"), p("3/s", "3/m"), p("4/s", "4/m")},
			[]string{"1/s:, 1/m:", "2/s: 1/s", "3/s: 2/s 1/s, 3/m:", "4/s: 3/s 2/s 1/s, 4/m: 3/m"}},
		{"one in force is followed by none", []policy.Config{p("1/s"), p("2/s"), p("3/s", "1/s")}, []string{"1/s:", "2/s: 1/s", "3/s: 2/s, 1/s:"}},
		{"a newer line has it", []policy.Config{p("1/s", "1/m"), p("1/m", "2/m"), p("3/s", "3/m")},
			[]string{"1/s:, 1/m:", "1/m:, 2/m: 1/s", "3/s: 1/m, 3/m: 2/m 1/s"}},
		{"blocked in between", []policy.Config{p("1/s", "1/m"), with(p("1/s", "1/m"), block), with(p("2/s"), block), p("3/s", "3/m")},
			[]string{"1/s:, 1/m:", "", "", "3/s: 1/s, 3/m: 1/m"}}, // 2/s was never used
		{"all blocked in between", []policy.Config{p("1/s"), {Limits: []weir.Limit{}, Block: true}, p("2/s")}, []string{"1/s:", "", "2/s: 1/s"}},
		{"unlimited in between", []policy.Config{p("1/s"), {Limits: []weir.Limit{}, Unlimited: true}, with(p("2/s"), over("7/s"))}, []string{"1/s:", "", "7/s: 1/s"}},
		{"absent in between", []policy.Config{p("1/s"), gone, p("2/s"), p("3/s")}, []string{"1/s:", "10/s:", "2/s:", "3/s: 2/s"}},
		{"other key parts", []policy.Config{p("1/s"), with(p("2/s"), func(c *policy.Config) { c.Key = []policy.KeyPart{part(policy.ClientIP, "56")} }),
			with(p("3/s"), func(c *policy.Config) { c.Key = []policy.KeyPart{part(policy.ClientIP, "56")} })}, []string{"1/s:", "2/s:", "3/s: 2/s"}},
		{"the same key parts in other words", []policy.Config{p("1/s"), with(p("2/s"), func(c *policy.Config) { c.Key = []policy.KeyPart{part(policy.ClientIP, "64")} })},
			[]string{"1/s:", "2/s: 1/s"}},
		{"off in between", []policy.Config{p("1/s"), with(p("2/s"), func(c *policy.Config) { c.Mode = policy.Off }), p("2/s")}, []string{"1/s:", "", "2/s: 1/s"}},
		{"reset", []policy.Config{p("1/s"), with(p("2/s"), reset), p("2/s"), p("3/s")}, []string{"1/s:", "2/s:", "2/s:", "3/s: 2/s"}},
		{"another algorithm", []policy.Config{p("1/s"), p("2/s fixed_window"), p("3/s sliding_log")}, []string{"1/s:", "2/s: 1/s", "3/s: 2/s 1/s"}},
		{"slots end by themselves", []policy.Config{p("5 concurrency", "1/s"), p("6 concurrency", "2/s"), p("3/s", "7 concurrency")},
			[]string{"5:, 1/s:", "6:, 2/s: 1/s", "3/s: 2/s 1/s, 7:"}},
		{"an override comes and goes", []policy.Config{p("1/s"), with(p("1/s"), over("7/s", "7/h")), p("1/s"), p("2/s")},
			[]string{"1/s:", "7/s: 1/s, 7/h:", "1/s: 7/s", "2/s: 1/s 7/s"}},
		{"an override alone changes", []policy.Config{with(p("1/s"), over("7/s")), with(p("1/s"), over("8/s")), with(p("2/s"), over("8/s"))},
			[]string{"7/s:", "8/s: 7/s", "8/s: 7/s"}},
		{"the others change alone", []policy.Config{with(p("1/s"), over("7/s")), with(p("2/s"), over("7/s"))}, []string{"7/s:", "7/s:"}},
		{"a wildcard of others", []policy.Config{with(p("1/s"), func(c *policy.Config) {
			c.Overrides = []policy.Override{{Key: []string{"1.2.9.0/24"}, Limits: limits("7/s")}}
		}), with(p("1/s"), wild("7/s"))}, []string{"1/s:", "7/s: 1/s"}},
		{"a wildcard, then a name", []policy.Config{p("1/s"), with(p("1/s"), wild("7/s")), with(with(p("1/s"), wild("7/s")), over("8/s"))},
			[]string{"1/s:", "7/s: 1/s", "8/s: 7/s 1/s"}},
		{"a candidate", []policy.Config{p("1/s"), with(p("1/s"), func(c *policy.Config) { c.Candidate = limits("2/s") }),
			with(p("2/s"), func(c *policy.Config) { c.Candidate = limits("3/s") }), p("3/s")},
			[]string{"1/s:", "1/s:, 2/s:", "2/s: 1/s, 3/s: 2/s", "3/s: 2/s 1/s"}},
		{"a named state stays", []policy.Config{n("1/s", "1/h"), n("2/s", "1/h burst 5"), n("2/h", "3/s")}, []string{"1/s:, 1/h:", "2/s:, 1/h:", "2/h:, 3/s:"}},
		{"another period", []policy.Config{n("1/s"), n("2/s"), n("3/m"), n("4/m"), n("5/s"), n("6/h fixed_window")},
			[]string{"1/s:", "2/s:", "3/m: 2/s", "4/m: 2/s", "5/s: 4/m", "6/h: 5/s 4/m"}},
		{"another algorithm, with names", []policy.Config{n("1/s"), n("2/s fixed_window"), n("3/s leaky_bucket")}, []string{"1/s:", "2/s: 1/s", "3/s: 2/s 1/s"}},
		{"two of one period", []policy.Config{n("1/s"), n("2/s", "1/s"), n("3/s", "1/s"), n("4/s")},
			[]string{"1/s:", "2/s:, 1/s: 1/s", "3/s: 2/s, 1/s: 1/s", "4/s: 3/s 2/s"}},
		{"a named state of an override", []policy.Config{n("1/s"), with(n("1/s"), over("7/s", "7/h")), n("1/s"), n("2/s"), with(n("2/s"), wild("9/m"))},
			[]string{"1/s:", "7/s:, 7/h:", "1/s:", "2/s:", "9/m: 2/s"}},
		{"reset with names", []policy.Config{n("1/s"), with(n("1/s"), reset), with(n("2/s"), reset), n("2/s"), n("3/s")},
			[]string{"1/s:", "1/s: 1/s", "2/s:", "2/s: 2/s", "3/s: 2/s"}},
		{"as is with names", []policy.Config{n("1/s"), p("1/s"), p("2/s"), n("2/s"), n("3/s")}, []string{"1/s:", "1/s: 1/s", "2/s: 1/s 1/s", "2/s: 2/s 1/s", "3/s: 2/s 1/s"}},
	} {
		var s *policy.Set
		for i, c := range tc.story {
			s = mustSet(t, mustNew(t, c)).WithPrevious(s)
			if got := follows(s, request{ip: "1.2.3.4"}); got != tc.want[i] {
				t.Errorf("%s, set %d: %s, want %s", tc.name, i, got, tc.want[i])
			}
		}
	}
}

// TestWithPreviousIsASetOfItsOwn checks that WithPrevious does not change its receiver.
func TestWithPreviousIsASetOfItsOwn(t *testing.T) {
	old := mustSet(t, mustNew(t, policy.Config{Limits: limits("1/s")}))
	s := mustSet(t, mustNew(t, policy.Config{Limits: limits("2/s"), Carry: weir.CarryAsIs, Candidate: limits("3/s")}), mustNew(t, policy.Config{Name: "b"}))
	after := s.WithPrevious(old)
	if got := follows(s, request{}); got != "2/s:, 10/s:, 3/s:" {
		t.Errorf("Following changed its set: %s", got)
	}
	var q policy.Matches
	after.Match(&q, request{})
	if r := q.Requests[0]; len(r.From) != 1 || r.Carry != weir.CarryAsIs || r.Validate() != nil {
		t.Errorf("request = %+v, want one that follows, and how", r)
	}
	if got := follows(after.WithPrevious(s), request{}); got != "2/s:, 10/s:, 3/s:" {
		t.Errorf("a set that follows another forgets what it followed before: %s", got)
	}
	if len(after.Policies()) != 2 || after.Policy("p~candidate") == nil || after.Policy("b") != s.Policy("b") {
		t.Error("a set that follows has other policies")
	}
	for _, none := range []*policy.Set{nil, new(policy.Set)} {
		if got := follows(s.WithPrevious(none), request{}); got != "2/s:, 10/s:, 3/s:" {
			t.Errorf("after no set: %s", got)
		}
		if got := follows(new(policy.Set).WithPrevious(s).WithPrevious(none), request{}); got != "" {
			t.Errorf("the zero Set asks %s", got)
		}
	}
}

// TestWithPreviousAtRandom compares long sequences with a model that keeps all sets, and
// checks invariants of all requests.
func TestWithPreviousAtRandom(t *testing.T) {
	pool := limits("1/s", "2/s", "3/s", "4/s", "5/s", "6/s", "7/s", "8/s", "5 concurrency", "6 concurrency")
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		several := seed%2 == 1
		var s *policy.Set
		var past []weir.Limit // of a policy of one limit, newest first, all of them
		for step := range 60 {
			c := policy.Config{Limits: pool[rng.IntN(8):][:1], Carry: weir.CarryAsIs}
			if several {
				c.Limits, c.Carry = nil, []weir.Carry{weir.CarryAsIs, weir.CarryUsage}[rng.IntN(2)]
				for _, i := range rng.Perm(len(pool))[:1+rng.IntN(4)] {
					c.Limits = append(c.Limits, pool[i])
				}
				for _, key := range []string{"1.2.3.4", "1.2.3.0/24"} {
					if rng.IntN(2) == 0 {
						c.Overrides = append(c.Overrides, policy.Override{Key: []string{key}, Limits: pool[rng.IntN(6):][:1+rng.IntN(4)]})
					}
				}
			}
			switch rng.IntN(12) {
			case 0:
				c.Name, past = "other", nil
			case 1:
				c.Carry, past = weir.CarryReset, nil
			}
			s = mustSet(t, mustNew(t, c)).WithPrevious(s)
			var q policy.Matches
			s.Match(&q, request{ip: "1.2.3.4"})
			now := q.Requests[0].Limit
			var seen []string // states
			for _, r := range q.Requests {
				if seen = append(seen, r.Limit.Spec().State); slices.Contains(seen[:len(seen)-1], r.Limit.Spec().State) {
					t.Fatalf("seed %d, step %d: two limits have the state %s", seed, step, r.Limit.Spec().State)
				}
			}
			for _, r := range q.Requests {
				if len(r.From) > 4 || len(r.From) == 0 && r.Carry != 0 {
					t.Fatalf("seed %d, step %d: %v follows %v", seed, step, r.Limit, r.From)
				}
				for _, l := range r.From {
					if slices.Contains(seen, l.Spec().State) {
						t.Fatalf("seed %d, step %d: %v is in force or followed twice: %s", seed, step, l, follows(s, request{ip: "1.2.3.4"}))
					}
					if c.Carry == weir.CarryReset && (!l.Equal(r.Limit) || r.Carry != weir.CarryUsage) {
						t.Fatalf("seed %d, step %d: %v follows %v, although it is reset", seed, step, r.Limit, l)
					}
					if l.IsConcurrency() || r.Limit.IsConcurrency() {
						t.Fatalf("seed %d, step %d: %v follows %v", seed, step, r.Limit, l)
					}
					seen = append(seen, l.Spec().State)
				}
			}
			if several {
				continue
			}
			if c.Name == "other" {
				past = nil
				continue
			}
			var want []weir.Limit
			for _, l := range past {
				if !l.Equal(now) && !slices.ContainsFunc(want, l.Equal) && len(want) < 4 {
					want = append(want, l)
				}
			}
			if !slices.EqualFunc(q.Requests[0].From, want, weir.Limit.Equal) {
				t.Fatalf("seed %d, step %d: %v follows %v, want %v", seed, step, now, q.Requests[0].From, want)
			}
			past = append([]weir.Limit{now}, past...)
		}
	}
}

// TestWithPreviousIsBounded checks that thousands of sets do not accumulate.
func TestWithPreviousIsBounded(t *testing.T) {
	overrides := make([]policy.Override, 1000)
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var s *policy.Set
	var before uint64
	for i := range 300 {
		for j := range overrides {
			overrides[j] = policy.Override{Key: []string{fmt.Sprint("10.0.", j/256, ".", j%256)}, Limits: ten}
		}
		s = mustSet(t, mustNew(t, policy.Config{Limits: limits(fmt.Sprint(i+1, "/s")), Overrides: slices.Clone(overrides)})).WithPrevious(s)
		if i == 20 {
			before = heap()
		}
	}
	if after := heap(); after > before+2<<20 {
		t.Errorf("the heap grew from %d to %d bytes over 280 sets, want no growth", before, after)
	}
	runtime.KeepAlive(s)
}

// TestMatchesAcrossAChange checks that requests in flight at a change are decided by their
// own limits, for one token each, and that other requests are not charged for them.
func TestMatchesAcrossAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		ask := func(s *policy.Set) []weir.Request {
			var q policy.Matches
			s.Match(&q, request{ip: "1.2.3.4"})
			return q.Requests
		}
		take := func(requests []weir.Request) bool {
			ok, err := store.DoAll(context.Background(), requests, make([]weir.Decision, len(requests)))
			if err != nil {
				t.Fatal(err)
			}
			return ok
		}
		old := mustSet(t, mustNew(t, policy.Config{Limits: limits("10/h")}))
		for range 10 {
			take(ask(old))
		}
		const late = 3
		var began [late][]weir.Request
		for i := range began {
			began[i] = ask(old)
		}
		now := mustSet(t, mustNew(t, policy.Config{Limits: limits("20/h"), Carry: weir.CarryProportional})).WithPrevious(old)
		if take(ask(now)) {
			t.Fatal("nothing was left of 10/h, and 20/h has something")
		}
		admitted := 0
		for _, requests := range began {
			if take(requests) {
				admitted++
			}
		}
		if admitted > late {
			t.Errorf("%d of %d that began before the change admitted", admitted, late)
		}
		if take(ask(now)) {
			t.Error("what those took that began before the change gave others more")
		}
	})
}

// TestCarriesOver checks in a store that a key that has used a limit has used its
// successor.
func TestCarriesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := memstore.New(memstore.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		take := func(s *policy.Set, ip string, n int) (admitted int) {
			var q policy.Matches
			for range n {
				s.Match(&q, request{ip: ip})
				ds := make([]weir.Decision, len(q.Requests))
				ok, err := store.DoAll(context.Background(), q.Requests, ds)
				if err != nil {
					t.Fatal(err)
				}
				if ok {
					admitted++
				}
			}
			return admitted
		}
		s := mustSet(t, mustNew(t, policy.Config{Limits: limits("10/h", "100/24h")}))
		if got := take(s, "1.2.3.4", 20) + take(s, "5.6.7.8", 5); got != 15 {
			t.Fatalf("%d admitted of 10 and 5, want 15", got)
		}
		for i, texts := range [][]string{{"20/h", "100/24h"}, {"20/h fixed_window", "100/24h"}, {"100/24h", "10/h"}, {"10/h", "200/24h"}} {
			s = mustSet(t, mustNew(t, policy.Config{Limits: limits(texts...), Carry: weir.CarryProportional})).WithPrevious(s)
			if got := take(s, "1.2.3.4", 5); got != 0 {
				t.Errorf("set %d: who had nothing left has %d", i, got)
			}
		}
		if got := take(s, "5.6.7.8", 20); got != 5 {
			t.Errorf("who had 5 of 10 left four sets ago has %d, want 5", got)
		}
		time.Sleep(time.Hour)
		if got := take(s, "1.2.3.4", 20); got != 10 {
			t.Errorf("an hour later %d are admitted, want 10", got)
		}
	})
}
