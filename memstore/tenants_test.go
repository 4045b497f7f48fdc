package memstore_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// tenantLimits returns the limits of n tenants with equal weights.
func tenantLimits(t testing.TB, n int, burst, each int64, weighted bool) []weir.Limit {
	t.Helper()
	c := weir.TenantBucket{Count: 1000, Period: time.Second, Burst: burst, Weighted: weighted}
	for i := range n {
		c.Tenants = append(c.Tenants, weir.Tenant{Name: fmt.Sprint("t", i), Weight: 1, Burst: each})
	}
	limits, err := c.Limits()
	if err != nil {
		t.Fatal(err)
	}
	return limits
}

// TestGreedyTenant sends a million requests of one greedy and nine moderate tenants, which pause
// and return. Each moderate one gets its minimum in each second of its demand, from the first
// on. A bucket of the parent admits all that is admitted.
func TestGreedyTenant(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		t.Run(fmt.Sprint("weighted=", weighted), func(t *testing.T) { greedyTenant(t, weighted) })
	}
}

func greedyTenant(t *testing.T, weighted bool) {
	const minimum = 100
	requests := 1_000_000
	if racing {
		requests /= 20
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	s, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	parent, limits := weir.MustLimit("1000/s burst 1000"), tenantLimits(t, 10, 1000, 50, weighted)
	r := rand.New(rand.NewPCG(1, 1))
	var sent int
	var least [10]int64 // in a second of demand
	var admitted [10]int64
	take := func(i int) {
		d, err := s.Do(context.Background(), weir.Request{Verb: weir.Take, Key: "api", Limit: limits[i], N: 1})
		if err != nil {
			t.Fatal(err)
		}
		if sent++; !d.OK {
			return
		}
		admitted[i]++
		if d, err := s.Do(context.Background(), weir.Request{Verb: weir.Take, Key: "parent", Limit: parent, N: 1}); err != nil || !d.OK {
			t.Fatalf("request %d of tenant %d is above the parent: %+v, %v", sent, i, d, err)
		}
	}
	start, seconds := now, int64(0)
	for sent < requests {
		var active [10]bool
		for i := 1; i < 10; i++ {
			active[i] = r.IntN(2) == 0
			least[i] = -admitted[i]
		}
		for step := range 5000 { // one second: the greedy sends 5,000, each other 1.5 times its minimum
			now += 200
			take(0)
			for i := 1; i < 10; i++ {
				if active[i] && (step+i)%33 == 0 {
					take(i)
				}
			}
		}
		seconds++
		for i := 1; i < 10; i++ {
			if least[i] += admitted[i]; active[i] && least[i] < minimum {
				t.Fatalf("tenant %d got %d of its minimum of %d in second %d", i, least[i], minimum, seconds)
			}
		}
	}
	sum := int64(0)
	for _, n := range admitted {
		sum += n
	}
	if most := 1000*(now-start)/1_000_000 + 1000; sum > most || sum < most-1000 {
		t.Errorf("%d admitted in %d s, want at most %d, and all but the bursts", sum, seconds, most)
	}
	t.Logf("%d requests in %d s: the greedy tenant got %d/s, all %d/s", sent, seconds, admitted[0]/seconds, sum/seconds)
}

// TestTenantsSurvive checks that a snapshot keeps the state of tenants, and that tenants which
// changed keep the sum.
func TestTenantsSurvive(t *testing.T) {
	ctx, file := context.Background(), filepath.Join(t.TempDir(), "state")
	open := func() *memstore.Store {
		s, err := memstore.New(memstore.Config{Snapshot: file})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	take := func(s *memstore.Store, l weir.Limit, n int64) weir.Decision {
		t.Helper()
		d, err := s.Do(ctx, weir.Request{Verb: weir.Take, Key: "api", Limit: l, N: n})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	limit := func(text string) weir.Limit { return weir.MustLimit("1/h burst 100 tenant_bucket " + text) }
	s := open()
	a, b := limit("tenant a tenants a:3:30,b%2Cc:1:20"), limit("tenant b%2Cc tenants a:3:30,b%2Cc:1:20")
	take(s, a, 30)
	take(s, a, 45) // borrowed
	take(s, b, 20)
	if d := take(s, b, 1); !d.OK || d.Remaining != 4 {
		t.Fatalf("%+v, want 4 left to borrow", d)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer s.Close()
	if d := take(s, a, 0); d.Remaining != 4 {
		t.Errorf("%d left after a restart, want 4", d.Remaining)
	}
	a, c := limit("tenant a tenants a:1:10,c:5:60"), limit("tenant c tenants a:1:10,c:5:60")
	total := int64(0)
	for range 10 {
		for _, l := range []weir.Limit{a, c} {
			if d := take(s, l, 1); d.OK {
				total++
			}
		}
	}
	if total != 4 {
		t.Errorf("%d admitted after the tenants changed, want the 4 that were left", total)
	}
}

// TestTenantsReserve checks that reservations take tokens as requests do, and return them to the
// place that they are from. An id belongs to one tenant.
func TestTenantsReserve(t *testing.T) {
	file, now := filepath.Join(t.TempDir(), "state"), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	open := func() *memstore.Store {
		s, err := memstore.New(memstore.Config{Snapshot: file, Clock: func() int64 { return now }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	limit := func(name string) weir.Limit {
		return weir.MustLimit("1/24h burst 100 tenant_bucket tenant " + name + " tenants a:1:10,b:1:10")
	}
	do := func(verb weir.Verb, tenant, id string, n, left int64) {
		t.Helper()
		r := weir.Request{Verb: verb, Key: "k", Limit: limit(tenant), N: n, ID: id, TTL: time.Minute}
		if d, err := s.Do(context.Background(), r); err != nil || !d.OK || d.Remaining != left {
			t.Fatalf("%s of %d by %s = %+v, %v, want %d left", verb, n, tenant, d, err, left)
		}
	}
	do(weir.Reserve, "a", "1", 10, 80)
	do(weir.Reserve, "a", "2", 70, 10)
	do(weir.Reserve, "b", "1", 5, 15)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	defer s.Close()
	do(weir.Commit, "a", "1", 4, 16) // 6 of its own
	do(weir.Peek, "b", "", 1, 15)
	do(weir.Commit, "a", "2", 40, 46) // 30 of the pool
	do(weir.Peek, "b", "", 1, 45)
	do(weir.Commit, "b", "1", 7, 43) // 2 more
	do(weir.Reserve, "a", "3", 40, 6)
	now += time.Minute.Microseconds()
	do(weir.Peek, "a", "", 1, 46)
	do(weir.Peek, "b", "", 1, 43)
}
