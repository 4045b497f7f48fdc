package rls_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/rls"
	"github.com/floodweir/weir/memstore"
)

// TestAllocations is the budget of a request to a store in memory: its response, and the key of each
// descriptor. It leaves room for a pool that forgets, as under the race detector.
func TestAllocations(t *testing.T) {
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := newServer(t, rls.Config{
		Store: store, Limits: parse(t, "domain: d\ndescriptors:\n  - {key: user, rate_limit: {unit: day, requests_per_unit: 4294967295}}\n"),
		Observe: func(rls.Event) {},
	})
	for _, n := range []int{1, 128} {
		var line []string
		for i := range n {
			line = append(line, fmt.Sprint("user=", i))
		}
		r := parseRequest(t, "d", strings.Join(line, " + "))
		got := testing.AllocsPerRun(100, func() {
			if _, err := s.ShouldRateLimit(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		})
		t.Logf("%d descriptors: %v allocations", n, got)
		if most := float64(n + 20); got > most {
			t.Errorf("%d descriptors: %v allocations, want at most %v", n, got, most)
		}
	}
}

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
