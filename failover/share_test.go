package failover_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/failover"
	"github.com/floodweir/weir/memstore"
)

func TestShare(t *testing.T) {
	for _, tt := range []struct {
		limit string
		nodes int
		want  string
	}{
		{"10/s burst 20", 1, "10/s burst 20"},
		// Buckets: the rate to the token, the burst rounded down.
		{"10/s burst 20", 3, "10/3s burst 6"},
		{"9/s burst 20", 3, "3/s burst 6"},
		{"10/s burst 2", 3, "10/3s burst 1"},
		{"1/h", 5, "1/5h burst 1"},
		{"7/m burst 70 initial 10", 4, "7/4m burst 17 initial 2"},
		{"7/m burst 70 initial 0", 4, "7/4m burst 17 initial 0"},
		{"5/s burst 9 warmup 3s", 2, "5/2s burst 4 warmup 3s"},
		{"10/s leaky_bucket", 3, "10/3s leaky_bucket burst 0"},
		{"10/s leaky_bucket burst 8", 3, "10/3s leaky_bucket burst 2"},
		{"10/s leaky_bucket burst 7 queue", 3, "10/3s leaky_bucket burst 1 queue"},
		{"10/s leaky_bucket burst 7 delay 6", 3, "10/3s leaky_bucket burst 1 queue delay 1"},
		{"90/m leaky_bucket burst 5 nginx", 3, "30/m leaky_bucket burst 1 nginx"},
		{"1/10m leaky_bucket burst 5 nginx", 3, "1/30m leaky_bucket burst 1"}, // too slow for nginx
		// What comes at once, and windows: the count rounded down.
		{"100/m interval burst 200", 3, "33/m burst 66 interval"},
		{"100/m interval anchor epoch", 3, "33/m burst 33 interval anchor epoch"},
		{"2/m interval", 3, "1/90s burst 1 interval"},
		{"100/m interval initial 50", 3, "33/m burst 33 interval initial 16"},
		{"100/m fixed_window", 3, "33/m fixed_window"},
		{"100/m fixed_window anchor epoch", 3, "33/m fixed_window anchor epoch"},
		{"3/m fixed_window", 4, "1/80s fixed_window"},
		{"3/1us fixed_window", 7, "1/3us fixed_window"},
		{"1000/day calendar Europe/Berlin", 3, "333/day fixed_window calendar Europe/Berlin"},
		{"2/month calendar UTC", 3, "1/month fixed_window calendar UTC"},
		{"100/m sliding_window segments 6 weighted", 3, "33/m sliding_window segments 6 weighted"},
		{"3/10s sliding_window segments 10", 7, "1/23333340us sliding_window segments 10"},
		{"100/m sliding_log", 3, "33/m sliding_log"},
		{"2/m sliding_log", 3, "1/90s sliding_log"},
		{"10 concurrency lease 30s", 3, "3 concurrency lease 30s"},
		{"2 concurrency lease 30s", 3, "1 concurrency lease 30s"},
		// Where the exact rate would have a period above 100 years.
		{"7/788940h burst 7", 3, "2/788940h burst 2"},
		{"1/788940h", 3, "1/876600h burst 1"},
		{"1/788940h sliding_window weighted", 3, "1/2868872727272720us sliding_window segments 10 weighted"},
		{"1/788940h warmup 1h", 3, "1/876600h burst 1"},
	} {
		got, err := failover.Share(weir.MustLimit(tt.limit), tt.nodes)
		if err != nil || !got.Equal(mustParse(t, tt.want, got)) {
			t.Errorf("Share(%s, %d) = %s, %v, want %s", tt.limit, tt.nodes, got, err, tt.want)
		}
	}
}

func mustParse(t *testing.T, text string, got weir.Limit) weir.Limit {
	l, err := weir.ParseLimit(text)
	if err != nil {
		t.Errorf("%v; got %s", err, got)
	}
	return l
}

// randomLimit returns a limit of any algorithm, common or extreme.
func randomLimit(g *rand.Rand) weir.Limit {
	about := func(most int64) int64 { // small more often than large
		n := int64(1)
		for n < most && g.IntN(4) > 0 {
			n = n*2 + g.Int64N(3)
		}
		return min(n, most)
	}
	pick := func(ds ...time.Duration) time.Duration { return ds[g.IntN(len(ds))] }
	for {
		count := about([]int64{10, 100, 10_000, 1 << 40}[g.IntN(4)])
		period := pick(time.Microsecond, time.Second, time.Minute, time.Hour, 30*24*time.Hour, 36525*24*time.Hour, time.Duration(about(36525*24*3600*1e6))*time.Microsecond)
		var c weir.LimitConfig
		switch g.IntN(7) {
		case 0, 1:
			b := weir.TokenBucket{Count: count, Period: period, Burst: about(1 << 40)}
			switch g.IntN(4) {
			case 0:
				b.Warmup = time.Duration(about(1e12)) * time.Microsecond
			case 1:
				b.Interval = true
				b.Epoch = g.IntN(2) == 1
			}
			if b.Warmup == 0 && g.IntN(3) == 0 {
				n := g.Int64N(b.Burst + 1)
				b.Initial = &n
			}
			c = b
		case 2:
			b := weir.LeakyBucket{Count: count, Period: period, Burst: about(1000) - 1, Nginx: g.IntN(2) == 0, Queue: g.IntN(2) == 0}
			if b.Queue {
				b.QueueFree = g.Int64N(b.Burst + 1)
			}
			c = b
		case 3:
			w := weir.FixedWindow{Count: count, Period: period}
			if g.IntN(3) == 0 {
				w.Period, w.Calendar = 0, []string{"day", "week", "month", "year"}[g.IntN(4)]
			} else {
				w.Epoch = g.IntN(2) == 0
			}
			c = w
		case 4:
			w := weir.SlidingWindow{Count: count, Segments: []int{1, 2, 7, 10, 100}[g.IntN(5)], Weighted: g.IntN(2) == 0}
			w.Period = period - period%(time.Duration(w.Segments)*time.Microsecond)
			c = w
		case 5:
			c = weir.SlidingLog{Count: count, Period: period}
		case 6:
			c = weir.Concurrency{Count: count, Lease: period}
		}
		if l, err := weir.NewLimit(c); err == nil {
			return l
		}
	}
}

// TestShareOfAnything checks that every limit has a share of the same algorithm for any
// number of nodes. Nodes times its rate is at most the rate of the limit. Nodes times its
// capacity is at most the capacity of the limit, or nodes.
func TestShareOfAnything(t *testing.T) {
	g := rand.New(rand.NewPCG(1, 1))
	for range 100_000 {
		l := randomLimit(g)
		nodes := 1 + g.IntN([]int{1, 5, 100, failover.MaxNodes}[g.IntN(4)])
		s, err := failover.Share(l, nodes)
		if err != nil {
			t.Fatalf("Share(%s, %d) = %v", l, nodes, err)
		}
		a, b := bucketOf(l), bucketOf(s)
		if nodes == 1 && s != l || l.Algorithm() != s.Algorithm() || kind(l) != kind(s) {
			t.Fatalf("Share(%s, %d) = %s, of another kind", l, nodes, s)
		}
		n := int64(nodes)
		if all := n * s.Capacity(); all > max(n, l.Capacity()) {
			t.Fatalf("Share(%s, %d) = %s: %d shares give %d at once", l, nodes, s, nodes, all)
		}
		if a.Initial != nil && *b.Initial*n > *a.Initial {
			t.Fatalf("Share(%s, %d) = %s: the shares begin with more", l, nodes, s)
		}
		slow := s.Period() >= 36525*12*time.Hour // whose share would have a period of more than 100 years
		if l.Period() != 0 && !l.IsConcurrency() && !slow {
			// nodes·count'/period' ≤ count/period
			if product(n, s.Count(), int64(l.Period())).Cmp(product(1, l.Count(), int64(s.Period()))) > 0 {
				t.Fatalf("Share(%s, %d) = %s: the shares have a higher rate", l, nodes, s)
			}
		}
		exact := l.Algorithm() == "leaky_bucket" || l.Algorithm() == "token_bucket" && !a.Interval
		if long := product(n, int64(l.Period()/time.Microsecond), 1); exact && long.Cmp(big.NewInt(36525*24*3600*1e6)) <= 0 {
			if product(n, s.Count(), int64(l.Period())).Cmp(product(1, l.Count(), int64(s.Period()))) != 0 {
				t.Fatalf("Share(%s, %d) = %s: the rate is not exact", l, nodes, s)
			}
		}
	}
}

// bucketOf returns the description of a token bucket; the zero one of another limit.
func bucketOf(l weir.Limit) weir.TokenBucket {
	b, _ := l.Config().(weir.TokenBucket)
	return b
}

// kind returns the options of a limit that a share keeps.
func kind(l weir.Limit) string {
	switch c := l.Config().(type) {
	case weir.TokenBucket:
		return fmt.Sprint(c.Interval, c.Epoch, c.Initial == nil)
	case weir.LeakyBucket:
		return fmt.Sprint(c.Queue)
	case weir.FixedWindow:
		return fmt.Sprint(c.Epoch, c.Calendar)
	case weir.SlidingWindow:
		return fmt.Sprint(c.Segments, c.Weighted)
	}
	return ""
}

func product(a, b, c int64) *big.Int {
	p := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	return p.Mul(p, big.NewInt(c))
}

// bound returns the most that a limit admits in any span of d µs, by the table of
// docs/guarantees.md.
func bound(l weir.Limit, d int64) int64 {
	period := l.Period().Microseconds()
	steady := func(d int64) int64 { return d * l.Count() / period }
	switch c := l.Config().(type) {
	case weir.FixedWindow:
		if c.Calendar != "" {
			return c.Count * (d/(23*3600*1e6) + 2) // of days, the shortest
		}
	case weir.TokenBucket:
		if c.Interval {
			return c.Burst + (d+period-1)/period*c.Count
		}
		return l.Capacity() + steady(d)
	case weir.LeakyBucket:
		if c.Nginx {
			return l.Capacity() + steady(d+1000) // it counts in ms
		}
		return l.Capacity() + steady(d)
	case weir.SlidingLog:
		return c.Count * (d/period + 1)
	}
	return l.Count() * (d/period + 2)
}

// TestSharesTogether checks nodes that admit as much as their share allows at any instant.
// In any span they admit at most nodes times the bound of the share. That is at most the
// bound of the limit if its count and capacity are at least nodes. Costs are up to the
// capacity of the share.
func TestSharesTogether(t *testing.T) {
	for _, text := range []string{
		"30/s burst 40", "10/s", "7/s burst 20", "2/s burst 3", "1/m", "30/s burst 40 initial 3", "20/s burst 15 warmup 2s",
		"12/s burst 30 interval", "10/s interval anchor epoch", "2/s interval",
		"30/s leaky_bucket burst 9", "30/s leaky_bucket burst 9 nginx", "3/s leaky_bucket queue burst 3",
		"20/s fixed_window", "20/s fixed_window anchor epoch", "2/s fixed_window anchor epoch", "9/day calendar UTC",
		"20/s sliding_window", "20/s sliding_window segments 4 weighted", "2/s sliding_window",
		"20/s sliding_log", "3/2s sliding_log",
	} {
		l := weir.MustLimit(text)
		for _, nodes := range []int{1, 2, 3, 7} {
			share, err := failover.Share(l, nodes)
			if err != nil {
				t.Fatal(err)
			}
			admitted := saturate(t, l, share, nodes)
			worst := 0.0
			for i := range admitted {
				sum := int64(0)
				for j := i; j < len(admitted); j++ {
					sum += admitted[j].n
					d := admitted[j].at - admitted[i].at
					most := int64(nodes) * bound(share, d)
					if sum > most {
						t.Fatalf("%s among %d: %d admitted in %v, at most %d may be", l, nodes, sum, time.Duration(d)*time.Microsecond, most)
					}
					worst = max(worst, float64(sum)/float64(most))
					if c, _ := l.Config().(weir.LeakyBucket); l.Count() >= int64(nodes) && l.Capacity() >= int64(nodes) && most > bound(l, d) && !c.Nginx {
						t.Fatalf("%s among %d: the bound of the shares in %v is %d, of the limit %d", l, nodes, time.Duration(d)*time.Microsecond, most, bound(l, d))
					}
				}
			}
			if worst < 0.4 && bucketOf(l).Warmup == 0 && l.Period() != 0 {
				t.Errorf("%s among %d: the worst span has %.2f of its bound: this test asks for too little", l, nodes, worst)
			}
		}
	}
}

type admission struct{ at, n int64 }

// saturate takes all that the nodes admit, at random instants.
func saturate(t *testing.T, l, share weir.Limit, nodes int) (all []admission) {
	t.Helper()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	clock := func() int64 { return now }
	var stores []weir.Store
	for range nodes {
		mem, err := memstore.New(memstore.Config{Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		stores = append(stores, newLocal(t, mem, nodes))
	}
	g := rand.New(rand.NewPCG(7, uint64(nodes)))
	for range 100 {
		switch g.IntN(4) {
		case 0:
			now += g.Int64N(2_000_000)
		case 1:
			now += 1_000_000 - now%1_000_000 - g.Int64N(2)
		default:
			now += g.Int64N(100_000)
		}
		for _, s := range stores {
			r := weir.Request{Key: "k", Limit: l, N: 1 + g.Int64N(share.Capacity())}
			for range 100 {
				d, err := s.Do(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				if d.OK {
					all = append(all, admission{now, d.Granted})
				} else if r.N == 1 {
					break
				}
				r.N = max(1, r.N/2)
			}
		}
	}
	return all
}

// TestSharesOfConcurrency checks that all shares together have at most as many slots as the
// limit, at any instant.
func TestSharesOfConcurrency(t *testing.T) {
	for _, tt := range []struct{ slots, nodes, want int }{{10, 3, 9}, {10, 1, 10}, {2, 5, 5}} {
		total := 0
		for range tt.nodes {
			s := newLocal(t, newMem(t), tt.nodes)
			for {
				d, err := s.Do(t.Context(), weir.Request{Key: "k", Limit: weir.MustLimit(fmt.Sprint(tt.slots, " concurrency")), N: 1})
				if err != nil || !d.OK {
					break
				}
				total++
			}
		}
		if total != tt.want {
			t.Errorf("%d slots among %d: %d held, want %d", tt.slots, tt.nodes, total, tt.want)
		}
	}
}
