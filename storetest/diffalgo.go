package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/storetest/internal/model"
)

// DiffAlgo is a Differential without a store: it asks the rules of package algo
// and the Model's the same, each with a state of its own. It also checks that a
// denial leaves a state as it was, word for word, and that both agree on the
// instant from which it is as if never used.
func DiffAlgo(tb testing.TB, c DiffConfig) {
	tb.Helper()
	c.fill()
	g := &generator{Rand: rand.New(rand.NewPCG(c.Seed, 1)), keep: c.Limits}
	tenants := &generator{Rand: rand.New(rand.NewPCG(c.Seed, 2))}
	began, compared := time.Now(), 0
	for n := 0; compared < c.Decisions; n++ {
		l := g.limit()
		if n%8 == 7 {
			l = tenants.tenants()[0]
		}
		s := g.sceneOf(n, origin, []weir.Limit{l})
		d := diffRule{limit: l, rule: l.Spec().Rule, model: model.NewState(l)}
		for range sceneSteps {
			s.pass()
			a := s.ask(l)
			r, diff := d.step(a)
			if diff != "" {
				tb.Errorf("seed %d, decision %d, %s: %s\n%s", c.Seed, compared, l, diff, strings.Join(d.history, "\n"))
				return
			}
			s.observe(l.Spec().Decision(r, a.Now))
			compared++
		}
	}
	took := time.Since(began)
	tb.Logf("seed %d: %d decisions of rules compared, 0 differ, %.0f per second", c.Seed, compared, float64(compared)/took.Seconds())
}

// ask makes up a question to a rule.
func (s *scene) ask(l weir.Limit) algo.Ask {
	g := s.generator
	a := algo.Ask{Now: s.now, N: s.cost(l.Capacity())}
	a.Op = pick(g, algo.Take, algo.Take, algo.Take, algo.Take, algo.TakeUpTo, algo.Peek, algo.Charge, algo.Return)
	if a.Op == algo.Return && len(s.charged) > 0 && s.IntN(2) == 0 {
		a.At = pick(g, s.charged...)
	}
	if l.IsConcurrency() && s.IntN(2) == 0 {
		a.ID = uint64(1 + s.IntN(4))
		if s.IntN(2) == 0 {
			a.TTL = s.about(2 * s.slow)
		}
	}
	return a
}

// A diffRule is a rule and its model.
type diffRule struct {
	limit   weir.Limit
	rule    algo.Rule
	words   []int64
	model   model.State
	history []string
}

func (d *diffRule) step(a algo.Ask) (r algo.Result, diff string) {
	before := slices.Clone(d.words)
	d.words, r = d.rule.Do(d.words, a)
	want := d.model.Do(a)
	d.history = append(d.history, fmt.Sprintf("%+v: rule %+v, model %+v", a, r, want))
	if r != want {
		return r, "rule and model differ"
	}
	_, primed := d.rule.(*algo.Primed)
	_, forward := d.rule.(*algo.TenantBucket) // a denial brings it forward
	if moved := !slices.Equal(trim(before), trim(d.words)); moved && !forward && (!r.OK && !primed || a.Op == algo.Peek) {
		return r, fmt.Sprintf("a state that must not change went from %v to %v", before, d.words)
	}
	if got, want := max(a.Now, d.rule.Until(d.words)), max(a.Now, d.model.Until()); got != want {
		return r, fmt.Sprintf("as if never used from %d on says the rule, %d the model", got, want)
	}
	if got := d.rule.Capacity(); got != d.limit.Capacity() {
		return r, fmt.Sprintf("capacity %d of a limit with %d", got, d.limit.Capacity())
	}
	return r, ""
}

// trim cuts trailing zeros: a state that was never used has any number of them.
func trim(words []int64) []int64 {
	for len(words) > 0 && words[len(words)-1] == 0 {
		words = words[:len(words)-1]
	}
	return words
}
