package e2e_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// These tests call the RESP listener with real Redis clients.

// startRESP runs weir with a RESP listener and returns its address.
func startRESP(t *testing.T, store string, more ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte("store: memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr, api := porttest.Address(t), porttest.Address(t)
	args := []string{"serve", file, "--store", store, "--listen-gateway", "off", "--listen-http", api, "--listen-resp", addr, "--deadline", "5s"}
	startProcess(t, programtest.Weir(t), append(args, more...)...)
	awaitStatus(t, "http://"+api+"/readyz", 200)
	return addr
}

// respStores runs a test with each store.
func respStores(t *testing.T, f func(t *testing.T, addr string)) {
	t.Run("memory", func(t *testing.T) { f(t, startRESP(t, "memory")) })
	t.Run("redis", func(t *testing.T) { f(t, startRESP(t, "redis://"+redistest.Start(t).Addr)) })
}

// redisCLI runs redis-cli, with input lines if there are any.
func redisCLI(t *testing.T, addr, input string, args ...string) string {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	defer cancel()
	cmd := exec.CommandContext(ctx, "redis-cli", append([]string{"-h", host, "-p", port}, args...)...)
	if input != "" {
		cmd.Stdin = strings.NewReader(input)
	}
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatalf("redis-cli %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestRESPTranscript sends the cases of the CL.THROTTLE contract with redis-cli.
func TestRESPTranscript(t *testing.T) {
	respStores(t, func(t *testing.T, addr string) {
		const cell = "ERR|Cell error: Store error: "
		usage := cell + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
		for _, step := range []struct{ contract, command, want string }{
			{"first call", "user123 15 30 3600", "0 16 15 -1 120"},
			{"fourteen more", "user123 15 30 3600 14", "0 16 1 -1 1800"},
			{"the last one", "user123 15 30 3600", "0 16 0 -1 1920"},
			{"limited", "user123 15 30 3600", "1 16 0 120 1920"},
			{"quantity 0 peeks, and is never limited", "user123 15 30 3600 0", "0 16 0 -1 1920"},
			{"quantity 0 of a new key", "new 15 30 3600 0", "0 16 16 -1 0"},
			{"above the limit: -1, remaining unchanged", "new 15 30 3600 17", "1 16 16 -1 0"},
			{"below 0 returns", "user123 15 30 3600 -4", "0 16 4 -1 1440"},
			{"and at most to full", "user123 15 30 3600 -100", "0 16 16 -1 0"},
			{"wrong arity", "user123 15 30", usage},
			{"wrong arity", "user123 15 30 3600 1 1", usage},
			{"no integer", "user123 abc 30 60", cell + "Couldn't parse as integer: abc"},
			{"no integer", "user123 15 30 1.5", cell + "Couldn't parse as integer: 1.5"},
			{"zero rate", "user123 15 0 60", cell + "Zero rates are not supported"},
			{"zero rate", "user123 15 30 0", cell + "Zero rates are not supported"},
		} {
			got := strings.Join(strings.Fields(redisCLI(t, addr, "", append([]string{"CL.THROTTLE"}, strings.Fields(step.command)...)...)), " ")
			want, isError := strings.CutPrefix(step.want, "ERR|")
			t.Logf("%-44s CL.THROTTLE %-24s %s", step.contract, step.command, got)
			if isError && got != want || !isError && !within(got, want) {
				t.Errorf("%s: CL.THROTTLE %s = %s, want %s", step.contract, step.command, got, want)
			}
		}
	})
}

// within compares replies, whose times may have decreased by up to a minute. A token takes two.
func within(got, want string) bool {
	var g, w [5]int
	if n, _ := fmt.Sscan(got, &g[0], &g[1], &g[2], &g[3], &g[4]); n != 5 {
		return false
	}
	fmt.Sscan(want, &w[0], &w[1], &w[2], &w[3], &w[4])
	near := func(got, want int) bool { return got <= want && got > want-60 && (got < 0) == (want < 0) }
	return g[0] == w[0] && g[1] == w[1] && g[2] == w[2] && near(g[3], w[3]) && near(g[4], w[4])
}

func TestRESPTools(t *testing.T) {
	addr := startRESP(t, "memory")
	for _, args := range [][]string{
		{"PING"}, {"-3", "PING"}, {"-2", "ECHO", "PONG"},
	} {
		if got := redisCLI(t, addr, "", args...); got != "PONG" {
			t.Errorf("redis-cli %q = %s", args, got)
		}
	}
	if got := redisCLI(t, addr, "INFO server\nCOMMAND COUNT\nCONFIG GET save\nhelp cl.throttle\nQUIT\n"); !strings.Contains(got, "server_name:weir") {
		t.Errorf("a session of redis-cli:\n%s", got)
	}
	host, port, _ := net.SplitHostPort(addr)
	for _, c := range []struct {
		what string
		args []string
	}{
		{"one key", []string{"-n", "10000", "-c", "20", "CL.THROTTLE", "bench", "99", "100000", "1"}},
		{"pipelines, 10,000 keys", []string{"-n", "40000", "-c", "20", "-P", "16", "-r", "10000", "CL.THROTTLE", "key:__rand_int__", "99", "100000", "1"}},
		{"PING", []string{"-n", "5000", "-c", "20", "-t", "ping"}},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*patient)
		defer cancel()
		out, err := exec.CommandContext(ctx, "redis-benchmark", append([]string{"-h", host, "-p", port, "-q"}, c.args...)...).CombinedOutput()
		rates := regexp.MustCompile(`([0-9.]+) requests per second`).FindAllSubmatch(out, -1)
		if err != nil || rates == nil || bytes.Contains(bytes.ToLower(out), []byte("error")) || bytes.Contains(out, []byte("WARN")) {
			t.Errorf("redis-benchmark %s: %v\n%s", c.what, err, out)
			continue
		}
		t.Logf("redis-benchmark, %s: %s per second", c.what, rates[len(rates)-1][1])
	}
}

func TestRESPPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	addr := startRESP(t, "memory", "--resp-password-file", file)
	if got := redisCLI(t, addr, "", "CL.THROTTLE", "k", "0", "1", "60"); got != "NOAUTH Authentication required." {
		t.Errorf("without a password = %s", got)
	}
	if got := redisCLI(t, addr, "", "--no-auth-warning", "-a", "s3cret", "CL.THROTTLE", "k", "0", "1", "60"); !strings.HasPrefix(got, "0\n1\n0") {
		t.Errorf("with it = %s", got)
	}
	for _, protocol := range []int{2, 3} {
		c := redis.NewClient(&redis.Options{Addr: addr, Password: "s3cret", Protocol: protocol})
		defer c.Close()
		if err := c.Ping(t.Context()).Err(); err != nil {
			t.Errorf("go-redis, RESP%d: %v", protocol, err)
		}
		wrong := redis.NewClient(&redis.Options{Addr: addr, Password: "wrong", Protocol: protocol})
		defer wrong.Close()
		if err := wrong.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			t.Errorf("go-redis, RESP%d, a wrong password: %v", protocol, err)
		}
	}
}

func TestRESPClients(t *testing.T) {
	respStores(t, func(t *testing.T, addr string) {
		for _, protocol := range []int{2, 3} {
			c := redis.NewClient(&redis.Options{Addr: addr, Protocol: protocol, ClientName: "app"})
			defer c.Close()
			key := fmt.Sprint("goredis", protocol)
			got, err := c.Do(t.Context(), "CL.THROTTLE", key, 4, 1, 3600).Int64Slice()
			if err != nil || fmt.Sprint(got) != "[0 5 4 -1 3600]" {
				t.Errorf("go-redis, RESP%d = %v, %v", protocol, got, err)
			}
			pipe := c.Pipeline()
			for range 20 {
				pipe.Do(t.Context(), "CL.THROTTLE", key, 4, 1, 3600)
				pipe.Do(t.Context(), "CL.THROTTLE", key+"other", 99, 1, 3600)
			}
			cmds, err := pipe.Exec(t.Context())
			if err != nil {
				t.Fatalf("go-redis, RESP%d, a pipeline: %v", protocol, err)
			}
			for i, cmd := range cmds {
				r, err := cmd.(*redis.Cmd).Int64Slice()
				if err != nil || i%2 == 0 && (r[0] == 0) != (i/2 < 4) || i%2 == 1 && r[2] != int64(99-i/2) {
					t.Errorf("go-redis, RESP%d, reply %d of a pipeline = %v, %v", protocol, i, r, err)
				}
			}
			_, err = c.TxPipelined(t.Context(), func(p redis.Pipeliner) error { return p.Do(t.Context(), "CL.THROTTLE", key, 4, 1, 3600).Err() })
			if err == nil || !strings.Contains(err.Error(), "MULTI is not supported") {
				t.Errorf("go-redis, RESP%d, a transaction: %v", protocol, err)
			}
			if info, err := c.Command(t.Context()).Result(); err != nil || info["cl.throttle"] == nil {
				t.Errorf("go-redis, RESP%d, COMMAND = %v, %v", protocol, info, err)
			}
		}
		c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
		if err != nil {
			t.Fatalf("rueidis: %v", err)
		}
		defer c.Close()
		got, err := c.Do(t.Context(), c.B().Arbitrary("CL.THROTTLE").Keys("rueidis").Args("4", "1", "3600").Build()).AsIntSlice()
		if err != nil || fmt.Sprint(got) != "[0 5 4 -1 3600]" {
			t.Errorf("rueidis = %v, %v", got, err)
		}
	})
}

// TestRESPFastRate sends one key up to 20,000 requests per second for a second. The time
// and the tokens are read before and after, so the bounds hold on a machine that stalls.
func TestRESPFastRate(t *testing.T) {
	const perSecond, burst, clients, batch = 6000, 600_000, 4, 50 // full after 100 s
	respStores(t, func(t *testing.T, addr string) {
		throttle := func(n int) (remaining int64, asked, replied time.Time) {
			c, err := redistest.Dial(addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			asked = time.Now()
			v, err := c.Do("CL.THROTTLE", "fast", burst, perSecond, 1, n)
			if r, ok := v.([]any); err == nil && ok && len(r) == 5 {
				return r[2].(int64), asked, time.Now()
			}
			t.Fatalf("CL.THROTTLE = %v, %v", v, err)
			return 0, asked, asked
		}
		throttle(burst + 1) // all tokens
		before, first, from := throttle(0)
		var offered, admitted atomic.Int64
		var all sync.WaitGroup
		for range clients {
			all.Go(func() {
				c, err := redistest.Dial(addr)
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for begun := time.Now(); time.Since(begun) < time.Second; <-tick.C {
					for range batch {
						c.Send("CL.THROTTLE", "fast", burst, perSecond, 1)
					}
					if err := c.Flush(); err != nil {
						t.Error(err)
						return
					}
					for range batch {
						v, err := c.Receive()
						r, ok := v.([]any)
						if err != nil || !ok || len(r) != 5 {
							t.Errorf("reply %v, %v", v, err)
							return
						}
						offered.Add(1)
						if r[0] == int64(0) {
							admitted.Add(1)
						}
					}
				}
			})
		}
		all.Wait()
		after, to, last := throttle(0)
		least := float64(before-after) + perSecond*to.Sub(from).Seconds() - 1
		most := float64(before-after) + perSecond*last.Sub(first).Seconds() + 1
		t.Logf("%d offered, %d admitted, want %.1f to %.1f; %d tokens are left", offered.Load(), admitted.Load(), least, most, after)
		if n := float64(admitted.Load()); n < least || n > most {
			t.Errorf("%d admitted, want %.1f to %.1f", admitted.Load(), least, most)
		}
	})
}
