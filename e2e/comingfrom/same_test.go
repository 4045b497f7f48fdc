package comingfrom_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// An other models another limiter, from its source, that has been idle for long. It reports
// whether a request at an instant passes, and after which delay in µs. A denied request
// changes nothing.
type other func(now int64) (ok bool, delay int64)

// guava is SmoothBursty with tryAcquire(). It represents stored permits by the time that
// produced them.
func guava(interval, most int64) other {
	var stored, nextFree int64
	return func(now int64) (bool, int64) {
		if now > nextFree {
			stored, nextFree = min(most*interval, stored+now-nextFree), now
		}
		if nextFree > now {
			return false, 0
		}
		spent := min(interval, stored)
		stored -= spent
		nextFree += interval - spent
		return true, 0
	}
}

// uber is the limiter of ratelimit.New; a caller that would sleep is denied.
func uber(interval, slack int64) other {
	var state int64
	return func(now int64) (bool, int64) {
		next := state + interval
		switch {
		case slack == 0 && now-state > interval:
			next = now
		case slack > 0 && now-state > slack*interval+interval:
			next = now - slack*interval
		}
		if next > now {
			return false, 0
		}
		state = next
		return true, 0
	}
}

// throttling is Sentinel's queue.
func throttling(interval, longest int64) other {
	var latest int64
	return func(now int64) (bool, int64) {
		if latest+interval <= now {
			latest = now
			return true, 0
		}
		if latest+interval-now > longest {
			return false, 0
		}
		latest += interval
		return true, latest - now
	}
}

// leapArray is Sentinel's count of the last second in several windows.
func leapArray(count, second, windows int64) other {
	counts := map[int64]int64{}
	return func(now int64) (bool, int64) {
		current, sum := now/(second/windows), int64(0)
		for i := range windows {
			sum += counts[current-i]
		}
		if sum+1 > count {
			return false, 0
		}
		counts[current]++
		return true, 0
	}
}

// redisson keeps each permit for one interval.
func redisson(rate int, interval int64) other {
	var permits []int64
	return func(now int64) (bool, int64) {
		permits = slices.DeleteFunc(permits, func(at int64) bool { return at <= now-interval })
		if len(permits) >= rate {
			return false, 0
		}
		permits = append(permits, now)
		return true, 0
	}
}

// gcra is redis_rate's script, in whole µs.
func gcra(interval, burst int64) other {
	var tat int64
	return func(now int64) (bool, int64) {
		next := max(tat, now) + interval
		if now < next-interval*burst {
			return false, 0
		}
		tat = next
		return true, 0
	}
}

// counter is ulule/limiter: a count that expires one period after its first request. Denied
// requests count too, and do not extend it.
func counter(limit, period int64) other {
	var count, expires int64
	return func(now int64) (bool, int64) {
		if now >= expires {
			count, expires = 0, now+period
		}
		count++
		return count <= limit, 0
	}
}

// TestSame checks that the limit that the page recommends in place of another limiter's
// parameters admits the same requests, with the same delays.
func TestSame(t *testing.T) {
	const ms = 1000
	for _, c := range []struct {
		name, limit string
		other       other
		pause       int64 // the longest pause between two single requests
	}{
		{"Guava create(10)", "10/s burst 11", guava(100*ms, 10), 200 * ms},
		{"uber New(100)", "100/s burst 11", uber(10*ms, 10), 20 * ms},
		{"uber New(100, WithoutSlack)", "100/s burst 1", uber(10*ms, 0), 20 * ms},
		{"uber New(100, WithSlack(50))", "100/s burst 51", uber(10*ms, 50), 20 * ms},
		{"Sentinel queue, 500 ms", "10/s leaky_bucket burst 5 queue", throttling(100*ms, 500*ms), 200 * ms},
		{"Sentinel LeapArray", "20/s sliding_window segments 2", leapArray(20, 1000*ms, 2), 100 * ms},
		{"Redisson OVERALL", "10/s sliding_log", redisson(10, 1000*ms), 200 * ms},
		{"redis_rate PerSecond(10)", "10/s", gcra(100*ms, 10), 200 * ms},
		{"tollbooth NewLimiter(10)", "10/s", gcra(100*ms, 10), 200 * ms},
		{"ulule/limiter 10-S", "10/s fixed_window", counter(10, 1000*ms), 200 * ms},
		{"redis_rate burst 20", "10/m burst 20", gcra(6000*ms, 20), 12000 * ms},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		now := int64(1_800_000_000_000_000)
		store, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
		if err != nil {
			t.Fatal(err)
		}
		lim, err := weir.New(store, weir.MustLimit(c.limit), weir.Config{})
		if err != nil {
			t.Fatal(err)
		}
		admitted, denied := 0, 0
		for step := range 20_000 {
			switch k := r.IntN(500); {
			case k == 0:
				now += r.Int64N(100 * c.pause) // idle, mostly long enough to reset the state
			case k > 400: // at the same instant
			default:
				now += r.Int64N(c.pause)/ms*ms + r.Int64N(3)*r.Int64N(2) // sometimes off by 1 or 2 µs
			}
			ok, delay := c.other(now)
			d, err := lim.Take(ctx, "key", 1)
			if err != nil {
				t.Fatal(err)
			}
			if d.OK != ok || d.Delay != time.Duration(delay)*time.Microsecond {
				t.Fatalf("%s, step %d: %s = %v after %v, the other %v after %d µs", c.name, step, c.limit, d.OK, d.Delay, ok, delay)
			}
			if ok {
				admitted++
			} else {
				denied++
			}
		}
		if admitted < 1000 || denied < 1000 {
			t.Errorf("%s: %d admitted, %d denied: want more of both", c.name, admitted, denied)
		}
		store.Close()
	}
}
