package storetest

import (
	"context"
	"embed"
	"fmt"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/storetest/internal/model"
	"github.com/floodweir/weir/storetest/internal/story"
)

// A Harness is a store under test.
type Harness struct {
	// Store is the store, without a key that was used.
	Store weir.Store
	// SetNow sets the store's clock, in µs since the epoch, for every decision that
	// begins after it returns.
	SetNow func(us int64)
	// Close ends the store; nil if there is nothing to do.
	Close func()

	// Monotonic reports that the store's clock cannot be set back, because it is a
	// monotonic clock of the process. Tests set the clock of any other store back, and
	// the store has to continue from there. Then a denied key that retries is admitted
	// before its limit would have filled twice.
	Monotonic bool
}

// An Open makes a new store for each test that calls it. It ends the test by tb.Fatal if
// it cannot.
type Open func(tb testing.TB) Harness

// open opens a harness and closes it when the test ends.
func (o Open) open(tb testing.TB) Harness {
	tb.Helper()
	h := o(tb)
	if h.Close != nil {
		tb.Cleanup(h.Close)
	}
	h.SetNow(origin)
	return h
}

// origin is the instant at which tests begin: 2026-01-01T00:00:00Z.
const origin = 1_767_225_600_000_000

const second = 1_000_000 // µs

// A Model is a slow and simple store; see package internal/model.
type Model = model.Model

// NewModel makes a Model whose clock shows now, in µs since the epoch.
func NewModel(now int64) *Model { return model.New(now) }

// OpenModel is an Open of Models.
func OpenModel(testing.TB) Harness {
	m := NewModel(origin)
	return Harness{Store: m, SetNow: m.SetNow, Monotonic: true}
}

//go:embed trace/*.txt
var traces embed.FS

// A check is one thing that a store has to pass.
type check struct {
	name string
	run  func(tb testing.TB, open Open)
}

// Run checks everything that a store has to keep. Each check opens a store of
// its own.
func Run(t *testing.T, open Open) {
	for _, c := range checks(t) {
		t.Run(c.name, func(t *testing.T) { c.run(t, open) })
	}
}

// checks are the stories, the rules, the bad inputs and the races.
func checks(tb testing.TB) []check {
	all := storyChecks(tb)
	all = append(append(all, ruleChecks...), changeChecks...)
	all = append(all, inputChecks...)
	return append(all, raceChecks...)
}

func storyChecks(tb testing.TB) (all []check) {
	for _, s := range stories(tb) {
		all = append(all, check{"trace/" + s.Name, func(tb testing.TB, open Open) {
			h := open.open(tb)
			s.Play(h.Store, h.SetNow, func(line int, text string) {
				tb.Errorf("trace/%s:%d: %s", s.Name, line, text)
			})
		}})
	}
	return all
}

// stories are the traces of this package.
func stories(tb testing.TB) []*story.Story {
	tb.Helper()
	files, err := traces.ReadDir("trace")
	if err != nil {
		tb.Fatal(err)
	}
	var all []*story.Story
	for _, f := range files {
		text, err := traces.ReadFile("trace/" + f.Name())
		if err != nil {
			tb.Fatal(err)
		}
		s, err := story.Parse(f.Name(), string(text))
		if err != nil {
			tb.Fatalf("trace/%v", err)
		}
		all = append(all, s)
	}
	return all
}

// asker asks a store and ends the test on an error.
type asker struct {
	testing.TB
	Harness
}

func (o Open) asker(tb testing.TB) asker { return asker{tb, o.open(tb)} }

func (a asker) do(r weir.Request) weir.Decision {
	a.Helper()
	d, err := a.Store.Do(context.Background(), r)
	if err != nil {
		a.Fatalf("%s = error %v, want a decision", show(&r), err)
	}
	return d
}

// want asks, and compares all that is decided with what the text says, which is
// in the form of a story.
func (a asker) want(r weir.Request, want string) weir.Decision {
	a.Helper()
	d, err := a.Store.Do(context.Background(), r)
	if got := story.AnswerOf(d, err).Text(&r); got != want {
		a.Errorf("%s = %s, want %s", show(&r), got, want)
	}
	return d
}

func (a asker) batch(rs ...weir.Request) (bool, []weir.Decision, error) {
	a.Helper()
	ds := make([]weir.Decision, len(rs))
	ok, err := a.Store.DoAll(context.Background(), rs, ds)
	return ok, ds, err
}

func show(r *weir.Request) string {
	s := fmt.Sprintf("%s(%.40q, %d) of %s", r.Verb, r.Key, r.N, r.Limit)
	if r.ID != "" {
		s += fmt.Sprintf(" id %.40q", r.ID)
	}
	return s
}

func take(key string, l weir.Limit, n int64) weir.Request {
	return weir.Request{Verb: weir.Take, Key: key, Limit: l, N: n}
}

func peek(key string, l weir.Limit, n int64) weir.Request {
	return weir.Request{Verb: weir.Peek, Key: key, Limit: l, N: n}
}

func ask(v weir.Verb, key string, l weir.Limit, n int64) weir.Request {
	return weir.Request{Verb: v, Key: key, Limit: l, N: n}
}
