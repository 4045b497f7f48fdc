package traffic_test

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// heap returns the bytes in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // the first returns what sync.Pool keeps
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestMemory checks that new denied keys in each second, for ten minutes and in more policies than
// have keys, stay within the memory for keys. There are 100 keys/s, or 10,000 if WEIR_LONG is set.
func TestMemory(t *testing.T) {
	perSecond := 100
	if os.Getenv("WEIR_LONG") != "" {
		perSecond = 10_000
	}
	now := time.Unix(1_700_000_000, 0)
	r := traffic.New(traffic.Config{Now: func() time.Time { return now }})
	var policies []*policy.Policy
	for i := range 20 {
		p := named(t, fmt.Sprint("p", i))
		policies = append(policies, p)
		r.Observe(enforce.Event{Policy: p, Outcome: enforce.Held})
	}
	before := heap()
	with := 0
	for s := range 600 {
		if s%60 == 0 { // a view of more policies than have keys discards the keys of others
			for _, p := range policies {
				r.View(p.Name())
			}
		}
		for i := range perSecond {
			p := policies[i%len(policies)]
			r.Observe(enforce.Event{Policy: p, Outcome: enforce.Denied, Key: p.Name() + "|8:" + strconv.Itoa(10_000_000+s*perSecond+i), Cost: 1})
			if i%1000 == 0 {
				r.Collect(now)
			}
		}
		now = now.Add(time.Second)
		r.Collect(now)
	}
	used := heap() - before
	for _, p := range policies {
		if s := r.Sample(p.Name()); s != nil {
			with++
			if size := len(s.Encode()); size > 64<<10 {
				t.Errorf("%s: a sample of %d bytes, want at most 64 KiB", p.Name(), size)
			}
		}
	}
	t.Logf("%d policies with keys, %.1f MB", with, float64(used)/1e6)
	if with != 16 || used > 48e6 {
		t.Errorf("%d policies with keys use %d bytes, want 16 and at most 48 MB", with, used)
	}
	runtime.KeepAlive(r)
}

// TestViews checks which policies have keys: the four busiest, and those viewed in the last 15
// minutes.
func TestViews(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := traffic.New(traffic.Config{Now: func() time.Time { return now }})
	var policies []*policy.Policy
	for i := range 8 {
		policies = append(policies, named(t, fmt.Sprint("p", i)))
	}
	pass := func(seconds, busy int) {
		for range seconds {
			for i, p := range policies {
				for range 1 + 9*min(1, max(0, i-busy+1)) { // from busy on they have the most requests
					r.Observe(enforce.Event{Policy: p, Outcome: enforce.Admitted, Key: p.Name() + "|1:a", Cost: 1})
				}
			}
			now = now.Add(time.Second)
			r.Collect(now)
		}
	}
	check := func(when string, want ...bool) {
		t.Helper()
		for i, p := range policies {
			if got := r.Sample(p.Name()) != nil; got != want[i] {
				t.Errorf("%s: policy %d has keys: %v, want %v", when, i, got, want[i])
			}
		}
	}
	pass(300, 4)
	check("the busiest", false, false, false, false, true, true, true, true)
	r.View("p0")
	pass(10, 4)
	check("viewed", true, false, false, false, true, true, true, true)
	pass(14*60, 4)
	check("14 minutes later", true, false, false, false, true, true, true, true)
	pass(60, 4)
	check("15 minutes later", false, false, false, false, true, true, true, true)
	if r.Sample("unknown") != nil {
		t.Error("an unknown policy has keys")
	}
}

// TestThin checks that the sketches get at most 100,000 requests per second, with about the same
// counts, and that keys of the sample are complete.
func TestThin(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := traffic.New(traffic.Config{Seed: 1, Now: func() time.Time { return now }})
	p := named(t, "login")
	r.Observe(enforce.Event{Policy: p, Outcome: enforce.Held})
	r.View("login")
	const perSlot, slots, keys = 50_000, 20, 5000 // 500,000 per second
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprintf("login|4:%04d", i)
	}
	sent := 0
	for range slots {
		for range perSlot {
			name := names[0] // has half of the requests
			if sent%2 == 1 {
				name = names[1+sent/2%(keys-1)]
			}
			r.Observe(enforce.Event{Policy: p, Outcome: enforce.Admitted, Key: name, Cost: 1})
			if sent++; sent%1000 == 0 {
				r.Drain()
			}
		}
		now = now.Add(100 * time.Millisecond)
		r.Collect(now)
	}
	s := r.Sample("login")
	k := s.Keys(p, 1)
	if k.OneIn < 4 || k.Coverage != 1 || len(k.Requests) != 1 {
		t.Fatalf("one in %d, coverage %v, want one in 4 or more without loss", k.OneIn, k.Coverage)
	}
	top := k.Requests[0]
	if top.Values[0] != "0000" || float64(top.Count) < 0.45*float64(sent) || float64(top.Count-top.Error) > 0.55*float64(sent) {
		t.Errorf("the top key is %+v, want 0000 with about %d", top, sent/2)
	}
	complete, partial := 0, 0
	for i := 1; i < keys; i++ {
		_, steps, ok := s.History(1, names[i])
		if !ok {
			continue
		}
		sum := uint64(0)
		for _, n := range steps {
			sum += n.Requests
		}
		if want := uint64(sent / 2 / (keys - 1)); sum < want || sum > want+1 {
			partial++ // only among the keys with most requests
		} else {
			complete++
		}
	}
	if complete < 500 || partial > 64 {
		t.Errorf("%d sampled keys have all requests and %d have not, want 500 or more and at most 64", complete, partial)
	}
}

// TestAllocations checks that Observe allocates nothing, with and without keys.
func TestAllocations(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := traffic.New(traffic.Config{Now: func() time.Time { return now }})
	p := named(t, "login")
	e := enforce.Event{Policy: p, Outcome: enforce.Denied, Key: "login|1:a", Cost: 1, Took: time.Microsecond}
	for _, keys := range []bool{false, true} {
		r.Observe(e)
		if n := testing.AllocsPerRun(1000, func() { r.Observe(e) }); n != 0 {
			t.Errorf("keys %v: Observe allocates %v times, want 0", keys, n)
		}
		r.View("login")
	}
}

// TestLost checks that records that find no room lower the coverage, and that no counter lacks them.
func TestLost(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	r := traffic.New(traffic.Config{Now: func() time.Time { return now }})
	p := named(t, "login")
	r.Observe(enforce.Event{Policy: p, Outcome: enforce.Held})
	r.View("login")
	const sent = 200_000 // more than all buffers hold
	for range sent {
		r.Observe(enforce.Event{Policy: p, Outcome: enforce.Admitted, Key: "login|1:a", Cost: 1})
	}
	now = now.Add(time.Second)
	r.Collect(now)
	k := r.Sample("login").Keys(p, 1)
	rows := r.History().Series("login", time.Time{}).Rows
	if len(rows) != 1 || rows[0].Counts[traffic.Admitted] != sent {
		t.Errorf("rows %v, want %d admitted", rows, sent)
	}
	if want := float64(k.Requests[0].Count) / sent; math.Abs(k.Coverage-want) > 1e-9 || want > 0.5 {
		t.Errorf("coverage %v with %d requests, want %v", k.Coverage, k.Requests[0].Count, want)
	}
}
