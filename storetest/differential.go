package storetest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/storetest/internal/story"
)

// A DiffConfig configures a differential run. Its zero value works.
type DiffConfig struct {
	// Seed is the seed of the random generator; 1 if zero.
	Seed uint64

	// Decisions is the number of requests; 100,000 if zero.
	Decisions int

	// Backward lets the clock go back as well. The store is then expected to decide at
	// the largest instant that it has read, as the Model does.
	Backward bool

	// Limits reports whether a limit is used; nil for all.
	Limits func(weir.LimitConfig) bool

	// Spaced is a part of every key, which separates the keys of two runs that share a
	// store; empty by default.
	Spaced string
}

func (c *DiffConfig) fill() {
	if c.Seed == 0 {
		c.Seed = 1
	}
	if c.Decisions == 0 {
		c.Decisions = 100_000
	}
}

// sceneSteps is the number of steps that use the same few keys.
const sceneSteps = 60

// Differential sends the same random requests to a store and a Model in lock step. They
// have limits of all algorithms at everyday and extreme rates, all verbs, batches,
// reservations and carry-overs. A fifth of them are about tenants. Time advances to the microsecond at which a decision
// changes, and to the one before.
//
// It fails the test at the first decision that differs. It prints the seed, both
// decisions, and the shortest history that it finds, as a story. It logs the number of
// compared decisions.
func Differential(tb testing.TB, open Open, c DiffConfig) {
	tb.Helper()
	c.fill()
	c.compare(tb, open, &generator{Rand: rand.New(rand.NewPCG(c.Seed, 0)), keep: c.Limits})
	if c.Decisions /= 4; !tb.Failed() && (c.Limits == nil || c.Limits(weir.TenantBucket{})) {
		c.Spaced += "tenants"
		c.compare(tb, open, &generator{Rand: rand.New(rand.NewPCG(c.Seed, 2)), keep: c.Limits, divides: true})
	}
}

// compare compares c.Decisions decisions about the requests of g.
func (c *DiffConfig) compare(tb testing.TB, open Open, g *generator) {
	tb.Helper()
	h := open.open(tb)
	began, now, compared := time.Now(), int64(origin), 0
	steps := make([]story.Step, sceneSteps)
	for n := 0; compared < c.Decisions; n++ {
		if now > ceiling-ceiling/50 { // the clock has run out: again from the beginning
			h, now = open.open(tb), origin
		}
		s := g.newScene(n, now)
		s.back = c.Backward
		for i := range s.keys {
			s.keys[i] += c.Spaced
		}
		p := newPair(h, now)
		for i := range steps {
			s.next(&steps[i])
			diff := p.step(&steps[i])
			compared += len(steps[i].Asks)
			if diff != "" {
				tb.Errorf("seed %d, decision %d: %s\n\n%s", c.Seed, compared, diff, shrink(tb, open, steps[:i+1], diff))
				return
			}
			for j := range p.ds {
				s.observe(p.ds[j])
			}
		}
		now = max(s.now, p.model.Latest())
	}
	took := time.Since(began)
	tb.Logf("seed %d: %d decisions compared, 0 differ, %.0f per second", c.Seed, compared, float64(compared)/took.Seconds())
}

// A pair is a store and a Model that are asked the same.
type pair struct {
	store  Harness
	model  *Model
	ds, ms []weir.Decision // of the last step
	rs     []weir.Request
}

// newPair makes both see now.
func newPair(h Harness, now int64) *pair {
	p := &pair{store: h, model: NewModel(now)}
	p.step(&story.Step{Now: now, Batch: true})
	return p
}

// step asks both, notes the Model's answer as the one that st wants, and says in
// what they differ.
func (p *pair) step(st *story.Step) (diff string) {
	p.store.SetNow(st.Now)
	p.model.SetNow(st.Now)
	p.ds, p.ms, p.rs = p.ds[:0], p.ms[:0], p.rs[:0]
	for i := range st.Asks {
		p.ds, p.ms = append(p.ds, weir.Decision{}), append(p.ms, weir.Decision{})
		p.rs = append(p.rs, st.Asks[i].Request)
	}
	want, wantErr := p.ask(p.model, st.Batch, p.ms)
	got, gotErr := p.ask(p.store.Store, st.Batch, p.ds)
	st.Want = story.Answer{OK: want, Err: story.Class(wantErr)}
	for i := range st.Asks {
		st.Asks[i].Want = story.AnswerOf(p.ms[i], nil)
		if wantErr != nil {
			st.Asks[i].Want = story.Answer{Err: story.Class(wantErr)}
		}
	}
	if story.Class(gotErr) != story.Class(wantErr) {
		return fmt.Sprintf("the store's error is %v, the Model's %v", gotErr, wantErr)
	}
	if wantErr != nil {
		return ""
	}
	for i := range p.ms {
		r, d, m := &p.rs[i], p.ds[i], p.ms[i]
		if got, want := story.AnswerOf(d, nil), story.AnswerOf(m, nil); got != want {
			return fmt.Sprintf("%s\nstore: %s\nModel: %s", show(r), got.Text(r), want.Text(r))
		}
		if !d.At.Equal(m.At) || d.Limit != m.Limit && !d.Limit.Equal(m.Limit) || d.Degraded != m.Degraded || d.Borrowed != m.Borrowed {
			return fmt.Sprintf("%s\nstore: %+v\nModel: %+v", show(r), d, m)
		}
	}
	if got != want {
		return fmt.Sprintf("DoAll says %v, the Model %v", got, want)
	}
	return ""
}

// ask asks one of the two.
func (p *pair) ask(store weir.Store, batch bool, ds []weir.Decision) (ok bool, err error) {
	if batch {
		return store.DoAll(background, p.rs, ds)
	}
	ds[0], err = store.Do(background, p.rs[0])
	return ds[0].OK, err
}
