package memstore_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// BenchmarkTenants measures a Take of a random tenant, by number of tenants.
//
//	go test -run '^$' -bench Tenants ./memstore
func BenchmarkTenants(b *testing.B) {
	for _, n := range []int{10, 256, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			now := int64(1_767_225_600_000_000)
			s, err := memstore.New(memstore.Config{Clock: func() int64 { return now }})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			limits := tenantLimits(b, n, 4000, 2, false)
			b.ReportAllocs()
			i := uint32(1)
			for b.Loop() {
				now += 500
				i = i*1664525 + 1013904223
				r := weir.Request{Verb: weir.Take, Key: "api", Limit: limits[int(i>>8)%n], N: 1}
				if _, err := s.Do(context.Background(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
