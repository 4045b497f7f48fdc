package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore"
)

// someTenants returns the limits of random tenants of one parent, with equal chances of both
// ways to divide surplus.
func someTenants(t *testing.T, r *rand.Rand) []weir.Limit {
	t.Helper()
	c := weir.TenantBucket{Count: 1000, Period: time.Second, Burst: 200, Weighted: r.IntN(2) == 0}
	for i := range 4 + r.IntN(7) {
		c.Tenants = append(c.Tenants, weir.Tenant{Name: fmt.Sprint("t", i), Weight: 1 + r.Int64N(5), Burst: 3 + r.Int64N(7)})
	}
	limits, err := c.Limits()
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// TestRedisTenants sends random requests of a greedy and of moderate tenants to Redis and to
// memory, which decide alike, also when the tenants change. A bucket of the parent admits all that
// is admitted.
func TestRedisTenants(t *testing.T) {
	t.Parallel()
	h := openRedis(openConn(t, "rueidis", "redis://"+redistest.Start(t).Addr))(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	mem, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	ctx, r := context.Background(), rand.New(rand.NewPCG(*redisSeed, 9))
	parent, limits := weir.MustLimit("1000/s burst 200"), someTenants(t, r)
	admitted, denied := 0, 0
	for step := range usual(10_000, 100_000) {
		if now += r.Int64N(1000); r.IntN(500) == 0 {
			now += r.Int64N(300_000)
		}
		if r.IntN(1000) == 0 {
			limits = someTenants(t, r)
		}
		h.SetNow(now)
		i := 0
		if r.IntN(3) == 0 {
			i = r.IntN(len(limits))
		}
		rq := weir.Request{Verb: weir.Take, Key: "api", Limit: limits[i], N: 1 + r.Int64N(3)}
		if r.IntN(10) == 0 {
			rq.Verb = []weir.Verb{weir.Peek, weir.TakeUpTo}[r.IntN(2)]
		}
		want, err := mem.Do(ctx, rq)
		if err != nil {
			t.Fatal(err)
		}
		got, err := h.Store.Do(ctx, rq)
		if err != nil {
			t.Fatal(err)
		}
		if got.At = want.At; got != want {
			t.Fatalf("step %d: %s of %d by tenant %d: Redis decides %+v, memory %+v", step, rq.Verb, rq.N, i, got, want)
		}
		if !got.OK {
			denied++
		} else if got.Granted > 0 {
			admitted++
			if d, err := mem.Do(ctx, weir.Request{Verb: weir.Take, Key: "parent", Limit: parent, N: got.Granted}); err != nil || !d.OK {
				t.Fatalf("step %d: %d of tenant %d are above the parent: %+v, %v", step, got.Granted, i, d, err)
			}
		}
	}
	if admitted < 1000 || denied < 1000 {
		t.Errorf("%d admitted, %d denied, want at least 1000 of each", admitted, denied)
	}
}

const greedyFile = `
policies:
  - name: api
    key: header:X-Tenant
    limits: 100/s burst 500
    surplus: SURPLUS
    tenants: [TENANTS{ key: "*", burst: 20 }]
`

// TestServeGreedyTenant has three processes share a limit in Redis. Nine tenants and many keys of
// the tenant * send all that they can. A bucket of the parent admits all that is admitted, by
// the instants of the decisions. Each tenant gets from its own minimum exactly what a private
// bucket admits.
func TestServeGreedyTenant(t *testing.T) {
	t.Parallel()
	binary, redis := programtest.Weir(t), redistest.Start(t)
	for i, surplus := range []string{"first_come", "weighted"} {
		t.Run(surplus, func(t *testing.T) {
			names := ""
			for i := range 9 {
				names += fmt.Sprintf("{ key: t%d, burst: 20 }, ", i)
			}
			text := strings.NewReplacer("SURPLUS", surplus, "TENANTS", names).Replace(greedyFile)
			var processes []string
			for range 3 {
				processes = append(processes, serve(t, binary, text, "--store", fmt.Sprintf("redis://%s/%d", redis.Addr, i)).api)
			}
			var all [10][]taken
			var wg sync.WaitGroup
			for tenant := range all {
				wg.Go(func() {
					key, n := "t", usual(150, 3000)
					if tenant == 9 {
						key, n = "other", 3*n
					}
					for i := range n {
						all[tenant] = append(all[tenant], takeFor(t, processes[i%3], fmt.Sprint(key, tenant+i*(tenant/9))))
					}
				})
			}
			wg.Wait()
			checkGreedy(t, all[:])
		})
	}
}

// taken is the decision on a request of 1 token.
type taken struct {
	OK, Borrowed bool
	At           time.Time
	Degraded     string
}

func takeFor(t *testing.T, api, key string) (d taken) {
	status, _, body := post(t, api+"/v1/take", fmt.Sprintf(`{"policy":"api","key":%q}`, key))
	if err := json.Unmarshal(body, &d); err != nil || status != http.StatusOK && status != http.StatusTooManyRequests || d.Degraded != "" {
		t.Errorf("%s: %d %s, %v", key, status, body, err)
	}
	return d
}

// checkGreedy replays the decisions of ten tenants with equal weights, of 100/s burst 500, each
// in its order.
func checkGreedy(t *testing.T, tenants [][]taken) {
	t.Helper()
	parent, err := algo.NewTokenBucket(100, 1_000_000, 500)
	if err != nil {
		t.Fatal(err)
	}
	private, err := algo.NewTokenBucket(100, 10_000_000, 20)
	if err != nil {
		t.Fatal(err)
	}
	take := func(b *algo.TokenBucket, s []int64, at time.Time) ([]int64, bool) {
		s, r := b.Do(s, algo.Ask{Op: algo.Take, Now: at.UnixMicro(), N: 1})
		return s, r.OK
	}
	var admitted []taken
	own, borrowed := 0, 0
	for i, all := range tenants {
		var s []int64
		for n, d := range all {
			var ok bool
			if s, ok = take(private, s, d.At); ok != (d.OK && !d.Borrowed) {
				t.Fatalf("tenant %d, request %d: %+v, its private bucket admits it: %v", i, n, d, ok)
			}
			if d.OK {
				admitted = append(admitted, d)
			}
			if d.Borrowed {
				borrowed++
			} else if d.OK {
				own++
			}
		}
	}
	slices.SortFunc(admitted, func(a, b taken) int { return a.At.Compare(b.At) })
	var s []int64
	for i, d := range admitted {
		var ok bool
		if s, ok = take(parent, s, d.At); !ok {
			t.Fatalf("admission %d at %v is above the parent", i, d.At)
		}
	}
	t.Logf("%d admitted of their own, %d borrowed", own, borrowed)
	if own < 200 || borrowed < 100 { // the bursts, and a part of the pool
		t.Errorf("%d admitted of their own, %d borrowed, want at least 200 and 100", own, borrowed)
	}
}

const tenantsFile = `
gateway: { routes: [{ path: /, upstream: "UPSTREAM" }] }
policies:
  - name: NAME
    key: const:all
    limits: 1000000/s
    mode: shadow
  - name: api
    key: header:X-Tenant
    limits: 1/h burst 100
    tenants:
      - { key: acme, weight: WEIGHT, burst: BURST }
      - { key: globex, burst: 20, ceil: 15/h }
      - { key: "*", burst: 10 }
`

// TestServeTenants has weir serve divide a limit, on memory and on Redis. A reload that changes
// weights and bursts keeps the sum.
func TestServeTenants(t *testing.T) {
	t.Parallel()
	binary := programtest.Weir(t)
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	text := func(name, weight, burst string) string {
		return strings.NewReplacer("UPSTREAM", upstream.URL, "NAME", name, "WEIGHT", weight, "BURST", burst).Replace(tenantsFile)
	}
	for name, store := range map[string]string{"memory": "memory", "redis": "redis://" + redistest.Start(t).Addr} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, binary, text("first", "3", "30"), "--store", store)
			want := func(tenant string, n, want int) {
				t.Helper()
				got := 0
				for range n {
					rq, err := http.NewRequest(http.MethodGet, s.gateway+"/", nil)
					if err != nil {
						t.Fatal(err)
					}
					rq.Header.Set("X-Tenant", tenant)
					resp, err := http.DefaultClient.Do(rq)
					if err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					switch resp.StatusCode {
					case http.StatusOK:
						got++
					case http.StatusTooManyRequests:
					default:
						t.Fatalf("%s: %s", tenant, resp.Status)
					}
				}
				if got != want {
					t.Errorf("%s: %d of %d admitted, want %d", tenant, got, n, want)
				}
			}
			want("acme", 80, 70)   // 30 of its own, 40 borrowed
			want("globex", 10, 10) // of 20
			want("other", 3, 3)
			want("third", 4, 4) // both share the 10 of *
			s.write(t, text("second", "1", "5"))
			if err := s.process.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(30 * time.Second); !strings.Contains(listing(t, s.admin), `"second"`); {
				if time.Now().After(deadline) {
					t.Fatalf("no reload: %s", listing(t, s.admin))
				}
			}
			want("acme", 5, 0)
			want("third", 10, 3)
			want("globex", 20, 5) // the ceiling
			want("acme", 5, 0)    // 5 of globex are left, and reserved
		})
	}
}

// listing returns the policies in use.
func listing(t *testing.T, admin string) string {
	t.Helper()
	resp, err := http.Get(admin + "/v1/policies")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
