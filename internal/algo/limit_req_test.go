package algo_test

import (
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir/internal/algo"
)

func TestLimitReq(t *testing.T) {
	const ms = 1000
	queue := algo.Queueing{Queue: true}
	t.Run("10r/s burst=2", func(t *testing.T) {
		replay(t, must(algo.NewLimitReq(10, second, 2, queue)), []step{
			{peek(start, 1), "ok 0, 3 left"},
			{take(start, 1), "ok 1, 2 left, reset 100000"},
			{take(start+999, 1), "ok 1, 1 left, reset 199001, delay 100000"},
			{take(start+49*ms+999, 1), "ok 1, 0 left, reset 250001, delay 151000"},
			{take(start+50*ms, 1), "denied, 0 left, retry 50000, reset 250000"},
			{take(start+99*ms+999, 1), "denied, 0 left, retry 1, reset 200001"},
			{take(start+100*ms, 1), "ok 1, 0 left, reset 300000, delay 200000"},
			{charge(start+100*ms, 2), "ok 2, -2 left, reset 500000"},
			{take(start+100*ms, 0), "ok 0, -2 left, reset 500000"},
			{giveBack(start+100*ms, 1), "ok 0, -1 left, reset 400000"},
			{giveBack(start+100*ms, 9), "ok 0, 3 left"},
			{take(start+100*ms, 4), "denied, 3 left, never"},
			{takeUpTo(start+100*ms, 4), "ok 3, 0 left, reset 300000, delay 200000"},
		})
	})
	t.Run("1r/m", func(t *testing.T) {
		// 0.016 r/s: 62.5 s for one.
		replay(t, must(algo.NewLimitReq(1, 60*second, 0, algo.Queueing{})), []step{
			{take(start, 1), "ok 1, 0 left, reset 62500000"},
			{take(start+60*second, 1), "denied, 0 left, retry 2500000, reset 2500000"},
			{take(start+62_499_999, 1), "denied, 0 left, retry 1, reset 1"},
			{take(start+62_500_000, 1), "ok 1, 0 left, reset 62500000"},
		})
	})
	t.Run("delay=1", func(t *testing.T) {
		replay(t, must(algo.NewLimitReq(2, second, 3, algo.Queueing{Queue: true, Free: 1})), []step{
			{take(start, 1), "ok 1, 3 left, reset 500000"},
			{take(start, 1), "ok 1, 2 left, reset 1000000"},
			{take(start, 1), "ok 1, 1 left, reset 1500000, delay 500000"},
			{take(start, 1), "ok 1, 0 left, reset 2000000, delay 1000000"},
		})
	})
	t.Run("a clock that goes back", func(t *testing.T) {
		replay(t, must(algo.NewLimitReq(10, second, 1, algo.Queueing{})), []step{
			{take(start, 2), "ok 2, 0 left, reset 200000"},
			{take(start-60*second, 1), "denied, 0 left, retry 60100000, reset 60200000"},
			{take(start-60*second-ms, 1), "denied, 0 left, retry 60101000, reset 60201000"},
			{charge(start-60*second-ms, 1), "ok 1, -1 left, reset 299000"},
			{take(start-60*second, 1), "denied, -1 left, retry 198000, reset 298000"},
		})
	})
}

// nginxNode is a node of nginx's zone, and its arithmetic in C's order.
type nginxNode struct{ excess, last int64 }

type nginxZone struct {
	rate, burst, delay int64
	node               *nginxNode
}

func (z *nginxZone) request(now int64) (ok bool, delay int64) {
	excess := int64(0)
	if n := z.node; n == nil {
		z.node = &nginxNode{last: now}
	} else {
		ms := now - n.last
		if ms < -60000 {
			ms = 1
		} else if ms < 0 {
			ms = 0
		}
		if excess = n.excess - z.rate*ms/1000 + 1000; excess < 0 {
			excess = 0
		}
		if excess > z.burst {
			return false, 0
		}
		n.excess = excess
		if ms != 0 {
			n.last = now
		}
	}
	if excess <= z.delay {
		return true, 0
	}
	return true, (excess - z.delay) * 1000 / z.rate
}

func TestLimitReqAgreesWithNginx(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	for _, c := range []struct{ count, scale, burst, free int64 }{
		{10, 1, 5, 0}, {1, 60, 3, 1}, {7, 60, 0, 0}, {100, 1, 20, 20}, {4567, 1, 50, 8}, {3, 1, 10, 4}, {1_000_003, 1, 2, 0},
	} {
		zone := nginxZone{rate: c.count * 1000 / c.scale, burst: c.burst * 1000, delay: c.free * 1000}
		rule := must(algo.NewLimitReq(c.count, c.scale*second, c.burst, algo.Queueing{Queue: true, Free: c.free}))
		now := int64(someInstant)
		var s []int64
		seen := map[bool]int{}
		for i := range 20_000 {
			switch rnd.IntN(100) {
			case 0:
				now += rnd.Int64N(200 * second)
			case 1:
				now -= rnd.Int64N(100 * second)
			default:
				now += rnd.Int64N(1 + rnd.Int64N(3*c.scale*second/c.count+2))
			}
			ok, delay := zone.request(now / 1000)
			var r algo.Result
			if s, r = rule.Do(s, take(now, 1)); r.OK != ok || r.Delay != delay*1000 {
				t.Fatalf("%+v, step %d: Take(1) at %d = %s, nginx says %v, delay %d ms", c, i, now, story(r), ok, delay)
			}
			seen[ok]++
		}
		if seen[true] < 100 || seen[false] < 100 {
			t.Errorf("%+v: %v", c, seen)
		}
	}
}

func TestLimitReqAtTheExtremes(t *testing.T) {
	const huge = 1<<63 - 1
	// The largest rate and burst: nothing wraps.
	b := must(algo.NewLimitReq(1<<40, second, 7_907_000_000, algo.Queueing{Queue: true}))
	replay(t, b, []step{
		{take(start, 7_907_000_001), "ok 7907000001, 0 left, reset 8000, delay 7000"},
		{charge(start, huge), "ok 9223372036854775807, -687626 left, reset 8000"},
		{take(start, huge), "denied, -687626 left, never, reset 8000"},
		{giveBack(start, huge), "ok 0, 7907000001 left"},
	})
	// The slowest: one thousandth per second, and a debt of a hundred years.
	replay(t, must(algo.NewLimitReq(1, 1000*second, 1, algo.Queueing{})), []step{
		{take(start, 2), "ok 2, 0 left, reset 2000000000"},
		{charge(start, huge), "ok 9223372036854775807, -3155758 left, reset 3155760000000000"},
	})
}
