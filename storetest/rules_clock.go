package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// rule5 lets the clock jitter, by no more than a limit takes to fill: going back
// and forth must not give more than standing still.
func rule5(tb testing.TB, open Open) {
	for _, back := range []int64{1, 1000, second, 90 * second} {
		a := open.asker(tb)
		for _, l := range limits(everyday) {
			key, back := fmt.Sprint(l, back), min(back, algo.Refill(l.Spec().Rule))
			a.SetNow(origin)
			for a.do(take(key, l, 1)).OK {
			}
			for i := range 50 {
				a.SetNow(origin - back*int64(i%2))
				if d := a.do(take(key, l, 1)); d.OK {
					tb.Errorf("%s: a clock that jitters by %d µs created a token at step %d: %+v", l, back, i, d)
					break
				}
			}
			a.SetNow(origin)
		}
	}
	jitters(tb, open)
	jumps(tb, open)
	heals(tb, open)
}

// jitters takes all tokens of a bucket while the clock advances, but shows up to a
// second less at every other reading. The tokens are those of the elapsed time: no more,
// and no fewer except for that second.
func jitters(tb testing.TB, open Open) {
	a := open.asker(tb)
	const rate, burst, steps, step = 3, 5, 600, 37_000
	l := mustLimit(weir.TokenBucket{Count: rate, Period: time.Second, Burst: burst})
	got := int64(0)
	for i := range int64(steps) {
		us := origin + i*step
		if i%2 == 1 {
			us -= i * 7919 % 1000 * 1000
		}
		a.SetNow(us)
		got += a.do(ask(weir.TakeUpTo, "k", l, burst)).Granted
	}
	const most = burst + rate*(steps-1)*step/second
	if got > most || got < most-rate-1 {
		tb.Errorf("%s: a clock that jitters by up to a second let %d through, want %d to %d", l, got, most-rate-1, most)
	}
}

// jumps sets the clock ahead and back by days. All jumps up to one instant give a key one full
// bucket in total.
func jumps(tb testing.TB, open Open) {
	a := open.asker(tb)
	for _, l := range limits(everyday) {
		got := int64(0)
		for _, day := range []int64{0, 7, 0, 7, 0, 5, 1, 3, 0, 6, 0, 2, 0, 7, 0, 7} {
			a.SetNow(origin + 24*day*hour.Microseconds())
			got += a.do(ask(weir.TakeUpTo, "k", l, l.Capacity())).Granted
		}
		if got > 2*l.Capacity() {
			tb.Errorf("%s: jumps of the clock by days let %d through, want at most %d", l, got, 2*l.Capacity())
		}
	}
}

// heals sets the clock back during a test. A key that retries is admitted before its
// limit would have filled twice. Once should be enough, but a state may have to be moved
// by whole segments.
func heals(tb testing.TB, open Open) {
	a := open.asker(tb)
	if a.Monotonic {
		return // its clock is not one that can be set back
	}
	now := origin + 1000*hour.Microseconds()
	for _, l := range limits(everyday) {
		fill := algo.Refill(l.Spec().Rule)
		for i, back := range []int64{fill, 10*fill + 1} {
			key := fmt.Sprint("k", i)
			a.SetNow(now)
			for a.do(take(key, l, 1)).OK {
			}
			now -= back
			for waited := int64(0); ; waited += fill / 16 {
				a.SetNow(now + waited)
				d := a.do(take(key, l, 1))
				if d.OK {
					break
				}
				if d.RetryAfter.Microseconds() > 2*fill || waited > 2*fill {
					tb.Errorf("%s: %v after the clock was set back: %+v, want an admission within %v", l,
						time.Duration(waited)*time.Microsecond, d, 2*time.Duration(fill)*time.Microsecond)
					break
				}
			}
			now += 3 * fill
		}
	}
}
