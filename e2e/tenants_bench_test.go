package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/redistest"
)

// BenchmarkRedisTenants measures a Take of a random tenant, by number of tenants, with the time
// of a round trip.
//
//	go test -run '^$' -bench RedisTenants ./e2e
func BenchmarkRedisTenants(b *testing.B) {
	for _, n := range []int{10, 256, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			h := openRedis(openConn(b, "rueidis", "redis://"+redistest.Start(b).Addr))(b)
			c := weir.TenantBucket{Count: 1000, Period: time.Second, Burst: 4000}
			for i := range n {
				c.Tenants = append(c.Tenants, weir.Tenant{Name: fmt.Sprint("t", i), Weight: 1, Burst: 2})
			}
			limits, err := c.Limits()
			if err != nil {
				b.Fatal(err)
			}
			now, i := int64(1_767_225_600_000_000), uint32(1)
			for b.Loop() {
				now += 500
				h.SetNow(now)
				i = i*1664525 + 1013904223
				r := weir.Request{Verb: weir.Take, Key: "api", Limit: limits[int(i>>8)%n], N: 1}
				if _, err := h.Store.Do(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
