package keystats_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
)

// BenchmarkAdd measures a record of few keys, of many with Zipf's law, and of new keys only.
func BenchmarkAdd(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	for _, tc := range []struct {
		name string
		keys int
		pick func(i int) int
	}{
		{"few", 500, func(i int) int { return i % 500 }},
		{"zipf", 100_000, func() func(int) int {
			z := rand.NewZipf(rng, 1.1, 1, 99_999)
			return func(int) int { return int(z.Uint64()) }
		}()},
		{"new", 1 << 17, func(i int) int { return i % (1 << 17) }},
	} {
		b.Run(tc.name, func(b *testing.B) {
			records := make([]keystats.Record, 1<<17)
			for i := range records {
				key := fmt.Sprintf("login|9:key%06d", tc.pick(i))
				records[i] = keystats.Record{Key: key, Hash: keystats.Hash(1, key), Weight: 1, Cost: 1, Denied: i%4 == 0}
			}
			c := keystats.NewCollector(1, 1_700_000_000)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.Add(&records[i%len(records)])
				i++
			}
		})
	}
}

// BenchmarkThreshold measures an estimate from a full sample.
func BenchmarkThreshold(b *testing.B) {
	tr := randomTrace(rand.New(rand.NewPCG(41, 0)))
	s := tr.play(5)
	for b.Loop() {
		if _, err := s.Threshold(tr.limit); err != nil {
			b.Fatal(err)
		}
	}
}
