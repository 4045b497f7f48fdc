package edge_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/redisstore"
)

// format formats a decision in whole numbers.
func format(d weir.Decision) string {
	retry := d.RetryAfter.Microseconds()
	if d.RetryAfter == weir.Never {
		retry = -1
	}
	return fmt.Sprint(d.OK, d.Granted, d.Remaining, retry, d.ResetAfter.Microseconds(), d.Delay.Microseconds(), d.At.UnixMicro())
}

func (a storeAnswer) format() string {
	return fmt.Sprint(a.OK, a.Granted, a.Remaining, a.Retry, a.Reset, a.Delay, a.At)
}

// storeTwins holds a Redis used by Lua and by Go, and a memory store as the model, which
// decides at the same instants.
type storeTwins struct {
	lua    *storeServer
	redis  *redistest.Server
	golang *redisstore.Store
	model  *memstore.Store
	now    atomic.Int64
}

func newStoreTwins(t *testing.T, limits []weir.Limit) *storeTwins {
	t.Helper()
	x := &storeTwins{redis: redistest.Start(t)}
	x.lua = startStore(t, storeSettings{Redis: storeRedis{Hosts: []string{x.redis.Addr}}, Deadline: 5e6}, newStorePlan(limits), "")
	conn, err := rueidis.Open("redis://" + x.redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if x.golang, err = redisstore.New(conn, redisstore.Config{Timeout: 5 * time.Second}); err != nil {
		t.Fatal(err)
	}
	x.now.Store(time.Now().UnixMicro())
	if x.model, err = memstore.New(memstore.Config{Clock: x.now.Load}); err != nil {
		t.Fatal(err)
	}
	return x
}

// ask sends requests to Redis, from Lua or from Go, and to the model at the same instant, and
// returns the difference.
func (x *storeTwins) ask(t *testing.T, rs []weir.Request, all, overLua bool) (problem string) {
	t.Helper()
	var ok, unknown bool
	var got []string
	if overLua {
		r := x.lua.run(t, rs, all)
		if r.Err != "" {
			return "Lua: " + r.Err
		}
		ok = r.OK
		for _, a := range r.Answers {
			unknown = unknown || a.Unknown
			got = append(got, a.format())
			x.now.Store(max(x.now.Load(), a.At))
		}
	} else {
		ds := make([]weir.Decision, len(rs))
		var err error
		if all {
			ok, err = x.golang.DoAll(t.Context(), rs, ds)
		} else {
			ds[0], err = x.golang.Do(t.Context(), rs[0])
			ok = ds[0].OK
		}
		unknown = errors.Is(err, weir.ErrNoReservation)
		switch {
		case unknown:
			tm := x.redis.Do(t, "TIME").([]any)
			var s, us int64
			fmt.Sscan(tm[0].(string)+" "+tm[1].(string), &s, &us)
			x.now.Store(s*1e6 + us)
		case err != nil:
			return "Go: " + err.Error()
		}
		for _, d := range ds {
			got = append(got, format(d))
			if !unknown {
				x.now.Store(max(x.now.Load(), d.At.UnixMicro()))
			}
		}
	}
	want := make([]weir.Decision, len(rs))
	var wantOK bool
	var err error
	if all {
		wantOK, err = x.model.DoAll(context.Background(), rs, want)
	} else {
		want[0], err = x.model.Do(context.Background(), rs[0])
		wantOK = want[0].OK
	}
	if wantUnknown := errors.Is(err, weir.ErrNoReservation); err != nil && !wantUnknown {
		return "model: " + err.Error()
	} else if wantUnknown || unknown {
		if wantUnknown != unknown {
			return fmt.Sprintf("unknown = %v, want %v; %v", unknown, wantUnknown, got)
		}
		return ""
	}
	for i := range want {
		if got[i] != format(want[i]) {
			return fmt.Sprintf("request %d: %s, want %s", i, got[i], format(want[i]))
		}
	}
	if ok != wantOK {
		return fmt.Sprintf("ok = %v, want %v", ok, wantOK)
	}
	return ""
}

func (x *storeTwins) key(g *rand.Rand) string {
	keys := []string{"p|9:127.0.0.1", "p|4:ключ", "p|" + strings.Repeat("long", 40), strings.Repeat("ü", 20), "a b%{}"}
	return keys[g.IntN(len(keys))]
}

// TestStoreTwins sends requests about the same keys from Go and Lua in turn to one Redis.
// Together they get the decisions of one memory store.
func TestStoreTwins(t *testing.T) {
	t.Parallel()
	limits := storeLimits()
	for _, text := range []string{"2000/s burst 5", "5/10ms fixed_window", "6/20ms sliding_window", "5/10ms sliding_log", "800/s leaky_bucket burst 6 queue", "4 concurrency lease 20ms", "2000/s burst 5 initial 1"} {
		limits = append(limits, weir.MustLimit(text))
	}
	x := newStoreTwins(t, limits)
	g := rand.New(rand.NewPCG(5, 6))
	var trail []string
	counts := map[weir.Verb]int{}
	for step := range 6000 {
		var rs []weir.Request
		all := g.IntN(3) == 0
		for {
			r := weir.Request{Verb: storeVerbs[g.IntN(len(storeVerbs))], Key: x.key(g), Limit: limits[g.IntN(len(limits))], N: g.Int64N(5)}
			if g.IntN(50) == 0 {
				r.N = 1 << 55
			}
			if r.Verb >= weir.Reserve {
				r.ID = fmt.Sprint(g.IntN(6))
			}
			if r.Verb == weir.Reserve {
				r.N, r.TTL = max(1, r.N), []time.Duration{2 * time.Millisecond, 50 * time.Millisecond, time.Minute}[g.IntN(3)]
			}
			counts[r.Verb]++
			rs = append(rs, r)
			if !all || len(rs) > 4 || g.IntN(3) == 0 {
				break
			}
		}
		overLua := g.IntN(2) == 0
		trail = append(trail, fmt.Sprintf("lua %v all %v: %+v", overLua, all, rs))
		if problem := x.ask(t, rs, all, overLua); problem != "" {
			t.Fatalf("step %d: %s\nafter\n%s", step, problem, strings.Join(slices.DeleteFunc(trail, func(s string) bool {
				return !strings.Contains(s, "3/s leaky") || !strings.Contains(s, rs[len(rs)-2].Key)
			}), "\n"))
		}
	}
	t.Log(counts)
}
