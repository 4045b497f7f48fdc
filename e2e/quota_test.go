//go:build unix && !onlyredis

package e2e_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/pgtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/porttest"

	"github.com/floodweir/weir"
)

// quotaLimit is the limit of testdata/quota.
const quotaLimit = "1000/s burst 3000"

// TestQuotaService lets clients of Envoy's quota protocol share a limit, by three weir processes and
// one Redis. They take all that they may. One server is killed and its clients connect to another,
// and one client is killed. All together admit no more than the limit.
func TestQuotaService(t *testing.T) {
	t.Parallel()
	testQuotaService(t, "redis://"+redistest.Start(t).Addr)
}

// TestPostgresQuotaService runs TestQuotaService with PostgreSQL.
func TestPostgresQuotaService(t *testing.T) {
	t.Parallel()
	testQuotaService(t, postgresProgram(t, pgtest.Start(t)))
}

// testQuotaService is TestQuotaService with the URL of a store.
func testQuotaService(t *testing.T, store string) {
	binary, file := programtest.Weir(t), quotaFile(t, store)
	var servers [3]*quotaServer
	for i := range servers {
		servers[i] = startQuotaServer(t, binary, file, porttest.Address(t))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log quotaLog
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	for i := range 6 {
		c := &quotaClient{t: t, http: h2c(t), log: &log, servers: []string{servers[i%3].grpc, servers[(i+1)%3].grpc}}
		life := ctx
		if i == 5 {
			var end context.CancelFunc
			life, end = context.WithTimeout(ctx, 9*time.Second)
			defer end()
		}
		wg.Go(func() { c.run(life) })
	}
	kill := time.AfterFunc(6*time.Second, func() { _ = servers[1].cmd.Process.Kill() })
	defer kill.Stop()
	<-time.After(time.Duration(usual(26, 90)) * time.Second)
	redistest.Await(t, "enough admissions", func() error { // on a busy machine the clients take less
		if n := log.count(); n < 10_000 {
			return fmt.Errorf("%d, want 10000", n)
		}
		return nil
	})
	cancel()
	wg.Wait()
	total, excess := log.replay()
	t.Logf("%d admissions, %d responses", total, log.responses)
	if excess > 0 {
		t.Errorf("%d of %d admissions exceed the limit, want none", excess, total)
	}
	rate := rateLimitRequest("edge", 1, "user=x")
	if _, err := shouldRateLimit(h2c(t), servers[0].grpc, rate); err == nil {
		t.Error("the rate limit service decides a domain of the quota service, want an error")
	}
}

// TestQuotaServiceMemory kills a server whose store is its memory, and starts another one at once. It
// grants nothing while clients may still use what the killed one has granted, nor does the first one.
func TestQuotaServiceMemory(t *testing.T) {
	t.Parallel()
	binary, file := programtest.Weir(t), quotaFile(t, "memory")
	server := startQuotaServer(t, binary, file, porttest.Address(t))
	ctx, cancel := context.WithTimeout(t.Context(), 51*time.Second)
	defer cancel()
	var log quotaLog
	var wg sync.WaitGroup
	for range 3 {
		c := &quotaClient{t: t, http: h2c(t), log: &log, servers: []string{server.grpc}}
		wg.Go(func() { c.run(ctx) })
	}
	<-time.After(25 * time.Second)
	before := log.count()
	if err := server.cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = server.cmd.Wait() // it was killed
	server = startQuotaServer(t, binary, file, server.grpc)
	<-time.After(24 * time.Second)
	out, err := exec.Command(binary, "explain", "--domain", "edge", "--bucket", "user=x", "--admin", "http://"+server.admin).CombinedOutput()
	if text := string(out); err != nil || !strings.Contains(text, "bucket user=x of edge: clients decide") || !strings.Contains(text, "divided: 3 clients hold ") {
		t.Errorf("weir explain: %v\n%s", err, text)
	}
	wg.Wait()
	total, excess := log.replay()
	t.Logf("%d admissions, %d of them before the kill", total, before)
	if excess > 0 {
		t.Errorf("%d of %d admissions exceed the limit, want none", excess, total)
	}
	if before < 3000 || total < before+3000 {
		t.Errorf("%d admissions, %d of them before the kill, want 3000 before and after", total, before)
	}
}

// quotaFile writes a policy file with the limits of testdata/quota.
func quotaFile(t *testing.T, store string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	dir, err := filepath.Abs("testdata/quota")
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("store: %s\ngrpc: { config: %s, quota_service: { domains: edge, ttl: 14s } }\n", store, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A quotaServer is a weir process.
type quotaServer struct {
	cmd         *exec.Cmd
	grpc, admin string
}

func startQuotaServer(t *testing.T, binary, file, grpc string) *quotaServer {
	t.Helper()
	api, admin := porttest.Address(t), porttest.Address(t)
	var log bytes.Buffer
	cmd := exec.Command(binary, "serve", file, "--listen-gateway", "off", "--listen-http", api, "--listen-grpc", grpc, "--listen-resp", "off", "--listen-admin", admin)
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may be killed already
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("output of %s:\n%s", grpc, log.String())
		}
	})
	awaitStatus(t, "http://"+api+"/readyz", 200)
	return &quotaServer{cmd, grpc, admin}
}

// A quotaLog merges the admissions of all clients.
type quotaLog struct {
	mu        sync.Mutex
	all       []quotaAdmission
	responses int
}

type quotaAdmission struct{ at, n int64 }

// count returns the number of admissions.
func (l *quotaLog) count() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.all {
		n += a.n
	}
	return n
}

// replay returns the number of admissions, and of those that exceed the limit.
func (l *quotaLog) replay() (total, excess int64) {
	slices.SortStableFunc(l.all, func(a, b quotaAdmission) int { return cmp.Compare(a.at, b.at) })
	var state []int64
	for _, a := range l.all {
		var r algo.Result
		state, r = weir.MustLimit(quotaLimit).Spec().Rule.Do(state, algo.Ask{Op: algo.TakeUpTo, Now: a.at, N: a.n})
		total, excess = total+a.n, excess+a.n-r.Granted
	}
	return total, excess
}

// A quotaClient acts as Envoy's filter with one bucket, which it empties every 20 ms. It shares no
// code with the server.
type quotaClient struct {
	t       *testing.T
	http    *http.Client
	log     *quotaLog
	servers []string

	most, fill float64 // of the token bucket, and per second
	level      float64
	last       time.Time
	until      time.Time
	allowed    uint64
}

// run is the client until ctx ends. If its stream ends, it opens another one 2 s later.
func (c *quotaClient) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		c.stream(ctx, c.servers[i%len(c.servers)])
		c.wait(ctx, 2*time.Second, nil)
	}
}

// wait uses the bucket until a time has passed, ctx ends, or a response arrives. It reports whether
// the stream ended.
func (c *quotaClient) wait(ctx context.Context, d time.Duration, responses <-chan []byte) (ended bool) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end) && ctx.Err() == nil; {
		select {
		case r, ok := <-responses:
			if !ok {
				return true
			}
			c.apply(r)
		case <-tick.C:
			c.take()
		}
	}
	return false
}

// take empties the bucket.
func (c *quotaClient) take() {
	now := time.Now()
	if !now.Before(c.until) {
		c.most, c.level = 0, 0
	}
	c.level = min(c.most, c.level+c.fill*now.Sub(c.last).Seconds())
	c.last = now
	n := int64(c.level)
	if n == 0 {
		return
	}
	c.level -= float64(n)
	c.allowed += uint64(n)
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.log.all = append(c.log.all, quotaAdmission{now.UnixMicro(), n})
}

// stream reports every 5 s until the stream ends.
func (c *quotaClient) stream(ctx context.Context, server string) {
	body, reports := io.Pipe()
	defer reports.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://"+server+"/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas", body)
	if err != nil {
		c.t.Error(err)
		return
	}
	r.Header.Set("Content-Type", "application/grpc")
	r.Header.Set("TE", "trailers")
	responses := make(chan []byte)
	go c.receive(ctx, r, body, responses)
	for {
		entry := append(field(1, []byte("user")), field(2, []byte("x"))...)
		usage := binary.AppendUvarint(append(field(1, field(1, entry)), 3<<3), c.allowed)
		usage = binary.AppendUvarint(append(usage, 4<<3), 10_000) // denied
		report := append(field(1, []byte("edge")), field(2, usage)...)
		c.allowed = 0
		if _, err := reports.Write(append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(report))), report...)); err != nil {
			return
		}
		if c.wait(ctx, 5*time.Second, responses) || ctx.Err() != nil {
			return
		}
	}
}

// receive passes on the messages of the responses, and ends responses.
func (c *quotaClient) receive(ctx context.Context, r *http.Request, body *io.PipeReader, responses chan<- []byte) {
	defer close(responses)
	defer body.Close()
	got, err := c.http.Do(r)
	if err != nil {
		return
	}
	defer got.Body.Close()
	for {
		var head [5]byte
		if _, err := io.ReadFull(got.Body, head[:]); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(got.Body, message); err != nil {
			return
		}
		select {
		case responses <- message:
		case <-ctx.Done():
			return
		}
	}
}

// apply applies a response. A token bucket that differs starts full.
func (c *quotaClient) apply(message []byte) {
	c.take()
	assigned := nested(nested(message, 1), 2)
	bucket := nested(nested(assigned, 3), 3)
	most, every := float64(varint(bucket, 1)), float64(varint(nested(bucket, 3), 1))
	fill := 0.0
	if every > 0 {
		fill = float64(varint(nested(bucket, 2), 1)) / every
	}
	now := time.Now()
	if most != c.most || fill != c.fill || !now.Before(c.until) {
		c.most, c.fill, c.level = most, fill, most
	}
	c.last, c.until = now, now.Add(time.Duration(varint(nested(assigned, 2), 1))*time.Second)
	c.log.mu.Lock()
	c.log.responses++
	c.log.mu.Unlock()
}

// nested returns the last field with a number that holds bytes.
func nested(message []byte, number uint64) []byte {
	value, _ := scanProto(message, number)
	return value
}

// varint returns the last field with a number that is a varint.
func varint(message []byte, number uint64) uint64 {
	_, value := scanProto(message, number)
	return value
}

// scanProto returns the last field with a number.
func scanProto(message []byte, number uint64) (value []byte, n uint64) {
	for len(message) > 0 {
		tag, size := binary.Uvarint(message)
		v, more := binary.Uvarint(message[max(size, 0):])
		if size <= 0 || more <= 0 {
			return nil, 0
		}
		message = message[size+more:]
		if tag&7 != 2 {
			if tag>>3 == number {
				n = v
			}
			continue
		}
		if v > uint64(len(message)) {
			return nil, 0
		}
		if tag>>3 == number {
			value = message[:v]
		}
		message = message[v:]
	}
	return value, n
}
