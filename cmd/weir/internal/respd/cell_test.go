package respd_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/respd"
)

// cell is the arithmetic of redis-cell (src/cell/mod.rs and src/lib.rs), in
// nanoseconds.
type cell struct{ tat map[string]int64 }

func (c *cell) throttle(now int64, key string, maxBurst, count, period, quantity int64) string {
	limit := maxBurst + 1
	interval := int64(float64(period*1e9) / float64(count))
	tolerance, increment := interval*limit, interval*quantity
	tat, known := c.tat[key]
	if !known || tat <= now { // Redis has expired it
		tat = now
	}
	next := max(now, tat) + increment
	limited, retry, ttl := int64(0), int64(-1), next-now
	if diff := now - (next - tolerance); diff < 0 {
		if limited, ttl = 1, tat-now; increment <= tolerance {
			retry = rounded(-diff)
		}
	} else {
		c.tat[key] = next
	}
	remaining := int64(0)
	if left := tolerance - ttl; left > -interval {
		remaining = int64(float64(left/1000) / float64(interval/1000))
	}
	return fmt.Sprintf("[%d %d %d %d %d]", limited, limit, remaining, retry, rounded(ttl))
}

func rounded(ns int64) int64 {
	s := ns / 1e9
	if ns%1e9/1e6 > 0 {
		s++
	}
	return s
}

// twoServers returns clients of two servers that share a store in memory, and its clock in µs.
func twoServers(t *testing.T) (now *atomic.Int64, clients [2]*client) {
	now = new(atomic.Int64)
	now.Store(1_700_000_000_000_000)
	store := memory(t, now)
	for i := range clients {
		_, addr := start(t, respd.Config{Store: store})
		clients[i] = dial(t, addr)
	}
	return now, clients
}

// TestBurstsInTurn sends commands with several bursts for one key through two servers with one
// store. As in redis-cell the key has one state, so each burst admits what is due.
func TestBurstsInTurn(t *testing.T) {
	now, clients := twoServers(t)
	model := cell{tat: map[string]int64{}}
	r := rand.New(rand.NewPCG(3, 2))
	admitted := 0
	for i := range 1000 {
		now.Add(r.Int64N(2_000_000))
		burst, quantity := r.Int64N(9), 1+r.Int64N(2)
		got := clients[r.IntN(2)].do(t, "CL.THROTTLE", "k", strconv.FormatInt(burst, 10), "60", "60", strconv.FormatInt(quantity, 10))
		want := model.throttle(now.Load()*1000, "k", burst, 60, 60, quantity)
		if got != want {
			t.Fatalf("ask %d: burst %d quantity %d = %s, redis-cell %s", i, burst, quantity, got, want)
		}
		if got[1] == '0' {
			admitted++
		}
	}
	if admitted < 100 || admitted > 900 {
		t.Errorf("%d of 1000 admitted: the test shows nothing", admitted)
	}
}

// TestRatesInTurn sends bursts of two rates in turn for one key through two servers. They admit
// at most the larger burst and what is due at the larger rate, and at least what is due at the
// smaller one.
func TestRatesInTurn(t *testing.T) {
	now, clients := twoServers(t)
	admitted, asked := 0, 0
	for range 100 { // seconds
		for i := range 20 {
			asked++
			got := clients[i%2].do(t, "CL.THROTTLE", "k", "9", []string{"1", "2"}[i%2], "1", "1")
			if got[1] == '0' {
				admitted++
			}
		}
		now.Add(1_000_000)
	}
	if admitted < 9+100 || admitted > 10+2*100 {
		t.Errorf("%d of %d admitted in 100 s at 1/s and 2/s in turn, with a burst of 10", admitted, asked)
	}
}

// TestAgreesWithRedisCell asks both at random. The intervals are whole microseconds,
// which both have exactly.
func TestAgreesWithRedisCell(t *testing.T) {
	var now atomic.Int64
	now.Store(1_700_000_000_000_000)
	_, addr := start(t, respd.Config{Store: memory(t, &now)})
	c := dial(t, addr)
	model := cell{tat: map[string]int64{}}
	seed := uint64(1)
	r := rand.New(rand.NewPCG(seed, 2))
	rates := []struct{ burst, count, period int64 }{
		{15, 30, 60}, {0, 1, 1}, {4, 1000, 1}, {99, 8000, 1}, {9, 1_000_000, 1}, {3, 1, 86400}, {1, 250, 7},
	}
	const n = 5000
	limited := 0
	for i := range n {
		at := r.IntN(len(rates))
		rate := rates[at]
		key := fmt.Sprintf("%d-%d", at, r.IntN(3))
		quantity := r.Int64N(rate.burst + 3)
		interval := rate.period * 1_000_000 / rate.count // µs
		now.Add(r.Int64N(2*interval + 1))
		got := c.do(t, "CL.THROTTLE", key, strconv.FormatInt(rate.burst, 10), strconv.FormatInt(rate.count, 10), strconv.FormatInt(rate.period, 10), strconv.FormatInt(quantity, 10))
		want := model.throttle(now.Load()*1000, key, rate.burst, rate.count, rate.period, quantity)
		if got != want {
			t.Fatalf("ask %d: %s %+v quantity %d = %s, redis-cell %s", i, key, rate, quantity, got, want)
		}
		if got[1] == '1' {
			limited++
		}
	}
	t.Logf("%d asks, %d limited, all as redis-cell", n, limited)
	if limited < n/10 || limited > n*9/10 {
		t.Errorf("%d of %d limited: the test has lost its point", limited, n)
	}
}
