package e2e_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
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
