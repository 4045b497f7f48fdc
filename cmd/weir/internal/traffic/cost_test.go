//go:build unix

package traffic_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/gateway"
	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
)

// BenchmarkCost measures by how many percent the console's counting increases the CPU time of a
// process. It is a gateway over loopback, with its clients and upstream, or decides in process.
//
//	go test -run xxx -bench Cost -benchtime 400x -cpu 1 ./internal/traffic
//
// An iteration is 32 slices with the same requests: with counting, without, without and with, or the
// reverse, and so on. The result is the median over iterations of the ratio of the times with and
// without, and its 95 % interval.
func BenchmarkCost(b *testing.B) {
	for _, of := range []struct {
		name, limit string
		admitted    bool
	}{{"gateway/admitted", "1000000/s", true}, {"gateway/denied", "1/24h", false}} {
		b.Run(of.name, func(b *testing.B) {
			c := newCost(b, of.limit)
			address := c.gateway(b)
			var clients [8]*client
			for i := range clients {
				clients[i] = connect(b, address, i)
			}
			c.measure(b, func() {
				var all sync.WaitGroup
				for _, one := range clients {
					all.Go(func() { one.send(b, 20, of.admitted) })
				}
				all.Wait()
			})
		})
	}
	b.Run("decision", func(b *testing.B) {
		c := newCost(b, "100/m")
		requests := make([]addressed, 1<<12)
		for i := range requests {
			requests[i].addr = netip.MustParseAddr(fmt.Sprintf("192.0.%d.%d", i/250, i%250))
		}
		e, err := enforce.New(newStore(b), c.set, enforce.Config{Observe: func(_ context.Context, _ policy.Attributes, e enforce.Event) { c.observe(e) }})
		if err != nil {
			b.Fatal(err)
		}
		var a enforce.Admission
		c.measure(b, func() {
			for n := range len(requests) {
				if e.Enter(b.Context(), &requests[n%len(requests)], &a); n%2048 == 0 && c.on.Load() {
					c.r.Drain() // as Run, which a full buffer wakes
				}
			}
		})
	})
}

// A cost is a recorder that can be turned off.
type cost struct {
	set *policy.Set
	r   *traffic.Recorder
	on  atomic.Bool
	now time.Time
}

func newCost(b *testing.B, limit string) *cost {
	p, err := policy.New(policy.Config{Name: "login", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit(limit)}})
	if err != nil {
		b.Fatal(err)
	}
	c := &cost{now: time.Now()}
	if c.set, err = policy.NewSet(p); err != nil {
		b.Fatal(err)
	}
	c.r = traffic.New(traffic.Config{Now: func() time.Time { return c.now }})
	c.r.Observe(enforce.Event{Policy: p, Outcome: enforce.Held})
	c.r.View("login") // with its keys
	return c
}

func (c *cost) observe(e enforce.Event) {
	if c.on.Load() {
		c.r.Observe(e)
	}
}

// gateway starts a gateway with metrics, before an upstream, and returns its address.
func (c *cost) gateway(b *testing.B) string {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }))
	b.Cleanup(upstream.Close)
	m := metrics.New(metrics.Config{})
	trusted := httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	limit, err := httplimit.New(newStore(b), c.set, httplimit.Config{Client: trusted, Observe: func(_ *http.Request, e enforce.Event) {
		m.Observe("gateway", e)
		c.observe(e)
	}})
	if err != nil {
		b.Fatal(err)
	}
	g, err := gateway.New(gateway.Config{Routes: []gateway.Route{{Upstream: upstream.URL}}, Limit: limit.Wrap, Client: trusted})
	if err != nil {
		b.Fatal(err)
	}
	server := httptest.NewServer(g)
	b.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// measure runs slices of several milliseconds.
func (c *cost) measure(b *testing.B, slice func()) {
	iteration := func(first bool) (used [2]time.Duration) {
		for i := range 32 {
			on, at := first == (i%4 == 0 || i%4 == 3), 0
			c.on.Store(on)
			before := cpuTime(b)
			if slice(); on {
				if at = 1; i >= 28 { // as Run does in 100 ms
					c.now = c.now.Add(100 * time.Millisecond)
					c.r.Collect(c.now)
					c.r.Snapshot()
				}
			}
			used[at] += cpuTime(b) - before
		}
		return used
	}
	iteration(true) // so that both are warm
	var ratios []float64
	b.ResetTimer()
	for first := true; b.Loop(); first = !first {
		used := iteration(first)
		ratios = append(ratios, 100*(float64(used[1])/float64(used[0])-1))
	}
	b.StopTimer()
	low, high := interval(ratios)
	b.ReportMetric(median(ratios), "%cost")
	b.ReportMetric(low, "%low")
	b.ReportMetric(high, "%high")
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// interval returns the 95 % interval of the median, by bootstrap.
func interval(values []float64) (low, high float64) {
	random := rand.New(rand.NewPCG(1, 2))
	medians := make([]float64, 2000)
	again := make([]float64, len(values))
	for i := range medians {
		for k := range again {
			again[k] = values[random.IntN(len(values))]
		}
		medians[i] = median(again)
	}
	slices.Sort(medians)
	return medians[len(medians)/40], medians[len(medians)-1-len(medians)/40]
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// A client sends requests of many addresses on one connection.
type client struct {
	net.Conn
	in       *bufio.Reader
	requests [][]byte
	next     int
}

func connect(b *testing.B, address string, number int) *client {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close() })
	c := &client{Conn: conn, in: bufio.NewReader(conn)}
	for i := range 125 {
		c.requests = append(c.requests, fmt.Appendf(nil, "GET /orders HTTP/1.1\r\nHost: %s\r\nX-Forwarded-For: 192.0.%d.%d\r\n\r\n", address, number, i))
	}
	c.send(b, len(c.requests), true) // uses a limit of 1 up
	return c
}

// send sends n requests one after the other.
func (c *client) send(b *testing.B, n int, admitted bool) {
	for range n {
		c.next = (c.next + 1) % len(c.requests)
		if _, err := c.Write(c.requests[c.next]); err != nil {
			b.Error(err)
			return
		}
		res, err := http.ReadResponse(c.in, nil)
		if err != nil || (res.StatusCode == http.StatusOK) != admitted {
			b.Errorf("response %v, %v, want admitted: %t", res, err, admitted)
			return
		}
		io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}
