package model

import (
	"math/big"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
)

// nginx is limit_req as its documentation and source describe it. It has a backlog in
// thousandths of a request. At each admission it drains by whole thousandths for the
// whole milliseconds since the last one.
type nginx struct {
	rate              int64 // thousandths per second
	burst, free, most int64
	queue             bool

	last, backlog int64 // ms, thousandths
}

func newNginx(c weir.LeakyBucket) State {
	rate := floorDiv(mul(c.Count, 1000*1_000_000), big.NewInt(c.Period.Microseconds()))
	// The largest backlog: its product with 1000 and a rate stays exact, and it
	// drains within MaxSpan.
	most := min((algo.MaxInstant-rate)/1000, floorDiv(mul(rate, algo.MaxSpan/1000), big.NewInt(1000)))
	return &nginx{rate: rate, burst: c.Burst, free: c.QueueFree, queue: c.Queue, most: most}
}

// drains returns after how many ms n thousandths have drained: the first whole ms for
// which the whole thousandths are enough.
func (x *nginx) drains(n int64) int64 { return ceilDiv(mul(n, 1000), big.NewInt(x.rate)) }

// backlogAt returns the backlog after the ms since the last admission.
func (x *nginx) backlogAt(ms int64) int64 {
	passed := ms - x.last
	switch {
	case passed < -60_000:
		passed = 1
	case passed < 0:
		passed = 0
	}
	return max(0, x.backlog-floorDiv(mul(x.rate, passed), big.NewInt(1000)))
}

func (x *nginx) Do(a algo.Ask) algo.Result {
	ms := max(1, a.Now/1000)
	backlog, room := x.backlogAt(ms), (x.burst+1)*1000
	after := backlog
	r := algo.Result{OK: true}
	switch a.Op {
	case algo.Take, algo.Peek:
		switch {
		case a.N == 0:
		case a.N > x.burst+1:
			r.OK, r.Retry = false, algo.Never
		case backlog+a.N*1000 > room:
			r.OK, r.Retry = false, x.wait(a.N, a.Now)
		default:
			r.Delay = x.delay(backlog + a.N*1000)
			if a.Op == algo.Take {
				r.Granted, after = a.N, backlog+a.N*1000
			}
		}
	case algo.TakeUpTo:
		n := min(a.N, max(0, room-backlog)/1000)
		if n == 0 && a.N > 0 {
			r.OK, r.Retry = false, x.wait(1, a.Now)
		} else if n > 0 {
			r.Granted, after = n, backlog+n*1000
			r.Delay = x.delay(after)
		}
	case algo.Charge:
		r.Granted = a.N
		after = max(backlog, min(x.most, backlog+min(a.N, algo.MaxCount)*1000))
	case algo.Return:
		after = max(0, backlog-min(a.N, algo.MaxCount)*1000)
	}
	r.Balance = floorDiv(big.NewInt(room-after), big.NewInt(1000))
	if r.OK && a.Op != algo.Peek && a.N > 0 { // nothing asked does not round the drain, either
		if x.backlog == 0 || ms-x.last > 0 || ms-x.last < -60_000 {
			x.last = ms
		}
		x.backlog = after
	}
	r.Reset = max(0, x.Until()-a.Now)
	return r
}

// wait returns the time until n fit: the first µs of the first ms that has drained
// enough.
func (x *nginx) wait(n, now int64) int64 {
	return (x.last+x.drains(x.backlog+n*1000-(x.burst+1)*1000))*1000 - now
}

// delay returns the delay of the request after which the backlog is as given.
func (x *nginx) delay(backlog int64) int64 {
	excess := backlog - 1000 - x.free*1000
	if !x.queue || excess <= 0 {
		return 0
	}
	return floorDiv(mul(excess, 1000), big.NewInt(x.rate)) * 1000
}

func (x *nginx) Until() int64 {
	if x.backlog == 0 {
		return 0
	}
	return (x.last + x.drains(x.backlog)) * 1000
}

func (x *nginx) Clone() State {
	c := *x
	return &c
}
