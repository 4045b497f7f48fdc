package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/goredis"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/redisstore"
	"github.com/redis/go-redis/v9"
	rueidisclient "github.com/redis/rueidis"
)

// TestRedisClientWithRetries uses clients that are configured to send commands again that may
// have run. A Conn does not do that.
func TestRedisClientWithRetries(t *testing.T) {
	t.Parallel()
	limit := weir.MustLimit("1000/24h")
	lose := func(t *testing.T, proxy *redistest.Proxy, conn redisstore.Conn, key string) {
		store := newRedisStore(t, conn, redisstore.Config{Timeout: 2 * time.Second})
		mustTake(t, store, key, limit, 1)
		for range 3 {
			proxy.Set(redistest.CutReply)
			wantUnavailable(t, store, key, limit, "")
			mustTake(t, store, key, limit, 1)
		}
	}
	t.Run("rueidis", func(t *testing.T) {
		s := redistest.Start(t)
		proxy := redistest.StartProxy(t, s.Addr)
		client, err := rueidisclient.NewClient(rueidisclient.ClientOption{InitAddress: []string{proxy.Addr}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		lose(t, proxy, rueidis.New(client), "k")
		// Each of the three lost replies may be that of a handshake of a new connection,
		// and then no script was sent.
		if n := calls(t, s, "set"); n < 4 || n > 7 {
			t.Errorf("%d writes for 7 Takes, want each sent once", n)
		}
	})
	t.Run("goredis", func(t *testing.T) {
		s := redistest.Start(t)
		proxy := redistest.StartProxy(t, s.Addr)
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr, MaxRetries: 5})
		t.Cleanup(func() { client.Close() })
		lose(t, proxy, goredis.New(client), "k")
		if n := calls(t, s, "set"); n != 7 {
			t.Errorf("%d writes for 7 Takes, want each sent once", n)
		}
	})
	t.Run("goredis cluster", func(t *testing.T) {
		c := redistest.StartCluster(t)
		proxy := redistest.StartProxy(t, c.Primaries[0].Addr)
		client := redis.NewClusterClient(&redis.ClusterOptions{
			MaxRedirects: 5,
			ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) {
				return []redis.ClusterSlot{{Start: 0, End: 16383, Nodes: []redis.ClusterNode{{Addr: proxy.Addr}}}}, nil
			},
		})
		t.Cleanup(func() { client.Close() })
		lose(t, proxy, goredis.New(client), keyOf(t, c, 0))
		if n := calls(t, c.Primaries[0], "set"); n != 7 {
			t.Errorf("%d writes for 7 Takes, want each sent once", n)
		}
	})
}

// keyOf returns a key whose slot the i-th primary holds.
func keyOf(t testing.TB, c *redistest.ClusterServers, i int) string {
	t.Helper()
	for n := range 10_000 {
		key := fmt.Sprint("key", n)
		if slot := c.Primaries[0].Do(t, "CLUSTER", "KEYSLOT", key).(int64); slot*3/16384 == int64(i) {
			return key
		}
	}
	t.Fatal("no key for a primary")
	return ""
}

// TestRedisClusterReshard moves slots between nodes under load, with keys and with
// reservations in three keys of one slot. It costs no error and no token.
func TestRedisClusterReshard(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	limit := weir.MustLimit("1000000/8760h")
	for client := range redisConns {
		t.Run(client, func(t *testing.T) {
			store := newRedisStore(t, openConn(t, client, "redis+cluster://"+c.Addrs()), redisstore.Config{Prefix: client})
			key := keyOf(t, c, 0)
			slot := c.Primaries[0].Do(t, "CLUSTER", "KEYSLOT", key).(int64)
			var taken atomic.Int64
			var wg sync.WaitGroup
			ctx, stop := context.WithCancel(context.Background())
			for caller := range 6 {
				wg.Go(func() {
					for i := 0; ctx.Err() == nil; i++ {
						r := weir.Request{Verb: weir.Take, Key: key, Limit: limit, N: 1}
						if caller%2 == 0 {
							r.Verb, r.ID, r.TTL = weir.Reserve, fmt.Sprint(caller, "-", i), time.Minute
						}
						d, err := store.Do(context.Background(), r)
						if err != nil || !d.OK {
							t.Errorf("%s while the slot moves = %+v, %v, want OK", r.Verb, d, err)
							return
						}
						taken.Add(d.Granted)
					}
				})
			}
			for i := range 6 {
				before := taken.Load()
				redistest.Await(t, "some are taken", func() error {
					if n := taken.Load() - before; n < 50 && !t.Failed() {
						return fmt.Errorf("%d taken", n)
					}
					return nil
				})
				c.Move(t, slot, c.Primaries[i%3], c.Primaries[(i+1)%3])
			}
			stop()
			wg.Wait()
			d, err := store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: key, Limit: limit})
			if used := limit.Capacity() - d.Remaining; err != nil || used != taken.Load() {
				t.Errorf("%d tokens used, %d taken (%v)", used, taken.Load(), err)
			}
			t.Logf("%d tokens in 6 moves", taken.Load())
		})
	}
}

// TestRedisShared checks that two stores on one Redis, as two processes have, share a limit
// exactly.
func TestRedisShared(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, client string, s *redistest.Server) {
		limit := weir.MustLimit("500/8760h")
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range 2 {
			store := newRedisStore(t, openConn(t, client, "redis://"+s.Addr), redisstore.Config{})
			for range 20 {
				wg.Go(func() {
					for range 20 {
						d, err := store.Do(t.Context(), weir.Request{Key: "k", Limit: limit, N: 1})
						if err != nil {
							t.Errorf("Take = error %v", err)
						}
						admitted.Add(d.Granted)
					}
				})
			}
		}
		wg.Wait()
		if n := admitted.Load(); n != 500 {
			t.Errorf("%d of 800 Takes admitted, want 500", n)
		}
	})
}

// TestRedisClusterKeys checks that user keys cannot choose their slot or collide with another
// key's name.
func TestRedisClusterKeys(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t)
	limit := weir.MustLimit("10/24h")
	conn := openConn(t, "rueidis", "redis+cluster://"+c.Addrs())
	store := newRedisStore(t, conn, redisstore.Config{})
	for i, key := range []string{"a", "{a}", "{a}b", "a}{b", "}", "{", "{}", "x:{a}:y", "\x00", "\r\n", "😀", strings.Repeat("{", 300)} {
		for range i + 1 {
			mustTake(t, store, key, limit, 1)
		}
		r := weir.Request{Verb: weir.Reserve, Key: key, Limit: limit, N: 1, ID: "{id}", TTL: time.Hour}
		if d, err := store.Do(t.Context(), r); err != nil || d.OK != (i < 9) {
			t.Errorf("Reserve of key %.20q after %d Takes = %+v, %v", key, i+1, d, err)
		}
	}
	tenant := newRedisStore(t, conn, redisstore.Config{Prefix: "tenants", Slot: func(key string) string {
		name, _, _ := strings.Cut(key, "/")
		return name
	}})
	slots := map[any]bool{}
	for i := range 20 {
		mustTake(t, tenant, fmt.Sprint("acme/", i), limit, 1)
	}
	for _, p := range c.Primaries {
		for _, name := range p.Do(t, "KEYS", "tenants:*").([]any) {
			slots[p.Do(t, "CLUSTER", "KEYSLOT", name)] = true
		}
	}
	if len(slots) != 1 {
		t.Errorf("the keys of one tenant are in %d slots, want 1", len(slots))
	}
}
