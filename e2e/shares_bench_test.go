package e2e_test

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
	"github.com/floodweir/weir/redisstore"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/redisledger"
)

// BenchmarkShares measures what a hot key costs Redis, at several rates: with one script call for
// each decision, with calls that concurrent requests share, and with shares. Four stores, or three
// servers, ask for the key. An iteration is a millisecond of requests.
//
//	go test -run '^$' -bench '^BenchmarkShares$' -benchtime 5000x ./e2e
//
// decisions/cpu-s are the decisions per second of Redis's CPU time, including its idle work;
// scripts/1000 are the scripts that it runs per 1,000 decisions. Both have a value without what the same
// connections cost while there are no requests: an idle Redis uses CPU, and servers read their configuration.
func BenchmarkShares(b *testing.B) {
	for _, rate := range []int{1_000, 10_000, 100_000} {
		for _, way := range []string{"call", "coalesced", "shares"} {
			b.Run(fmt.Sprintf("stores/rate=%d/%s", rate, way), func(b *testing.B) {
				redis := redistest.Start(b)
				var clients []func(n int) error
				for range 4 {
					clients = append(clients, storeClient(b, redis, way))
				}
				benchShares(b, redis, rate, clients)
			})
		}
		for _, shares := range []string{"off", "auto"} {
			b.Run(fmt.Sprintf("servers/rate=%d/shares=%s", rate, shares), func(b *testing.B) {
				redis := redistest.Start(b)
				var clients []func(n int) error
				for range 3 {
					clients = append(clients, serverClient(b, redis, shares))
				}
				benchShares(b, redis, rate, clients)
			})
		}
	}
}

// storeClient returns a function that makes n decisions with a store of its own.
func storeClient(b *testing.B, redis *redistest.Server, way string) func(n int) error {
	conn := openConn(b, "rueidis", "redis://"+redis.Addr)
	c := redisstore.Config{}
	if way == "call" {
		c.MaxBatch = 1
	}
	store := weir.Store(newRedisStore(b, conn, c))
	if way == "shares" {
		ledger, err := redisledger.New(conn, "")
		if err != nil {
			b.Fatal(err)
		}
		shares, err := share.New(store, ledger, share.Config{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = shares.Close() })
		store = shares
	}
	r := weir.Request{Key: "hot", Limit: weir.MustLimit("1000000/s"), N: 1}
	return func(n int) error {
		var all sync.WaitGroup
		var mu sync.Mutex
		var failed error
		for i := range min(n, 8) { // concurrent callers
			all.Go(func() {
				for j := i; j < n; j += 8 {
					if d, err := store.Do(context.Background(), r); err != nil || !d.OK {
						mu.Lock()
						failed = fmt.Errorf("decision = %+v, %w", d, err)
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		return failed
	}
}

// serverClient returns a function that makes n decisions by CL.THROTTLE of a server of its own.
func serverClient(b *testing.B, redis *redistest.Server, shares string) func(n int) error {
	resp := porttest.Address(b)
	serve(b, programtest.Weir(b), "shares: "+shares+"\n", "--store", "redis://"+redis.Addr, "--listen-resp", resp, "--listen-gateway", "off", "--log-level", "error")
	conn, err := redistest.Dial(resp)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	return func(n int) error {
		for range n {
			conn.Send("CL.THROTTLE", "hot", 999_999, 1_000_000, 1)
		}
		if err := conn.Flush(); err != nil {
			return err
		}
		for range n {
			if reply, err := conn.Receive(); err != nil {
				return err
			} else if list, ok := reply.([]any); !ok || list[0] != int64(0) {
				return fmt.Errorf("CL.THROTTLE = %v", reply)
			}
		}
		return nil
	}
}

// benchShares asks at a rate per second, and reports what that costs Redis.
func benchShares(b *testing.B, redis *redistest.Server, rate int, clients []func(n int) error) {
	idle := measureIdle(b, redis)
	decisions := 0
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var all sync.WaitGroup
	ask := func() {
		n := rate / 1000
		for i, ask := range clients {
			part := n / len(clients)
			if i == decisions%len(clients) {
				part += n % len(clients)
			}
			if part > 0 {
				all.Go(func() {
					if err := ask(part); err != nil {
						b.Error(err)
					}
				})
			}
		}
		all.Wait()
		decisions += n
		<-tick.C
	}
	for range 2000 { // until the shares are granted
		ask()
	}
	before := redisUsage(b, redis)
	decisions = 0
	for b.Loop() {
		ask()
	}
	b.StopTimer()
	used := redisUsage(b, redis).since(before)
	net := used.cpu - idle.cpu*used.seconds/idle.seconds
	b.ReportMetric(float64(decisions)/used.cpu, "decisions/cpu-s")
	b.ReportMetric(1e6*net/float64(decisions), "net-cpu-µs/decision")
	b.ReportMetric(1000*used.scripts/float64(decisions), "scripts/1000")
	b.ReportMetric(1000*(used.scripts-idle.scripts*used.seconds/idle.seconds)/float64(decisions), "net-scripts/1000")
}

// measureIdle returns what Redis uses while there are no requests.
func measureIdle(b *testing.B, redis *redistest.Server) usage {
	before := redisUsage(b, redis)
	<-time.After(3 * time.Second)
	return redisUsage(b, redis).since(before)
}

// A usage counts the scripts that clients have run, and has the CPU time of Redis in seconds.
type usage struct {
	at                    time.Time
	scripts, cpu, seconds float64
}

func (u usage) since(v usage) usage {
	return usage{scripts: u.scripts - v.scripts, cpu: u.cpu - v.cpu, seconds: u.at.Sub(v.at).Seconds()}
}

var usedCPU = regexp.MustCompile(`(?m)^used_cpu_(?:sys|user):([0-9.]+)`)

func redisUsage(b *testing.B, redis *redistest.Server) usage {
	u := usage{at: time.Now(), scripts: float64(calls(b, redis, "evalsha") + calls(b, redis, "eval"))}
	for _, m := range usedCPU.FindAllStringSubmatch(fmt.Sprint(redis.Do(b, "INFO", "cpu")), -1) {
		s, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			b.Fatal(err)
		}
		u.cpu += s
	}
	return u
}
