package model

import (
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// log is a sliding log: a list of every admission of the last period.
type log struct {
	count, period int64
	list          admissions
}

func newLog(c weir.SlidingLog) State {
	return &log{count: c.Count, period: c.Period.Microseconds()}
}

func (l *log) Do(a algo.Ask) algo.Result {
	l.list = slices.DeleteFunc(l.list, func(x admission) bool { return x.at <= a.Now-l.period || x.n == 0 })
	used := l.used()
	n, ok := fits(a, l.count-used)
	r := algo.Result{OK: ok, Granted: n}
	switch {
	case !ok && missing(a) > l.count:
		r.Retry = algo.Never
	case !ok:
		r.Retry = l.wait(used+missing(a)-l.count, a.Now)
	case a.Op == algo.Return && a.At != 0:
		l.list.giveBack(a.N, a.At, a.At+1)
	case a.Op == algo.Return:
		l.list.giveBack(a.N, 0, a.Now+1)
	case n > 0:
		l.list = append(l.list, admission{a.Now, min(n, most-used)})
	}
	r.Balance = l.count - l.used()
	r.Reset = max(0, l.Until()-a.Now)
	return r
}

func (l *log) used() (n int64) {
	for _, x := range l.list {
		n += x.n
	}
	return n
}

// wait is the time until the n oldest tokens have left.
func (l *log) wait(n, now int64) int64 {
	for _, x := range l.list {
		if n -= x.n; n <= 0 {
			return x.at + l.period - now
		}
	}
	panic("model: a log that waits for more than it holds")
}

func (l *log) Until() int64 {
	until := int64(0)
	for _, x := range l.list {
		if x.n > 0 {
			until = max(until, x.at+l.period)
		}
	}
	return until
}

func (l *log) Clone() State {
	c := *l
	c.list = slices.Clone(l.list)
	return &c
}
