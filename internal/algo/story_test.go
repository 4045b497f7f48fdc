package algo_test

import (
	"fmt"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

// story is a result in words, for tables of steps.
func story(r algo.Result) string {
	text := fmt.Sprintf("ok %d", r.Granted)
	if !r.OK {
		text = "denied"
	}
	text += fmt.Sprintf(", %d left", r.Balance)
	if r.Retry == algo.Never {
		text += ", never"
	} else if r.Retry != 0 {
		text += fmt.Sprintf(", retry %d", r.Retry)
	}
	if r.Reset != 0 {
		text += fmt.Sprintf(", reset %d", r.Reset)
	}
	if r.Delay != 0 {
		text += fmt.Sprintf(", delay %d", r.Delay)
	}
	return text
}

// A step is one Ask of a story and the wanted result, in the format of story.
type step struct {
	ask  algo.Ask
	want string
}

// replay applies the asks of a story to one state, in order.
func replay(t *testing.T, rule algo.Rule, steps []step) {
	t.Helper()
	var s []int64
	for i, p := range steps {
		var r algo.Result
		if s, r = rule.Do(s, p.ask); story(r) != p.want {
			t.Fatalf("step %d: %+v = %q, want %q", i+1, p.ask, story(r), p.want)
		}
	}
}

func take(now, n int64) algo.Ask           { return algo.Ask{Op: algo.Take, Now: now, N: n} }
func takeUpTo(now, n int64) algo.Ask       { return algo.Ask{Op: algo.TakeUpTo, Now: now, N: n} }
func peek(now, n int64) algo.Ask           { return algo.Ask{Op: algo.Peek, Now: now, N: n} }
func charge(now, n int64) algo.Ask         { return algo.Ask{Op: algo.Charge, Now: now, N: n} }
func giveBack(now, n int64) algo.Ask       { return algo.Ask{Op: algo.Return, Now: now, N: n} }
func giveBackAt(now, n, at int64) algo.Ask { return algo.Ask{Op: algo.Return, Now: now, N: n, At: at} }
