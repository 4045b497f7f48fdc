package algo_test

import (
	"github.com/floodweir/weir/internal/algo"
)

// windowRules are the rules that count what was admitted.
var windowRules = []namedRule{
	{name: "fixed/first", rule: must(algo.NewFixedWindow(5, 100, false)), grain: 1, span: 100, most: 10},
	{name: "fixed/epoch", rule: must(algo.NewFixedWindow(7, 60, true)), grain: 60, span: 60, most: 14},
	{name: "fixed/largest", rule: must(algo.NewFixedWindow(algo.MaxCount, algo.MaxSpan/8, false)), grain: 1, span: algo.MaxSpan / 8, most: 2 * algo.MaxCount},
	{name: "fixed/calendar", rule: must(algo.NewCalendarWindow(6, uneven{})), grain: unevenCycle, span: 25, most: 12},

	{name: "sliding/10", rule: must(algo.NewSlidingWindow(8, 100, 10, false)), grain: 10, span: 90, most: 8},
	{name: "sliding/1", rule: must(algo.NewSlidingWindow(8, 100, 1, false)), grain: 100, span: 100, most: 16},
	{name: "sliding/10/period", rule: must(algo.NewSlidingWindow(8, 100, 10, false)), grain: 10, span: 100, most: 16},
	{name: "sliding/weighted/1", rule: must(algo.NewSlidingWindow(8, 100, 1, true)), grain: 100, span: 100, most: 15},
	{name: "sliding/weighted/4", rule: must(algo.NewSlidingWindow(100, 1000, 4, true)), grain: 250, span: 750, most: 100},
	{name: "sliding/weighted/4/period", rule: must(algo.NewSlidingWindow(100, 1000, 4, true)), grain: 250, span: 1000, most: 199},
	{name: "sliding/weighted/fine", rule: must(algo.NewSlidingWindow(50, 10, 10, true)), grain: 1, span: 10, most: 99},
	{name: "sliding/weighted/largest", rule: must(algo.NewSlidingWindow(algo.MaxCount, 86_400_000_000, 24, true)), grain: 3_600_000_000, span: 82_800_000_000, most: algo.MaxCount},

	{name: "log", rule: must(algo.NewSlidingLog(6, 50)), grain: 1, span: 50, most: 6},
	{name: "log/1", rule: must(algo.NewSlidingLog(1, 1000)), grain: 1, span: 1000, most: 1},
	{name: "log/long", rule: must(algo.NewSlidingLog(300, 1_000_000)), grain: 1, span: 1_000_000, most: 300},

	{name: "concurrency", rule: must(algo.NewConcurrency(6, 80)), grain: 1, span: 80, most: 6},
	{name: "concurrency/1", rule: must(algo.NewConcurrency(1, 10)), grain: 1, span: 10, most: 1},
	{name: "concurrency/many", rule: must(algo.NewConcurrency(200, 60_000_000)), grain: 1, span: 60_000_000, most: 200},
}

// uneven is a calendar whose windows are 40, 70 and 25 µs long in turn.
type uneven struct{}

const unevenCycle = 40 + 70 + 25

func (uneven) Window(now int64) (start, end int64) {
	start = now - (now%unevenCycle+unevenCycle)%unevenCycle
	for _, d := range []int64{40, 70, 25} {
		if end = start + d; now < end {
			break
		}
		start = end
	}
	return start, end
}

func (uneven) Longest() int64 { return 70 }
