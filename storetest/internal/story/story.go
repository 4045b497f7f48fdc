package story

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/floodweir/weir"
)

// A Story is a trace that was read.
type Story struct {
	Name  string
	Start int64 // µs
	Steps []Step

	lines []string // as read, for Rewrite
}

// A Step is one call of a store: Do, or DoAll if Batch.
type Step struct {
	Line  int
	Now   int64 // µs
	Batch bool
	Want  Answer // of a batch: only OK and Err count
	Asks  []Ask  // one, unless Batch
}

// An Ask is one request of a step.
type Ask struct {
	Line    int
	Request weir.Request
	Want    Answer
}

// An Answer is the part of a decision that a store decides.
type Answer struct {
	OK                  bool
	Granted, Remaining  int64
	Debt                int64
	Retry, Reset, Delay time.Duration
	Err                 string // the class of an error; the other fields are then undefined
}

// classes are the errors that a story distinguishes.
var classes = []struct {
	name string
	err  error
}{
	{"invalid", weir.ErrInvalid},
	{"no-reservation", weir.ErrNoReservation},
	{"full", weir.ErrFull},
	{"unavailable", weir.ErrUnavailable},
	{"closed", weir.ErrClosed},
}

// Class is the name of an error's class, "other" if it has none, "" for nil.
func Class(err error) string {
	if err == nil {
		return ""
	}
	for _, c := range classes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	return "other"
}

// AnswerOf returns the answer of a store.
func AnswerOf(d weir.Decision, err error) Answer {
	if err != nil {
		return Answer{Err: Class(err)}
	}
	return Answer{
		OK: d.OK, Granted: d.Granted, Remaining: d.Remaining, Debt: d.Debt,
		Retry: d.RetryAfter, Reset: d.ResetAfter, Delay: d.Delay,
	}
}

// Do sends the step to a store. It returns the answer to the whole step, and the answers
// to each request; nil for a batch that got an error.
func (s *Step) Do(store weir.Store) (Answer, []Answer) {
	ctx := context.Background()
	if !s.Batch {
		d, err := store.Do(ctx, s.Asks[0].Request)
		a := AnswerOf(d, err)
		return a, []Answer{a}
	}
	rs := make([]weir.Request, len(s.Asks))
	ds := make([]weir.Decision, len(s.Asks))
	for i, a := range s.Asks {
		rs[i] = a.Request
	}
	ok, err := store.DoAll(ctx, rs, ds)
	if err != nil {
		return Answer{Err: Class(err)}, nil
	}
	as := make([]Answer, len(ds))
	for i, d := range ds {
		as[i] = AnswerOf(d, nil)
	}
	return Answer{OK: ok}, as
}

// Play puts every step to a store, and calls wrong for each line that it
// answers otherwise than the story says.
func (s *Story) Play(store weir.Store, setNow func(us int64), wrong func(line int, text string)) {
	for i := range s.Steps {
		st := &s.Steps[i]
		setNow(st.Now)
		whole, each := st.Do(store)
		if st.Batch && (whole.OK != st.Want.OK || whole.Err != st.Want.Err) {
			wrong(st.Line, fmt.Sprintf("DoAll answered %v, want %v", whole, st.Want))
		}
		for j, got := range each {
			if a := &st.Asks[j]; got != a.Want {
				wrong(a.Line, fmt.Sprintf("%v\n  got  %v\n  want %v",
					a.Request.Verb, got.text(&a.Request), a.Want.text(&a.Request)))
			}
		}
	}
}

// usual is the Granted that goes without saying.
func usual(r *weir.Request) int64 {
	switch r.Verb {
	case weir.Take, weir.TakeUpTo, weir.Charge, weir.Reserve, weir.Commit:
		return r.N
	}
	return 0
}
