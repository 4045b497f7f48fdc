package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
	"github.com/floodweir/weir/redisstore"
)

// eachClient runs a test with each client and a server for each.
func eachClient(t *testing.T, f func(t *testing.T, client string, s *redistest.Server), directives ...string) {
	for client := range redisConns {
		t.Run(client, func(t *testing.T) { f(t, client, redistest.Start(t, directives...)) })
	}
}

func mustTake(t testing.TB, s weir.Store, key string, l weir.Limit, n int64) weir.Decision {
	t.Helper()
	d, err := s.Do(context.Background(), weir.Request{Verb: weir.Take, Key: key, Limit: l, N: n})
	if err != nil {
		t.Fatalf("Take(%q, %d) = error %v, want a decision", key, n, err)
	}
	return d
}

// wantUnavailable takes a token and wants ErrUnavailable soon, with a text in it.
func wantUnavailable(t *testing.T, s weir.Store, key string, l weir.Limit, text string) {
	t.Helper()
	began := time.Now()
	d, err := s.Do(context.Background(), weir.Request{Verb: weir.Take, Key: key, Limit: l, N: 1})
	if !errors.Is(err, weir.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("Take(%q, 1) = %+v, %v, want an error that wraps ErrUnavailable and contains %q", key, d, err, text)
	}
	if took := time.Since(began); took > patient {
		t.Errorf("Take(%q, 1) took %v to fail", key, took)
	}
}

// calls returns how often the server ran a command.
func calls(t testing.TB, s *redistest.Server, command string) (n int64) {
	t.Helper()
	for line := range strings.Lines(fmt.Sprint(s.Do(t, "INFO", "commandstats"))) {
		if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d,", &n); err == nil {
			return n
		}
	}
	return 0
}

// TestRedisScriptFlush flushes the scripts under load. They are sent again, and no request is
// counted twice.
func TestRedisScriptFlush(t *testing.T) {
	eachClient(t, func(t *testing.T, client string, s *redistest.Server) {
		store := newRedisStore(t, openConn(t, client, "redis://"+s.Addr), redisstore.Config{})
		limit := weir.MustLimit("5000/24h fixed_window") // no token returns during the test
		const callers, each = 8, 120
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					if d, err := store.Do(t.Context(), weir.Request{Key: "k", Limit: limit, N: 1}); err != nil || !d.OK {
						t.Errorf("Take under SCRIPT FLUSH = %+v, %v, want OK", d, err)
						return
					}
				}
			})
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		flushes := 0
		for tick := time.NewTicker(2 * time.Millisecond); ; {
			select {
			case <-tick.C:
				s.Do(t, "SCRIPT", "FLUSH", "SYNC")
				flushes++
				continue
			case <-done:
				tick.Stop()
			}
			break
		}
		d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "k", Limit: limit})
		if used := limit.Capacity() - d.Remaining; err != nil || used != callers*each {
			t.Errorf("%d tokens used after %d Takes of 1 and %d flushes (%v)", used, callers*each, flushes, err)
		}
		t.Logf("%d Takes, %d flushes, %d EVAL", callers*each, flushes, calls(t, s, "eval"))
		if flushes == 0 || calls(t, s, "eval") < 2 {
			t.Errorf("%d flushes and %d EVAL: want the script flushed more often", flushes, calls(t, s, "eval"))
		}
	})
}

// TestRedisLostReply checks that a call whose reply is lost has run and is not sent again.
func TestRedisLostReply(t *testing.T) {
	for _, how := range []redistest.Fault{redistest.DropReplies, redistest.CutReplies} {
		t.Run(string(how), func(t *testing.T) {
			eachClient(t, func(t *testing.T, client string, s *redistest.Server) {
				limit := weir.MustLimit("1000/24h")
				proxy := redistest.StartProxy(t, s.Addr)
				conn := openConn(t, client, "redis://"+proxy.Addr)
				mustTake(t, newRedisStore(t, conn, redisstore.Config{}), "k", limit, 1) // Redis has the script now
				store := newRedisStore(t, conn, redisstore.Config{Timeout: 300 * time.Millisecond})
				proxy.Set(how)
				wantUnavailable(t, store, "k", limit, "")
				proxy.Set(redistest.NoFault)
				redistest.Await(t, "the client has recovered", func() error {
					_, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "other", Limit: limit})
					return err
				})
				direct := newRedisStore(t, openConn(t, client, "redis://"+s.Addr), redisstore.Config{})
				d, err := direct.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "k", Limit: limit})
				// A call that waited for a new connection whose handshake was lost
				// was not sent at all.
				sent := calls(t, s, "set")
				if err != nil || sent < 1 || sent > 2 || d.Remaining != 1000-sent {
					t.Errorf("after a Take and one whose reply was lost: %+v, %v, %d writes, want each Take sent once", d, err, sent)
				}
			})
		})
	}
}

// TestRedisGone checks that calls fail within the Timeout when the server does not reply and
// when it has stopped.
func TestRedisGone(t *testing.T) {
	limit := weir.MustLimit("10/s")
	c := redisstore.Config{Timeout: 300 * time.Millisecond}
	t.Run("silent", func(t *testing.T) {
		eachClient(t, func(t *testing.T, client string, s *redistest.Server) {
			proxy := redistest.StartProxy(t, s.Addr)
			conn := openConn(t, client, "redis://"+proxy.Addr)
			mustTake(t, newRedisStore(t, conn, redisstore.Config{}), "k", limit, 1)
			store := newRedisStore(t, conn, c)
			proxy.Set(redistest.DropReplies)
			var wg sync.WaitGroup
			for i := range 50 {
				wg.Go(func() { wantUnavailable(t, store, fmt.Sprint(i), limit, "") })
			}
			wg.Wait()
		})
	})
	t.Run("stopped", func(t *testing.T) {
		eachClient(t, func(t *testing.T, client string, s *redistest.Server) {
			conn := openConn(t, client, "redis://"+s.Addr)
			mustTake(t, newRedisStore(t, conn, redisstore.Config{}), "k", limit, 1)
			store := newRedisStore(t, conn, c)
			s.Stop()
			for range 3 {
				wantUnavailable(t, store, "k", limit, "")
			}
		})
	})
	t.Run("never there", func(t *testing.T) {
		url := fmt.Sprint("redis://127.0.0.1:", porttest.Free(t))
		if conn, err := redisConns["rueidis"](url); !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("rueidis.Open = %v, %v, want an error that wraps ErrUnavailable", conn, err)
		}
		wantUnavailable(t, newRedisStore(t, openConn(t, "goredis", url), c), "k", limit, "")
	})
}

// TestRedisWrongType checks that a value that is no state is an error for its key alone.
func TestRedisWrongType(t *testing.T) {
	eachClient(t, func(t *testing.T, client string, s *redistest.Server) {
		store := newRedisStore(t, openConn(t, client, "redis://"+s.Addr), redisstore.Config{InFlight: 1})
		limit := weir.MustLimit("10/h burst 20")
		plant := []struct {
			key, text string
			command   []any
		}{
			{"list", "WRONGTYPE", []any{"RPUSH", "weir:1:{list}:10/h+burst+20", "x"}},
			{"text", "BADSTATE", []any{"SET", "weir:1:{text}:10/h+burst+20", "hello"}},
			{"number", "BADSTATE", []any{"SET", "weir:1:{number}:10/h+burst+20", "7"}},
			{"object", "BADSTATE", []any{"SET", "weir:1:{object}:10/h+burst+20", `{"a":[1]}`}},
			{"array", "BADSTATE", []any{"SET", "weir:1:{array}:10/h+burst+20", `["a","b"]`}},
			{"rule", "BADSTATE", []any{"SET", "weir:1:{rule}:10/h+burst+20", `[5,5,5,"no_algorithm 1,2"]`}},
		}
		for _, p := range plant {
			s.Do(t, p.command...)
			wantUnavailable(t, store, p.key, limit, p.text)
		}
		// Also in one call with other keys.
		var good atomic.Int64
		var wg sync.WaitGroup
		for i := range 20 {
			for _, p := range plant {
				wg.Go(func() { wantUnavailable(t, store, p.key, limit, p.text) })
			}
			wg.Go(func() {
				if d, err := store.Do(t.Context(), weir.Request{Key: fmt.Sprint("good", i), Limit: limit, N: 1}); err == nil && d.OK {
					good.Add(1)
				}
			})
		}
		wg.Wait()
		if good.Load() != 20 {
			t.Errorf("%d of 20 good keys were decided together with bad ones", good.Load())
		}
		ok, err := store.DoAll(t.Context(), []weir.Request{
			{Key: "fine", Limit: limit, N: 1}, {Key: "list", Limit: limit, N: 1},
		}, make([]weir.Decision, 2))
		if ok || !errors.Is(err, weir.ErrUnavailable) {
			t.Errorf("DoAll with a bad key = %v, %v, want an error", ok, err)
		}
		if d := mustTake(t, store, "fine", limit, 1); d.Remaining != 19 {
			t.Errorf("a batch that failed was charged: %+v", d)
		}
	})
}

// TestRedisOutOfMemory checks that when Redis is out of memory, requests fail and charge
// nothing, and denials still work.
func TestRedisOutOfMemory(t *testing.T) {
	eachClient(t, func(t *testing.T, client string, s *redistest.Server) {
		store := newRedisStore(t, openConn(t, client, "redis://"+s.Addr), redisstore.Config{})
		limit := weir.MustLimit("2/24h")
		mustTake(t, store, "empty", limit, 2)
		s.Do(t, "CONFIG", "SET", "maxmemory", 1)
		wantUnavailable(t, store, "k", limit, "OOM")
		if d := mustTake(t, store, "empty", limit, 1); d.OK {
			t.Errorf("Take of an empty bucket while memory is full = %+v, want a denial", d)
		}
		s.Do(t, "CONFIG", "SET", "maxmemory", 0)
		if d := mustTake(t, store, "k", limit, 2); !d.OK {
			t.Errorf("Take(2) of 2 after an error = %+v, want OK", d)
		}
	})
}

// TestRedisTTL checks that every key has a TTL, lasts as long as its information, and does
// not outlive it by more than 1.025 s.
func TestRedisTTL(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	store := newRedisStore(t, openConn(t, "rueidis", "redis://"+s.Addr), redisstore.Config{})
	longest := map[string]time.Duration{}
	for i, text := range []string{
		"10/s burst 20", "1/h", "7/24h", "10000000/s", "5/10s interval", "10/s initial 2", "5/s warmup 3s",
		"3/s leaky_bucket burst 4", "3/s leaky_bucket burst 4 queue nginx", "5/m fixed_window", "100000/month fixed_window calendar UTC",
		"6/10s sliding_window", "5/10s sliding_log", "4 concurrency lease 30s",
	} {
		limit, err := weir.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []weir.Request{
			{Verb: weir.Take, N: 1}, {Verb: weir.Charge, N: limit.Capacity() + 3}, {Verb: weir.Return, N: 4},
			{Verb: weir.Reserve, N: 1, ID: "a", TTL: time.Minute}, {Verb: weir.Reserve, N: 1, ID: "b", TTL: time.Hour},
		} {
			r.Key, r.Limit = fmt.Sprint("key", i), limit
			start := time.Now()
			d, err := store.Do(t.Context(), r)
			if err != nil {
				t.Fatalf("%s %s: %v", text, r.Verb, err)
			}
			longest[r.Key] = max(longest[r.Key], d.ResetAfter, r.TTL)
			if !d.OK {
				continue
			}
			for _, k := range s.Do(t, "KEYS", "*{"+r.Key+"}*").([]any) {
				ms := s.Do(t, "PTTL", k).(int64)
				if least := (max(d.ResetAfter, r.TTL) - time.Since(start)).Milliseconds(); ms < least {
					t.Errorf("%s: PTTL %s = %d ms after %s, want at least %d", text, k, ms, r.Verb, least)
				}
			}
		}
	}
	keys := s.Do(t, "KEYS", "*").([]any)
	for _, k := range keys {
		name := k.(string)
		key := name[strings.Index(name, "{")+1 : strings.Index(name, "}")]
		ms := s.Do(t, "PTTL", name).(int64)
		if most := math.Ceil(float64(longest[key].Microseconds())/1000) + 1025; ms <= 0 || float64(ms) > most {
			t.Errorf("PTTL %s = %d ms, want 1 to %.0f", name, ms, most)
		}
	}
	if len(keys) < 14 {
		t.Errorf("%d keys, want one for each limit at least", len(keys))
	}
}
