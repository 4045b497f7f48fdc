package rls_test

import (
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/memstore"
)

// BenchmarkShouldRateLimit measures a request without the network.
func BenchmarkShouldRateLimit(b *testing.B) {
	const limits = "domain: d\ndescriptors:\n" +
		"  - {key: user, rate_limit: {unit: day, requests_per_unit: 4294967295}}\n" +
		"  - {key: a, descriptors: [{key: b, value: \"x*\", rate_limit: {unit: day, requests_per_unit: 4294967295}}]}\n" +
		"  - {key: over, rate_limit: {unit: day, requests_per_unit: 1}}\n"
	for _, line := range []string{"user=a", "user=a + a=1 b=xyz", "over=1", "user=a @limit=1000000/DAY", "unknown=a"} {
		b.Run(line, func(b *testing.B) {
			store, err := memstore.New(memstore.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer store.Close()
			s := newServer(b, rls.Config{Store: store, Limits: parse(b, limits), Observe: func(rls.Event) {}})
			r := parseRequest(&testing.T{}, "d", line)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.ShouldRateLimit(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
