package rlqs_test

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"github.com/floodweir/weir/cmd/weir/internal/rlqs"
)

// Test22 checks that many ids (a million with WEIR_LONG), huge counters and slow readers use bounded memory.
func Test22Bounds(t *testing.T) {
	t.Run("ids", func(t *testing.T) {
		inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
			m := w.serve()
			s := w.open(m)
			go func() { // a response for each report
				for {
					if _, err := s.Recv(); err != nil {
						return
					}
				}
			}()
			before := heap()
			const each = 1000
			ids := 200_000
			if os.Getenv("WEIR_LONG") != "" {
				ids = 1_000_000
			}
			all := make([]*pb.RateLimitQuotaUsageReports_BucketQuotaUsage, each)
			for i := 0; i < ids; i += each {
				for j := range all {
					all[j] = usage(fmt.Sprintf("user=%d", i+j), 1<<63, 1<<63)
				}
				s.report(domain, all...)
			}
			rlqs.Pass(time.Second)
			if got := m.rlqs.Stats().Buckets; got != rlqs.MaxBuckets {
				t.Errorf("%d buckets after %d ids, want %d", got, ids, rlqs.MaxBuckets)
			}
			if n := w.actions()[rlqs.Denied]; n < ids-rlqs.MaxBuckets {
				t.Errorf("events %v: want %d denied for lack of room", w.actions(), ids-rlqs.MaxBuckets)
			}
			if n := heap() - before; n > 64<<20 {
				t.Errorf("%d MB of memory for %d ids, want at most 64", n>>20, ids)
			}
		})
	})
	t.Run("slow reader", func(t *testing.T) {
		inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
			m := w.serve()
			s := w.open(m)
			var sent atomic.Int64
			go func() { // each report has a response of 4 kB, which is not read
				for s.Send(&pb.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
					usage(fmt.Sprintf("unknown=%d%s", sent.Load(), strings.Repeat("x", rlqs.MaxText-10)), 0, 1)}}) == nil {
					sent.Add(1)
				}
			}()
			rlqs.Pass(rlqs.Delivery - time.Second)
			if got := m.rlqs.Stats(); got.Streams != 1 || got.Buckets > 200 || got.Buckets < sent.Load()-200 {
				t.Errorf("%+v for %d reports without a reader, want one stream and at most 200 buckets", got, sent.Load())
			}
			rlqs.Pass(2 * time.Second)
			if got := m.rlqs.Stats(); got.Streams != 0 || got.Buckets != 0 {
				t.Errorf("%v later: %+v, want the stream to end", rlqs.Delivery, got)
			}
		})
	})
	t.Run("streams", func(t *testing.T) {
		inWorld(t, "1000/s burst 5000", rlqs.Config{}, func(t *testing.T, w *world) {
			m := w.serve()
			for range 12 {
				s := w.open(m)
				for i := 0; i < rlqs.MaxBuckets; i += 1000 {
					var all []*pb.RateLimitQuotaUsageReports_BucketQuotaUsage
					for j := range 1000 {
						all = append(all, usage(fmt.Sprintf("unknown=%d", i+j), 0, 1))
					}
					s.report(domain, all...)
					for n := 0; n < len(all); n += len(s.next()) {
					}
				}
			}
			if got := m.rlqs.Stats().Buckets; got != 100_000 {
				t.Errorf("%d buckets of 12 streams, want 100000", got)
			}
		})
	})
}

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
