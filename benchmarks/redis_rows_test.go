package benchmarks

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redis/redis_rate/v10"
	goredis "github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	ulule "github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/benchmarks/compare"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/denycache"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
)

var (
	redisCost = compare.Column{Name: "redis", Head: "Redis CPU µs", Ratio: true}
	redisAll  = []compare.Column{
		redisCost,
		{Name: "client", Head: "client CPU µs", Ratio: true},
		{Name: "wall", Head: "wall µs", Ratio: true},
		{Name: "p50", Head: "p50 µs"},
		{Name: "p99", Head: "p99 µs", Ratio: true},
	}
)

// A redisPeer decides one token of a key in a Redis.
type redisPeer struct {
	name string
	open func(t testing.TB, addr string, perSecond int) func(key string) (bool, error)
}

func goRedis(t testing.TB, addr string) *goredis.Client {
	c := goredis.NewClient(&goredis.Options{Addr: addr, MaxRetries: -1, PoolSize: 256})
	t.Cleanup(func() { c.Close() })
	return c
}

func weirOnRedis(t testing.TB, addr string) weir.Store {
	t.Helper()
	conn, err := rueidis.Open("redis://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	store, err := redisstore.New(conn, redisstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

// taking returns the decision of a limiter.
func taking(t testing.TB, store weir.Store, limit string) func(string) (bool, error) {
	t.Helper()
	l, err := weir.New(store, weir.MustLimit(limit), weir.Config{})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	return func(key string) (bool, error) {
		d, err := l.Take(ctx, key, 1)
		return d.OK, err
	}
}

// cellScript decides as redis-cell does, in Lua: one theoretical arrival time per key. Its
// arguments are the time of a token and of the burst in µs.
var cellScript = goredis.NewScript(`
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + interval
if tat - now > burst then
  return {1, 0, math.ceil((tat - now - burst) / 1000000)}
end
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
return {0, math.floor((burst - (tat - now)) / interval), -1}`)

var redisPeers = []redisPeer{
	{"weir", func(t testing.TB, addr string, perSecond int) func(string) (bool, error) {
		return taking(t, weirOnRedis(t, addr), fmt.Sprintf("%d/s", perSecond))
	}},
	{"weir, deny cache", func(t testing.TB, addr string, perSecond int) func(string) (bool, error) {
		store, err := denycache.New(weirOnRedis(t, addr), denycache.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return taking(t, store, fmt.Sprintf("%d/s", perSecond))
	}},
	{"redis_rate", func(t testing.TB, addr string, perSecond int) func(string) (bool, error) {
		l := redis_rate.NewLimiter(goRedis(t, addr))
		ctx := context.Background()
		return func(key string) (bool, error) {
			r, err := l.Allow(ctx, key, redis_rate.PerSecond(perSecond))
			return err == nil && r.Allowed == 1, err
		}
	}},
	{"redis-cell style script", func(t testing.TB, addr string, perSecond int) func(string) (bool, error) {
		c := goRedis(t, addr)
		ctx := context.Background()
		interval := max(1, 1_000_000/perSecond)
		return func(key string) (bool, error) {
			r, err := cellScript.Run(ctx, c, []string{key}, interval, interval*perSecond).Int64Slice()
			return err == nil && r[0] == 0, err
		}
	}},
	{"throttled", func(t testing.TB, addr string, perSecond int) func(string) (bool, error) {
		store, err := throttledredis.NewCtx(goRedis(t, addr), "t:")
		if err != nil {
			t.Fatal(err)
		}
		l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerSec(perSecond), MaxBurst: perSecond - 1})
		if err != nil {
			t.Fatal(err)
		}
		l.SetMaxCASAttemptsLimit(1000)
		ctx := context.Background()
		return func(key string) (bool, error) {
			limited, _, err := l.RateLimitCtx(ctx, key, 1)
			return !limited, err
		}
	}},
	{"ulule", func(t testing.TB, addr string, perSecond int) func(string) (bool, error) {
		store, err := ululeredis.NewStore(goRedis(t, addr))
		if err != nil {
			t.Fatal(err)
		}
		l := ulule.New(store, ulule.Rate{Period: time.Second, Limit: int64(perSecond)})
		ctx := context.Background()
		return func(key string) (bool, error) {
			c, err := l.Get(ctx, key)
			return !c.Reached, err
		}
	}},
}

// redisRows decide one token per call. Each contender has a Redis of its own.
func redisRows() (rows []compare.Row) {
	for _, r := range []struct {
		name    string
		callers int
		keys    int
		goals   []compare.Goal
	}{
		{"redis/1", 1, 1000, []compare.Goal{{Contender: "redis_rate", Column: "redis", Least: 1}}},
		{"redis/64", 64, 1000, []compare.Goal{{Contender: "redis_rate", Column: "redis", Least: 3}}},
		{"redis/256", 256, 1000, []compare.Goal{{Contender: "redis_rate", Column: "redis", Least: 4}, {Contender: "redis_rate", Column: "p99", Least: 1 / 0.3}}},
		{"redis/hot-256", 256, 1, []compare.Goal{{Contender: "redis_rate", Column: "redis", Least: 10}}},
	} {
		row := compare.Row{
			Name: r.name, Title: fmt.Sprintf("a decision in Redis, allowed; callers: %d, keys: %d", r.callers, r.keys),
			Base: "weir", Columns: redisAll, Goals: r.goals,
		}
		for _, p := range redisPeers {
			if p.name == "weir, deny cache" || p.name == "throttled" && r.keys == 1 { // it repeats each call that lost a race
				continue
			}
			row.Contenders = append(row.Contenders, compare.Contender{Name: p.name, Open: func(t testing.TB) compare.Measure {
				server := redistest.Start(t)
				return onRedis(t, server, r.callers, names(r.keys), []func(string) (bool, error){p.open(t, server.Addr, 1_000_000)})
			}})
		}
		rows = append(rows, row)
	}
	over := compare.Row{
		Name: "redis/over", Title: "one key with 100/s, 50,000 requests per second offered by 256 callers", Base: "weir, deny cache", Shortest: 2 * time.Second,
		Columns: []compare.Column{
			{Name: "calls", Head: "Redis calls / admitted", Ratio: true}, {Name: "redis", Head: "Redis CPU µs / offered", Ratio: true},
			{Name: "offered", Head: "offered/s"}, {Name: "admitted", Head: "admitted/s"},
		},
		Goals: []compare.Goal{{Column: "calls", Most: 2}},
	}
	for _, p := range redisPeers {
		if p.name == "throttled" {
			continue // it repeats each call that lost a race
		}
		over.Contenders = append(over.Contenders, compare.Contender{Name: p.name, Open: func(t testing.TB) compare.Measure {
			server := redistest.Start(t)
			return offering(server, p.open(t, server.Addr, 100))
		}})
	}
	return append(rows, over)
}

// onRedis measures callers that take from keys. They share the functions in turn.
func onRedis(t testing.TB, server *redistest.Server, callers int, keys []string, takes []func(string) (bool, error)) compare.Measure {
	calls := make([]func(int) error, callers)
	for i := range calls {
		take := takes[i%len(takes)]
		calls[i] = func(n int) error {
			ok, err := take(keys[n*7919%len(keys)])
			if err == nil && !ok {
				err = errors.New("denied")
			}
			return err
		}
	}
	run := func(t testing.TB, d time.Duration) compare.Sample {
		redis, client := used(t, server.PID()), own(t)
		all, took := callFor(t, d, calls)
		n := float64(len(all))
		return compare.Sample{
			"redis": (used(t, server.PID()) - redis) / n / 1e3, "client": (own(t) - client) / n / 1e3, "wall": float64(took) / n / 1e3,
			"p50": float64(all[len(all)/2]) / 1e3, "p99": float64(all[len(all)*99/100]) / 1e3,
		}
	}
	run(t, 50*time.Millisecond)
	return run
}

// offering measures an open loop: 500 requests each 10 ms, without regard to their answers.
// Those for which no caller is free are not offered.
func offering(server *redistest.Server, take func(string) (bool, error)) compare.Measure {
	return func(t testing.TB, d time.Duration) compare.Sample {
		requests := make(chan struct{}, 4096)
		var admitted, offered atomic.Int64
		var failed atomic.Pointer[error]
		var wait sync.WaitGroup
		for range 256 {
			wait.Go(func() {
				for range requests {
					ok, err := take("hot")
					if err != nil {
						failed.Store(&err)
					}
					if ok {
						admitted.Add(1)
					}
					offered.Add(1)
				}
			})
		}
		calls, redis := decisions(t, server), used(t, server.PID())
		began := time.Now()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for time.Since(began) < d {
			<-tick.C
			for range 500 {
				select {
				case requests <- struct{}{}:
				default:
				}
			}
		}
		close(requests)
		wait.Wait()
		if err := failed.Load(); err != nil {
			t.Fatal(*err)
		}
		if admitted.Load() == 0 {
			t.Fatal("no request was admitted")
		}
		seconds := time.Since(began).Seconds()
		return compare.Sample{
			"calls": (decisions(t, server) - calls) / float64(admitted.Load()), "redis": (used(t, server.PID()) - redis) / float64(offered.Load()) / 1e3,
			"offered": float64(offered.Load()) / seconds, "admitted": float64(admitted.Load()) / seconds,
		}
	}
}

// decisions returns the number of script calls of a Redis.
func decisions(t testing.TB, server *redistest.Server) (calls float64) {
	for line := range strings.Lines(fmt.Sprint(server.Do(t, "INFO", "commandstats"))) {
		name, rest, _ := strings.Cut(line, ":calls=")
		switch name {
		case "cmdstat_evalsha", "cmdstat_eval", "cmdstat_evalsha_ro", "cmdstat_fcall":
			count, _, _ := strings.Cut(rest, ",")
			n, err := strconv.ParseFloat(count, 64)
			if err != nil {
				t.Fatal(err)
			}
			calls += n
		}
	}
	return calls
}
