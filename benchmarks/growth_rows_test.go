package benchmarks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/benchmarks/compare"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/policy"
)

// growthRows show what a decision costs when one quantity grows.
func growthRows() []compare.Row {
	return []compare.Row{
		growth("growth/keys", "a decision in this process; keys", []int{1_000, 10_000, 100_000, 1_000_000, 10_000_000}, local,
			func(t testing.TB, keys int) compare.Measure {
				return keyedLoad{keys: keys}.measure(weirTake(t, "1000000/s"))
			}),
		growth("growth/keys-floor", "the same with a bare table of words: cache misses; keys", []int{1_000, 10_000, 100_000, 1_000_000, 10_000_000}, local,
			func(_ testing.TB, keys int) compare.Measure {
				f := newFloorTable(keys)
				return keyedLoad{keys: keys}.measure(func(key string) bool { return f.take(key, 1000, int64(time.Second)) })
			}),
		growth("growth/limits", "a request with several limits in this process; limits", []int{1, 2, 4, 8, 16}, local,
			func(t testing.TB, limits int) compare.Measure {
				return keyedLoad{keys: 1000}.measure(weirTake(t, severalLimits(limits)...))
			}),
		growth("growth/policies", "the policy of a request by host, method and path, for 10 different requests; policies", []int{10, 100, 1_000, 10_000, 100_000}, local,
			func(t testing.TB, policies int) compare.Measure { return matching(t, policies, 10) }),
		growth("growth/policies-many", "the same for 1,000 different requests: misses of caches and TLB; policies", []int{10, 100, 1_000, 10_000, 100_000}, local,
			func(t testing.TB, policies int) compare.Measure { return matching(t, policies, 1000) }),
		growth("growth/redis-limits", "a request of 64 callers with several limits in Redis; limits", []int{1, 2, 4, 8, 16}, redisAll,
			func(t testing.TB, limits int) compare.Measure {
				server := redistest.Start(t)
				take := takeAll(t, weirOnRedis(t, server.Addr), severalLimits(limits)...)
				return onRedis(t, server, 64, names(1000), []func(string) (bool, error){func(key string) (bool, error) { return take(key), nil }})
			}),
		growth("growth/redis-keys", "a decision of 64 callers in Redis; keys", []int{1_000, 10_000, 100_000, 1_000_000}, redisAll,
			func(t testing.TB, keys int) compare.Measure {
				server := redistest.Start(t)
				return onRedis(t, server, 64, names(keys), []func(string) (bool, error){taking(t, weirOnRedis(t, server.Addr), "1000000/s")})
			}),
		growth("growth/redis-stores", "a decision of 64 callers in Redis; stores, each with its connection, as of a process", []int{1, 2, 4, 8}, redisAll,
			func(t testing.TB, stores int) compare.Measure {
				server := redistest.Start(t)
				var takes []func(string) (bool, error)
				for range stores {
					takes = append(takes, taking(t, weirOnRedis(t, server.Addr), "1000000/s"))
				}
				return onRedis(t, server, 64, names(1000), takes)
			}),
		growth("growth/connections", "a proxied request, limit in memory; busy connections", []int{16, 64, 256, 1000, 4000}, proxyAll,
			func(t testing.TB, connections int) compare.Measure {
				return keptAlive(t, serveGateway(t, "memory"), connections)
			}),
		growth("growth/connections-nginx", "the same through nginx with limit_req; busy connections", []int{16, 64, 256, 1000, 4000}, proxyAll,
			func(t testing.TB, connections int) compare.Measure {
				return keptAlive(t, limitingNginx(t), connections)
			}),
	}
}

// growth returns a row with one contender per quantity. Ratios are to the least.
func growth(name, title string, quantities []int, columns []compare.Column, open func(t testing.TB, quantity int) compare.Measure) compare.Row {
	row := compare.Row{Name: name, Title: title, Base: fmt.Sprint(quantities[0]), Columns: columns}
	for _, q := range quantities {
		row.Contenders = append(row.Contenders, compare.Contender{Name: fmt.Sprint(q), Open: func(t testing.TB) compare.Measure { return open(t, q) }})
	}
	return row
}

// keptAlive measures requests to /one of a proxy over busy connections. They are opened before, and
// with them those to the upstream.
func keptAlive(t testing.TB, proxy server, connections int) compare.Measure {
	await(t, "http://"+proxy.addr+"/one", http.StatusOK)
	return func(t testing.TB, d time.Duration) compare.Sample {
		clients, calls := make([]keptClient, connections), make([]func(int) error, connections)
		for i := range clients {
			c := &clients[i]
			calls[i] = func(int) error { return c.get(proxy.addr) }
			defer c.close()
		}
		callFor(t, time.Second, calls)
		before := used(t, proxy.pid)
		all, took := callFor(t, d, calls)
		n := float64(len(all))
		return compare.Sample{"server": (used(t, proxy.pid) - before) / n / 1e3, "wall": float64(took) / n / 1e3, "p99": float64(all[len(all)*99/100]) / 1e3}
	}
}

// A keptClient sends requests over one connection.
type keptClient struct {
	conn      net.Conn // nil before the first request
	responses *bufio.Reader
}

// get gets /one, which must be allowed.
func (c *keptClient) get(addr string) (err error) {
	if c.conn == nil {
		if c.conn, err = net.Dial("tcp", addr); err != nil {
			return err
		}
		c.responses = bufio.NewReader(c.conn)
	}
	if _, err := fmt.Fprintf(c.conn, "GET /one HTTP/1.1\r\nHost: %s\r\n\r\n", addr); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.responses, nil)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d, want 200", res.StatusCode)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

func (c *keptClient) close() {
	if c.conn != nil {
		c.conn.Close()
	}
}

// severalLimits returns n different limits that admit every request.
func severalLimits(n int) (limits []string) {
	for i := range n {
		limits = append(limits, fmt.Sprintf("1000000/s burst %d", 1_000_000+i))
	}
	return limits
}

// An endpoint is a request to one of many policies.
type endpoint struct{ host, path string }

func (e endpoint) Method() string         { return "GET" }
func (e endpoint) Host() string           { return e.host }
func (e endpoint) Path() string           { return e.path }
func (e endpoint) Header(string) []string { return nil }
func (e endpoint) Query(string) []string  { return nil }
func (e endpoint) Cookie(string) []string { return nil }
func (e endpoint) ClientIP() netip.Addr   { return netip.AddrFrom4([4]byte{203, 0, 113, 7}) }

// matching finds the policies of different requests in turn.
func matching(t testing.TB, policies, different int) compare.Measure {
	var all []*policy.Policy
	for i := range policies {
		p, err := policy.New(policy.Config{
			Name: fmt.Sprint("p", i), Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("10/s")},
			Match: policy.Match{Hosts: []string{fmt.Sprintf("h%d.example", i%100)}, Paths: []string{fmt.Sprintf("/svc%d/{id}/orders", i)}, Methods: []string{"GET", "POST"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	set, err := policy.NewSet(all...)
	if err != nil {
		t.Fatal(err)
	}
	var requests []policy.Attributes
	for i := range min(policies, different) {
		i = i * policies / min(policies, different)
		requests = append(requests, endpoint{fmt.Sprintf("h%d.example", i%100), fmt.Sprintf("/svc%d/4711/orders", i)})
	}
	runtime.GC() // what the set needed while it was made
	var q policy.Matches
	return repeat(1, func(n int) {
		for i := range n {
			if set.Match(&q, requests[i%len(requests)]); len(q.Charges) != 1 {
				panic(fmt.Sprint(len(q.Charges), " policies match, want 1"))
			}
		}
	})
}
