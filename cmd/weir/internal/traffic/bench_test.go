package traffic_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// running returns a recorder that collects until the end of b.
func running(b *testing.B) *traffic.Recorder {
	r := traffic.New(traffic.Config{})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { r.Run(ctx); close(done) }()
	b.Cleanup(func() { stop(); <-done })
	return r
}

// events returns events of many keys, of which one in four is denied.
func events(p *policy.Policy) []enforce.Event {
	all := make([]enforce.Event, 1<<12)
	for i := range all {
		all[i] = enforce.Event{Policy: p, Outcome: enforce.Admitted, Key: fmt.Sprintf("login|11:192.0.2.%03d", i%1000), Cost: 1, Took: time.Microsecond, Decision: weir.Decision{OK: true}}
		if i%4 == 0 {
			all[i].Outcome = enforce.Denied
		}
	}
	return all
}

// BenchmarkObserve measures Observe with and without the keys of its policy.
func BenchmarkObserve(b *testing.B) {
	p := named(b, "login")
	all := events(p)
	for _, keys := range []bool{false, true} {
		start := func(b *testing.B) *traffic.Recorder {
			r := running(b)
			r.Observe(enforce.Event{Policy: p, Outcome: enforce.Held})
			if keys {
				r.View("login")
			}
			b.ReportAllocs()
			return r
		}
		b.Run(fmt.Sprintf("keys=%v/serial", keys), func(b *testing.B) {
			r := start(b)
			i := 0
			for b.Loop() {
				i++
				r.Observe(all[i%len(all)])
			}
		})
		b.Run(fmt.Sprintf("keys=%v/parallel", keys), func(b *testing.B) {
			r := start(b)
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for i := int(next.Add(997)); pb.Next(); i++ {
					r.Observe(all[i%len(all)])
				}
			})
		})
	}
}

// BenchmarkDecision measures a decision of the memory store through package enforce, with and
// without Observe.
func BenchmarkDecision(b *testing.B) {
	p, err := policy.New(policy.Config{Name: "login", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("100/m")}})
	if err != nil {
		b.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		b.Fatal(err)
	}
	requests := make([]addressed, 1<<12)
	for i := range requests {
		requests[i].addr = netip.MustParseAddr(fmt.Sprintf("192.0.%d.%d", i/250, i%250))
	}
	for _, observe := range []bool{false, true} {
		b.Run(fmt.Sprintf("observe=%v", observe), func(b *testing.B) {
			var c enforce.Config
			if observe {
				r := running(b)
				r.Observe(enforce.Event{Policy: p, Outcome: enforce.Held})
				r.View("login")
				c.Observe = func(_ context.Context, _ policy.Attributes, e enforce.Event) { r.Observe(e) }
			}
			e, err := enforce.New(newStore(b), set, c)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				var a enforce.Admission
				for i := int(next.Add(997)); pb.Next(); i++ {
					e.Enter(b.Context(), &requests[i%len(requests)], &a)
				}
			})
		})
	}
}

type addressed struct {
	request
	addr netip.Addr
}

func (a *addressed) ClientIP() netip.Addr { return a.addr }
