package edge_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
)

// TestStoreDeadline checks that a request takes at most its deadline, whichever step is slow.
func TestStoreDeadline(t *testing.T) {
	s := startStoreOnce(t, "")
	drip, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer drip.Close()
	defer close(ended)
	wg.Go(func() {
		for {
			c, err := drip.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				tick := time.NewTicker(time.Second) // a whole reply takes a minute
				defer tick.Stop()
				for i := 0; ; i = (i + 1) % len(storeGeneral) {
					select {
					case <-tick.C:
					case <-ended:
						return
					}
					if _, err := c.Write([]byte{storeGeneral[i]}); err != nil {
						return
					}
				}
			})
		}
	})
	silent := startStoreFake(t, silence)
	unread, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, but no process reads
	if err != nil {
		t.Fatal(err)
	}
	defer unread.Close()
	var asks sync.WaitGroup
	for name, settings := range map[string]storeRedis{
		"silence":              {Hosts: []string{silent.addr}},
		"a byte now and then":  {Hosts: []string{drip.Addr().String()}},
		"signing in":           {Hosts: []string{silent.addr}, Password: "x"},
		"TLS":                  {Hosts: []string{unread.Addr().String()}, TLS: true},
		"no sentinel answers":  {Hosts: []string{silent.addr, silent.addr}, Primary: "main"},
		"a sentinel that does": {Hosts: []string{drip.Addr().String()}, Primary: "main"},
	} {
		asks.Go(func() {
			r := s.ask(t, storeSettings{Redis: settings, Deadline: 3_000_000}, false, "k")
			if !strings.Contains(r.Err, "timeout") || r.Took < 1500 || r.Took > 30_000 { // one deadline for all steps
				t.Errorf("%s: %q after %d ms, want a timeout after 3 s", name, r.Err, r.Took)
			}
		})
	}
	asks.Wait()
}

// TestStoreIPv6 checks an IPv6 address in brackets.
func TestStoreIPv6(t *testing.T) {
	redis := redistest.Start(t, "bind 127.0.0.1 ::1")
	_, port, _ := net.SplitHostPort(redis.Addr)
	s := startStoreOnce(t, "")
	if r := s.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{"[::1]:" + port}}}, false, "k"); r.Err != "" || !r.OK {
		t.Errorf("%+v", r)
	}
}

// TestStoreOnce checks that a request that may have been charged is not sent again.
func TestStoreOnce(t *testing.T) {
	s, redis := startStoreOnce(t, ""), redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr)
	settings := storeSettings{Redis: storeRedis{Hosts: []string{proxy.Addr}}, Deadline: 300_000}
	left := int64(1000)
	for i, fault := range []redistest.Fault{redistest.NoFault, redistest.CutReply, redistest.NoFault, redistest.DropReplies, redistest.NoFault} {
		proxy.Set(fault)
		r := s.ask(t, settings, true, "k")
		left--
		if fault != redistest.NoFault {
			if r.Err == "" {
				t.Errorf("step %d: no error with fault %s", i, fault)
			}
			continue
		}
		if r.Err != "" || r.Answers[0].Remaining != left {
			t.Errorf("step %d: %+v, want %d remaining", i, r, left)
		}
	}
}

// TestStorePool checks that a worker has a limited number of connections and waits for a free
// one until the deadline.
func TestStorePool(t *testing.T) {
	redis := redistest.Start(t)
	s := startStoreOnce(t, "")
	fake := startStoreFake(t, silence)
	hold := make(chan struct{})
	fake.set(func([]string) (string, bool) {
		<-hold
		return storeGeneral, false
	})
	settings := storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}}, Deadline: 8e6}
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for i := range 300 {
		wg.Go(func() {
			if r := s.askVerb(t, settings, true, weir.Charge, fmt.Sprint(i)); r.Err == "" && r.OK {
				mu.Lock()
				granted++
				mu.Unlock()
			}
		})
	}
	await(t, "64 connections", func() bool { return len(fake.commands()) == 64 })
	// Another server has its own pool.
	if r := s.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{redis.Addr}}}, false, "k"); r.Err != "" {
		t.Errorf("another server: %s", r.Err)
	}
	close(hold)
	wg.Wait()
	if fake.most != 64 || fake.total != 64 || granted != 300 {
		t.Errorf("%d connections at a time, %d in all, %d granted; want 64, 64 and 300", fake.most, fake.total, granted)
	}
}

// TestStoreWaited checks that a timeout is no failure of Redis if the call waited for its connection
// most of its time, and Redis answered another call meanwhile. The clock is that of the test.
func TestStoreWaited(t *testing.T) {
	s := startStoreOnce(t, "")
	asks := s.plan.asks([]weir.Request{{Verb: weir.Take, Key: "k", Limit: weir.MustLimit(onceLimit), N: 1}})
	got := s.code(t, `
local at = 0
package.loaded["weir.clock"] = { now = function() return at end }
for _, name in ipairs{ "weir.batches", "weir.breaker", "weir.redis", "weir.store" } do package.loaded[name] = nil end
local h = require "storetest"
local function try(waits, answers)
  local s = assert(require("weir.store").new({ redis = { hosts = { "127.0.0.1:1" } }, deadline = 2000000 }, h.plan))
  local grants = false
  local conn = { address = { name = "redis" }, keep = function() end, discard = function() end }
  function conn:ask(deadline)
    if grants then return "\1" .. ("\0"):rep(7) .. "\1" .. ("\0"):rep(9) end
    at = deadline
    return nil, "timeout"
  end
  local function run() return s.run(h.read_asks(h.plan, h.cjson.decode('`+storeJSON(t, asks)+`')), true) end
  function s.redis:open()
    if not grants and answers then -- another call
      grants = true
      assert(run())
      grants = false
    end
    if not grants then at = at + waits end
    return conn
  end
  local overloaded = 0
  for _ = 1, 5 do
    local _, _, overload = run()
    if overload then overloaded = overloaded + 1 end
  end
  ngx.say(overloaded, " ", s.unavailable() and "open" or "closed")
end
try(1500, true)
try(500, true)
try(1500, false)
`, "")
	if want := "5 closed\n0 closed\n0 open\n"; got != want {
		t.Errorf("got %q, want %q: overloads of 5 calls, and the breaker", got, want)
	}
}

// TestStoreBreaker checks the circuit breaker. After five failures in a row Redis is not used
// for a second, then a PING probes it. Requests continue after its reply, even if connecting
// and AUTH take longer than the deadline of a request.
func TestStoreBreaker(t *testing.T) {
	s, fake := startStoreOnce(t, ""), startStoreFake(t, silence)
	settings := storeSettings{Redis: storeRedis{Hosts: []string{fake.addr}, Password: "x"}, Deadline: 40_000}
	ask := func() storeOnceReply { return s.ask(t, settings, true, "k") }
	// Exceeding the deadline by 20 ms means that the worker is busy: no failure of Redis.
	failures, quick := 0, 0
	for r := ask(); !strings.Contains(r.Err, "circuit breaker open"); r = ask() {
		if failures++; r.Took <= 55 {
			quick++
		}
		if !strings.Contains(r.Err, "timeout") || failures > 1000 {
			t.Fatalf("failure %d: %+v", failures, r)
		}
	}
	if failures < 5 || quick > 5 {
		t.Errorf("the breaker opened after %d failures, %d of them in time, want 5", failures, quick)
	}
	opened, asked := time.Now(), len(fake.commands())
	fastest := int64(1000) // one alone may be slow, because the worker is busy
	for range 20 {
		r := ask()
		if !strings.Contains(r.Err, "circuit breaker open") {
			t.Fatalf("while the breaker is open: %+v", r)
		}
		fastest = min(fastest, r.Took)
	}
	if fastest > 30 {
		t.Errorf("while the breaker is open, each of 20 takes %v ms or more, want less than the deadline", fastest)
	}
	// A probe may follow after a second.
	if n := len(fake.commands()); n != asked && time.Since(opened) < 900*time.Millisecond {
		t.Errorf("%d commands while the breaker was open", n-asked)
	}
	fake.set(func(command []string) (string, bool) {
		switch command[0] {
		case "AUTH":
			<-time.After(100 * time.Millisecond) // as TLS and a slow directory may
			return "+OK\r\n", false
		case "PING":
			return "+PONG\r\n", false
		}
		return storeGrant, false
	})
	await(t, "asked again", func() bool { return ask().Err == "" })
	after := fake.commands()[asked:]
	if got := strings.Join(after[:min(len(after), 3)], " "); got != "AUTH PING EVALSHA" {
		t.Errorf("commands %v, want AUTH PING EVALSHA", after)
	}
	for _, text := range []string{"weir: no decision: redis: ", "circuit breaker open for 1s after 5 consecutive failures", "circuit breaker closed"} {
		if n := strings.Count(s.Log(), text); n != 1 {
			t.Errorf("the log has %q %d times, want once", text, n)
		}
	}
	for line := range strings.Lines(s.Log()) { // an error_log without a level has only errors
		if (strings.Contains(line, "no decision") || strings.Contains(line, "circuit breaker open")) && !strings.Contains(line, "[error]") {
			t.Errorf("logged below the level of errors: %s", line)
		}
	}
	// A success between failures resets the count.
	fake.set(silence)
	for range 4 {
		ask()
	}
	fake.set(func(command []string) (string, bool) {
		if command[0] == "AUTH" {
			return "+OK\r\n", false
		}
		return storeGrant, false
	})
	if r := ask(); r.Err != "" {
		t.Errorf("after 4 failures: %+v", r)
	}
	fake.set(silence)
	for range 4 {
		if r := ask(); strings.Contains(r.Err, "circuit breaker open") {
			t.Errorf("the breaker opened after failures that were not in a row: %s", r.Err)
		}
	}
}

// TestStoreSentinel checks that the primary is looked up at the sentinels, and again when it
// is no longer the primary.
func TestStoreSentinel(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t, "repl-diskless-sync-delay 0"), redistest.Start(t)
	host, port, _ := net.SplitHostPort(one.Addr)
	two.Do(t, "REPLICAOF", host, port)
	await(t, "a replica in step", func() bool {
		return strings.Contains(fmt.Sprint(two.Do(t, "INFO", "replication")), "master_link_status:up")
	})
	sentinel := redistest.StartSentinel(t, "main", one)
	s := startStoreOnce(t, "")
	settings := storeSettings{Redis: storeRedis{Hosts: []string{"127.0.0.1:1", sentinel.Addr}, Primary: "main"}, Deadline: 5e6}
	for i := range 3 {
		if r := s.ask(t, settings, true, "k"); r.Err != "" || r.Answers[0].Remaining != int64(999-i) {
			t.Fatalf("step %d: %+v", i, r)
		}
	}
	// The two swap roles: first neither accepts writes, then the other one does.
	h, p, _ := net.SplitHostPort(two.Addr)
	one.Do(t, "REPLICAOF", h, p)
	if r := s.ask(t, settings, true, "k"); !strings.Contains(r.Err, "READONLY") {
		t.Errorf("from a replica: %+v, want READONLY", r)
	}
	if r := s.ask(t, settings, false, "k"); !strings.Contains(r.Err, "not a primary") {
		t.Errorf("before the sentinel has switched: %+v, want not a primary", r)
	}
	two.Do(t, "REPLICAOF", "NO", "ONE")
	sentinel.Do(t, "SENTINEL", "REMOVE", "main")
	sentinel.Do(t, "SENTINEL", "MONITOR", "main", h, p, 1)
	await(t, "the new primary", func() bool { return s.ask(t, settings, true, "new").Err == "" })
	if n := two.Do(t, "EXISTS", "weir:1:{new}:1000/720h+burst+1000"); n != int64(1) {
		t.Errorf("the new primary has no state: %v", two.Do(t, "KEYS", "*"))
	}
	settings.Redis.Primary = "other"
	if r := s.ask(t, settings, false, "k"); !strings.Contains(r.Err, "no primary of that name") {
		t.Errorf("no such primary: %+v", r)
	}
}

// TestStoreSentinelPassword checks that sentinels have their own user and password, and that a
// sentinel without a reply leaves time for the next one.
func TestStoreSentinelPassword(t *testing.T) {
	redis := redistest.Start(t, "requirepass secret")
	host, port, _ := net.SplitHostPort(redis.Addr)
	sentinel := startStoreFake(t, func(command []string) (string, bool) {
		switch text := strings.Join(command, " "); text {
		case "AUTH watch":
			return "+OK\r\n", false
		case "SENTINEL get-master-addr-by-name main":
			return fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port), false
		default:
			return "-ERR " + text + "\r\n", false
		}
	})
	silent := startStoreFake(t, silence)
	s := startStoreOnce(t, "")
	r := s.ask(t, storeSettings{Deadline: 600_000, Redis: storeRedis{
		Hosts: []string{silent.addr, sentinel.addr}, Primary: "main", Password: "secret", SentinelPassword: "watch"}}, false, "k")
	if r.Err != "" || !r.OK {
		t.Errorf("%+v; the sentinel received %v", r, sentinel.commands())
	}
	for name, answer := range map[string]string{"a number": ":1\r\n", "one word": "*1\r\n$1\r\nx\r\n", "no port": "*2\r\n$1\r\nx\r\n$1\r\ny\r\n", "numbers": "*2\r\n:1\r\n:2\r\n"} {
		odd := startStoreFake(t, func([]string) (string, bool) { return answer, false })
		if r := s.ask(t, storeSettings{Deadline: 600_000, Redis: storeRedis{Hosts: []string{odd.addr}, Primary: "main"}}, false, "k"); !strings.Contains(r.Err, "sentinel") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// storeCertificate writes a self-signed certificate for localhost to a file.
func storeCertificate(t *testing.T) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis.internal"}, DNSNames: []string{"redis.internal"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// TestStoreTLS checks that a certificate must match the name if verification is on.
func TestStoreTLS(t *testing.T) {
	redis := redistest.Start(t)
	certificate, file := storeCertificate(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range conns {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r, err := net.Dial("tcp", redis.Addr)
			if err != nil {
				c.Close()
				return
			}
			mu.Lock()
			conns = append(conns, c, r)
			mu.Unlock()
			wg.Go(func() { io.Copy(r, c); r.Close() })
			wg.Go(func() { io.Copy(c, r); c.Close() })
		}
	})
	s := startStoreOnce(t, "lua_ssl_trusted_certificate "+file+"; lua_ssl_verify_depth 2;")
	for _, c := range []struct {
		name         string
		verify, fine bool
	}{{"redis.internal", true, true}, {"other.internal", true, false}, {"", true, false}, {"other.internal", false, true}, {"other.internal", true, false}, {"redis.internal", true, true}} {
		r := s.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{l.Addr().String()}, TLS: true, Verify: c.verify, ServerName: c.name}}, false, "k")
		if (r.Err == "") != c.fine {
			t.Errorf("%+v: %+v", c, r)
		}
	}
	plain := startStoreOnce(t, "")
	if r := plain.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{l.Addr().String()}, TLS: true, Verify: true, ServerName: "redis.internal"}}, false, "k"); r.Err == "" {
		t.Error("an untrusted certificate is accepted")
	}
	if r := plain.ask(t, storeSettings{Redis: storeRedis{Hosts: []string{redis.Addr}, TLS: true}, Deadline: 500_000}, false, "k"); r.Err == "" {
		t.Error("a server without TLS is accepted")
	}
	if n := redis.Do(t, "DBSIZE"); n != int64(1) {
		t.Errorf("DBSIZE = %v, want 1", n)
	}
}
