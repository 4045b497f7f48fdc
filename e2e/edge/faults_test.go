package edge_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/nginxtest"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// A load is a set of clients that request one path each until stopped, at most every 4 ms. Each uses
// its own keys one after the other, 40 requests per key, and records the responses.
type load struct {
	stop    chan struct{}
	done    sync.WaitGroup
	mu      sync.Mutex
	seen    map[string]int // by path and outcome
	keys    map[string]int // admissions by key
	slowest time.Duration
	wrong   []string
	steps   atomic.Int64
}

const perKey = 40

func startLoad(t *testing.T, base string, clients int, paths ...string) *load {
	l := &load{stop: make(chan struct{}), seen: map[string]int{}, keys: map[string]int{}}
	for i := range clients {
		c := callFrom(t, "127.0.0.7")
		path := paths[i%len(paths)]
		l.done.Go(func() {
			tick := time.NewTicker(4 * time.Millisecond)
			defer tick.Stop()
			for n := 0; ; n++ {
				select {
				case <-l.stop:
					return
				case <-tick.C:
				}
				key := fmt.Sprintf("%s-%d-%d", path[1:], i, n/perKey)
				l.note(path, key, c.get(base+path, "X-User", key))
			}
		})
	}
	return l
}

// note records a response: an admission, a denial, or the response of on_store_error. Any
// other is an error.
func (l *load) note(path, key string, r reply) {
	l.steps.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.slowest = max(l.slowest, r.took)
	degraded := r.header.Get("Weir-Degraded")
	answer := fmt.Sprintf("%d %s", r.status, degraded)
	switch {
	case r.err != nil:
	case r.status == http.StatusOK && r.body == "through\n" && degraded == "":
		l.keys[key]++
		l.seen[path+" yes"]++
		return
	case r.status == http.StatusTooManyRequests && r.header.Get("Retry-After") != "" && degraded == "":
		l.seen[path+" no"]++
		return
	case r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") != "" && strings.HasPrefix(path, "/closed"):
		l.seen[path+" away"]++
		return
	case r.status == http.StatusOK && r.body == "through\n" && degraded != "" && strings.HasPrefix(path, "/open"):
		l.seen[path+" away"]++
		return
	}
	l.seen[path+" wrong"]++
	if len(l.wrong) < 10 {
		l.wrong = append(l.wrong, fmt.Sprintf("%s: %s %v %q %v after %v", path, answer, r.header, r.body, r.err, r.took))
	}
}

func (l *load) count(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen[what]
}

// goOn waits until the clients have received so many more responses of a kind.
func (l *load) goOn(t *testing.T, what string, more int) {
	t.Helper()
	from := l.count(what)
	await(t, fmt.Sprintf("%d more of %q", more, what), func() bool { return l.count(what) >= from+more })
}

// end stops the clients and reports wrong responses, keys over their limit, and hangs.
func (l *load) end(t *testing.T, limit int) {
	t.Helper()
	const hang = 15 * time.Second // the deadlines are much shorter, but the machine may be busy
	close(l.stop)
	l.done.Wait()
	for _, w := range l.wrong {
		t.Error(w)
	}
	total := 0
	for key, n := range l.keys {
		total += n
		if n > limit && !strings.HasPrefix(key, "open") {
			t.Errorf("%s: %d admitted, of %d", key, n, limit)
		}
	}
	if l.slowest > hang {
		t.Errorf("the slowest response took %v, want at most %v", l.slowest, hang)
	}
	t.Logf("%d requests under %d keys: %d admitted by Redis; answers %v; the slowest after %v", l.steps.Load(), len(l.keys), total, l.seen, l.slowest.Round(time.Millisecond))
}

// ticking calls f at intervals until the returned function is called.
func ticking(every time.Duration, f func()) (stop func() int) {
	ended := make(chan struct{})
	var done sync.WaitGroup
	n := 0
	done.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				f()
				n++
			case <-ended:
				return
			}
		}
	})
	return func() int { close(ended); done.Wait(); return n }
}

const faultPolicies = `
policies:
  - { name: closed, match: /closed/*, key: "header:X-User", limits: 25/h fixed_window, on_store_error: closed }
  - { name: open, match: /open/*, key: "header:X-User", limits: 25/h fixed_window, on_store_error: open }
`

// TestFaultFlush flushes the scripts all the time. No request fails and no limit is exceeded.
func TestFaultFlush(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	s := startEdge(t, programtest.Weir(t), writePolicies(t, redis.Addr, faultPolicies), 4)
	c, err := redistest.Dial(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	l := startLoad(t, "http://"+s.Addr, 16, "/closed")
	flushes := sync.OnceValue(ticking(3*time.Millisecond, func() {
		if _, err := c.Do("SCRIPT", "FLUSH"); err != nil {
			t.Error(err)
		}
	}))
	defer flushes()
	l.goOn(t, "/closed yes", 1000)
	n := flushes()
	l.end(t, 25)
	if got := l.seen["/closed away"]; got != 0 {
		t.Errorf("%d requests without a decision, want none", got)
	}
	full := 0
	for key, n := range l.keys {
		if n == 25 {
			full++
		} else if n < 25 && !l.last(key) {
			t.Errorf("%s: %d admitted, want 25", key, n)
		}
	}
	t.Logf("%d flushes, %d keys with 25 of %d requests each", n, full, perKey)
}

// last reports whether a client was using a key when it was stopped.
func (l *load) last(key string) bool {
	at := strings.LastIndex(key, "-")
	var n int
	fmt.Sscan(key[at+1:], &n)
	_, later := l.keys[fmt.Sprintf("%s-%d", key[:at], n+1)]
	return !later
}

// TestFaultRestart restarts Redis. Without it a closed policy denies and an open one admits;
// afterwards Redis decides again. No key exceeds the limit, and no request waits long.
func TestFaultRestart(t *testing.T) {
	redis := redistest.StartDurable(t)
	s := startEdge(t, programtest.Weir(t), writePolicies(t, redis.Addr, "failover: { deadline: 1s }\n"+faultPolicies), 4)
	l := startLoad(t, "http://"+s.Addr, 8, "/closed", "/open")
	for round := range 3 {
		l.goOn(t, "/closed yes", 100)
		l.goOn(t, "/open yes", 100)
		redis.Stop()
		l.goOn(t, "/closed away", 100)
		l.goOn(t, "/open away", 100)
		redis.Restart(t)
		t.Logf("round %d: Redis is back after %v", round, l.seenNow())
	}
	l.goOn(t, "/closed yes", 200)
	l.goOn(t, "/open yes", 200)
	l.goOn(t, "/closed no", 20)
	settled := l.count("/closed away") + l.count("/open away")
	l.goOn(t, "/closed yes", 200)
	l.goOn(t, "/open yes", 200)
	if now := l.count("/closed away") + l.count("/open away"); now != settled {
		t.Errorf("%d requests without a decision long after Redis was back", now-settled)
	}
	l.end(t, 25)
}

func (l *load) seenNow() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprint(l.seen)
}

// TestFaultStall checks that a stopped Redis process costs a request no more than its
// deadline.
func TestFaultStall(t *testing.T) {
	redis := redistest.StartDurable(t)
	s := startEdge(t, programtest.Weir(t), writePolicies(t, redis.Addr, "failover: { deadline: 100ms }\n"+faultPolicies), 2)
	l := startLoad(t, "http://"+s.Addr, 8, "/closed", "/open")
	l.goOn(t, "/closed yes", 100)
	syscall.Kill(redis.PID(), syscall.SIGSTOP)
	defer syscall.Kill(redis.PID(), syscall.SIGCONT)
	l.goOn(t, "/closed away", 30)
	l.goOn(t, "/open away", 30)
	syscall.Kill(redis.PID(), syscall.SIGCONT)
	l.goOn(t, "/closed yes", 200)
	l.goOn(t, "/open yes", 200)
	l.end(t, 25)
}

// TestFaultLostReply checks that a request whose reply was lost is denied and charged at most
// once.
func TestFaultLostReply(t *testing.T) {
	redis := redistest.Start(t)
	proxy := redistest.StartProxy(t, redis.Addr)
	weir := programtest.Weir(t)
	policies := "failover: { deadline: 1s }\n" + faultPolicies
	s := startEdge(t, weir, writePolicies(t, proxy.Addr, policies), 1)
	_, api := serveWeir(t, weir, writePolicies(t, redis.Addr, policies))
	d := &interfaces{api: api}
	c, base := callFrom(t, "127.0.0.7"), "http://"+s.Addr
	if r := c.get(base+"/closed", "X-User", "ann"); r.status != http.StatusOK {
		t.Fatalf("the first: %+v", r)
	}
	for i, fault := range []redistest.Fault{redistest.CutReply, redistest.CutReply, redistest.DropReplies} {
		key := fmt.Sprintf("lost-%d", i)
		if r := c.get(base+"/closed", "X-User", key); r.status != http.StatusOK {
			t.Fatalf("%s: %+v", fault, r)
		}
		proxy.Set(fault)
		r := c.get(base+"/closed", "X-User", key)
		proxy.Set(redistest.NoFault)
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: %+v, want 503", fault, r)
		}
		if left := d.peek(t, "closed", key); left != 23 {
			t.Errorf("%s: %d remain, want 23: both were charged, once", fault, left)
		}
		await(t, "decisions", func() bool { return c.get(base+"/closed", "X-User", key+"-after").status == http.StatusOK })
	}
}

// TestFaultFull checks that with a full Redis, on_store_error decides.
func TestFaultFull(t *testing.T) {
	redis := redistest.Start(t)
	s := startEdge(t, programtest.Weir(t), writePolicies(t, redis.Addr, faultPolicies), 1)
	c, base := callFrom(t, "127.0.0.7"), "http://"+s.Addr
	redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if r := c.get(base+"/closed", "X-User", "ann"); r.status != http.StatusServiceUnavailable {
		t.Errorf("closed: %+v, want 503", r)
	}
	if r := c.get(base+"/open", "X-User", "ann"); r.status != http.StatusOK || r.header.Get("Weir-Degraded") == "" {
		t.Errorf("open: %+v, want 200 with Weir-Degraded", r)
	}
	redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	await(t, "decisions", func() bool {
		r := c.get(base+"/open", "X-User", "ann")
		return r.status == http.StatusOK && r.header.Get("Weir-Degraded") == ""
	})
}

// TestFaultFailover checks that requests go to the new primary after a failover by the
// sentinels.
func TestFaultFailover(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	_, port, _ := net.SplitHostPort(primary.Addr)
	replica := redistest.Start(t, "replicaof 127.0.0.1 "+port)
	sentinel := redistest.StartSentinel(t, "mymaster", primary)
	redistest.Await(t, "a replica that sentinel knows and that is in step", func() error {
		info, _ := replica.Do(t, "INFO", "replication").(string)
		known, _ := sentinel.Do(t, "SENTINEL", "REPLICAS", "mymaster").([]any)
		if !strings.Contains(info, "master_link_status:up") || len(known) == 0 {
			return fmt.Errorf("%d replicas", len(known))
		}
		return nil
	})
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := "store: redis+sentinel://" + sentinel.Addr + "/mymaster\nfailover: { deadline: 2s }\n" + faultPolicies
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startEdge(t, programtest.Weir(t), file, 2)
	l := startLoad(t, "http://"+s.Addr, 4, "/closed")
	l.goOn(t, "/closed yes", 200)
	redistest.Await(t, "the failover", func() error {
		c, err := redistest.Dial(sentinel.Addr)
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Do("SENTINEL", "FAILOVER", "mymaster")
		return err
	})
	redistest.Await(t, "the new primary", func() error {
		c, err := redistest.Dial(replica.Addr)
		if err != nil {
			return err
		}
		defer c.Close()
		role, err := c.Do("ROLE") // sentinel closes all connections of a promoted server
		if list, ok := role.([]any); ok && err == nil && list[0] != "master" {
			err = fmt.Errorf("the role is %v", list[0])
		}
		return err
	})
	asked := scripts(t, replica)
	redistest.Await(t, "requests to the new primary", func() error {
		if n := scripts(t, replica); n < asked+500 {
			return fmt.Errorf("%d", n)
		}
		return nil
	})
	l.goOn(t, "/closed yes", 200)
	l.end(t, 2*25) // each primary may have admitted 25 of a key in use at the failover
	over := 0
	for _, n := range l.keys {
		if n > 25 {
			over++
		}
	}
	if over > 4 {
		t.Errorf("%d keys got more than 25, want at most those 4 that were in use at the failover", over)
	}
}

// scripts returns how many scripts a server has run.
func scripts(t *testing.T, s *redistest.Server) (n int) {
	t.Helper()
	for _, m := range commandCalls.FindAllStringSubmatch(s.Do(t, "INFO", "commandstats").(string), -1) {
		if slices.Contains([]string{"eval", "evalsha"}, m[1]) {
			var calls int
			fmt.Sscan(m[2], &calls)
			n += calls
		}
	}
	return n
}

// TestFaultApply checks that every worker uses published policies without a reload.
func TestFaultApply(t *testing.T) {
	redis := redistest.Start(t)
	weir := programtest.Weir(t)
	write := func(limit string) string {
		return writePolicies(t, redis.Addr, "policies:\n  - { name: api, key: client.ip, limits: "+limit+", on_store_error: closed }\n")
	}
	apply := func(file string) {
		t.Helper()
		if out, err := exec.Command(weir, "apply", file, "--store", "redis://"+redis.Addr).CombinedOutput(); err != nil {
			t.Fatalf("weir apply: %v\n%s", err, out)
		}
	}
	file := write("100/h fixed_window")
	apply(file)
	conf := edgeConf(t, weir, file, "--policies", "store")
	s := nginxtest.Start(t, nginxtest.Config{Workers: 4, HTTP: conf + `
  server { listen ADDR reuseport; location / {` + asks + `} }`})
	c, base := callFrom(t, "127.0.0.7"), "http://"+s.Addr
	for range 60 {
		if r := c.get(base); r.status != http.StatusOK {
			t.Fatalf("%+v; %s", r, s.Log())
		}
	}
	apply(write("80/h fixed_window"))
	other := callFrom(t, "127.0.0.8")
	streak := 0
	await(t, "the new policies at all workers", func() bool {
		other.http.CloseIdleConnections() // to reach another worker
		r := other.get(base)
		if strings.Contains(r.header.Get("RateLimit-Policy"), "q=80") {
			streak++
		} else {
			streak = 0
		}
		return streak >= 16
	})
	through := 0
	for range 60 {
		if r := c.get(base); r.status == http.StatusOK {
			through++
		} else if r.status != http.StatusTooManyRequests {
			t.Fatalf("%+v", r)
		}
	}
	if through != 20 {
		t.Errorf("%d of 60 pass under 80/h after 60 under 100/h, want 20", through)
	}
	if strings.Contains(s.Log(), "reconfiguring") {
		t.Error("nginx was reloaded")
	}
}
