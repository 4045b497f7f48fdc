package memstore_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

func newStore(tb testing.TB, c memstore.Config) *memstore.Store {
	tb.Helper()
	s, err := memstore.New(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { s.Close() })
	return s
}

func take(tb testing.TB, s weir.Store, key string, l weir.Limit, n int64) weir.Decision {
	d, err := s.Do(context.Background(), weir.Request{Key: key, Limit: l, N: n})
	if err != nil {
		tb.Helper() // only here: it costs as much as a decision
		tb.Fatalf("take %d of %.20q under %s: %v", n, key, l, err)
	}
	return d
}

func do(tb testing.TB, s weir.Store, r weir.Request) weir.Decision {
	d, err := s.Do(context.Background(), r)
	if err != nil {
		tb.Helper()
		tb.Fatalf("%s of %.20q under %s: %v", r.Verb, r.Key, r.Limit, err)
	}
	return d
}

// TestNoAllocations checks that a decision on a known key allocates nothing, allowed or
// denied.
func TestNoAllocations(t *testing.T) {
	for _, tt := range []struct{ name, limit string }{
		{"token bucket", "1000000/h burst %"},
		{"token bucket, wide", "1000003/h burst %"},
		{"leaky bucket", "1000000/h leaky_bucket burst %"},
		{"fixed window", "%/h fixed_window"},
		{"sliding window", "%/h sliding_window"},
		{"sliding window, weighted", "%/h sliding_window weighted"},
	} {
		for _, denied := range []bool{false, true} {
			room := "900000"
			if denied {
				room = "1"
			}
			limit, err := weir.ParseLimit(replace(tt.limit, room))
			if err != nil {
				t.Fatal(err)
			}
			s := newStore(t, memstore.Config{Clock: clockAt(begin).Load})
			key := keysOf(1)[0]
			n := int64(1)
			if denied {
				n = limit.Capacity()
			}
			take(t, s, key, limit, n)
			ctx := context.Background()
			allocs := testing.AllocsPerRun(1000, func() {
				d, err := s.Do(ctx, weir.Request{Key: key, Limit: limit, N: n})
				if err != nil || d.OK == denied {
					t.Fatalf("Take(%d) under %s = %+v, %v, want OK %t", n, limit, d, err, !denied)
				}
			})
			if allocs != 0 {
				t.Errorf("%s, denied %t: %v allocations, want 0", tt.name, denied, allocs)
			}
		}
	}
}

func replace(text, room string) string {
	for i := range text {
		if text[i] == '%' {
			return text[:i] + room + text[i+1:]
		}
	}
	return text
}

// TestNoAllocationsTogether checks that a decision of several requests together allocates
// nothing, allowed or denied.
func TestNoAllocationsTogether(t *testing.T) {
	s := newStore(t, memstore.Config{})
	keys := keysOf(8)
	for _, n := range []int{2, 8} {
		for _, denied := range []bool{false, true} {
			var rs []weir.Request
			for i := range n {
				l := weir.MustLimit("1000000/h")
				if i%2 == 1 {
					l = weir.MustLimit("1000000/24h fixed_window")
				}
				rs = append(rs, weir.Request{Key: keys[i], Limit: l, N: 1})
			}
			if denied {
				rs[n-1].N = rs[n-1].Limit.Capacity()
			}
			ds := make([]weir.Decision, n)
			ctx := context.Background()
			allocs := testing.AllocsPerRun(1000, func() {
				if ok, err := s.DoAll(ctx, rs, ds); ok == denied || err != nil {
					t.Fatalf("DoAll of %d = %t, %v, want %t", n, ok, err, !denied)
				}
			})
			if allocs != 0 && !racing {
				t.Errorf("DoAll of %d, denied %t: %v allocations, want 0", n, denied, allocs)
			}
		}
	}
}

// heap is the heap in use, once what can be collected is.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// TestBytesPerKey measures the memory of a million keys that owe.
func TestBytesPerKey(t *testing.T) {
	n := 1_000_000
	if racing {
		n /= 100
	}
	for _, tt := range []struct {
		limit string
		most  int64 // bytes per key
	}{
		{"1/24h", 36},
		{"1/24h fixed_window", 36},
	} {
		limit := weir.MustLimit(tt.limit)
		s := newStore(t, memstore.Config{})
		before := heap()
		for i := range n {
			take(t, s, "tenant-0042/user-"+strconv.Itoa(i), limit, 1)
		}
		per := (heap() - before) / int64(n)
		t.Logf("%s: %d bytes per key at %d keys", limit, per, s.Stats().Keys)
		if per > tt.most && !racing || s.Stats().Keys != n {
			t.Errorf("%s: %d bytes per key of %d keys, want at most %d of %d", limit, per, s.Stats().Keys, tt.most, n)
		}
	}
}

// BenchmarkMemory reports the same as TestBytesPerKey.
func BenchmarkMemory(b *testing.B) {
	limit := weir.MustLimit("1/24h")
	for b.Loop() {
		s := newStore(b, memstore.Config{MaxKeys: 2 << 20})
		before := heap()
		for i := range 1_000_000 {
			take(b, s, "tenant-0042/user-"+strconv.Itoa(i), limit, 1)
		}
		b.ReportMetric(float64(heap()-before)/1e6, "B/key")
		runtime.KeepAlive(s)
	}
}
