package storetest

import "github.com/floodweir/weir"

// everyday are limits of every algorithm, with capacities from 3 to 10. Each is
// as if never used again after two days, and no two have a state in common.
var everyday = []string{
	"3/s",
	"5/m burst 7",
	"3/s burst 5 interval",
	"4/10s interval anchor epoch",
	"3/s burst 5 initial 2",
	"4/10s burst 6 interval initial 0",
	"5/s warmup 3s",
	"3/s leaky_bucket burst 4",
	"4/s leaky_bucket burst 6 queue",
	"5/s leaky_bucket burst 6 delay 2",
	"3/s leaky_bucket burst 4 nginx",
	"90/m leaky_bucket burst 5 delay 2 nginx",
	"5/m fixed_window",
	"5/m fixed_window anchor epoch",
	"5/day calendar Europe/Berlin",
	"6/10s sliding_window",
	"6/s sliding_window segments 4 weighted",
	"6/10s sliding_window segments 1 weighted",
	"5/10s sliding_log",
	"4 concurrency lease 30s",
}

func limits(texts []string) (all []weir.Limit) {
	for _, text := range texts {
		all = append(all, weir.MustLimit(text))
	}
	return all
}

// hourly is a limit on which nothing comes back while a test runs that does not
// move its clock.
func hourly(n int64) weir.Limit { return mustLimit(weir.TokenBucket{Count: n, Period: hour}) }

func mustLimit(c weir.LimitConfig) weir.Limit {
	l, err := weir.NewLimit(c)
	if err != nil {
		panic(err) // the limits of this package are constants
	}
	return l
}
