package keystats_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
)

// steady returns the sample of keys that each send n requests in each second.
func steady(keys, seconds int, n func(key int) int, cost uint32) *keystats.Sample {
	const from = 1_700_000_040 // the start of a period
	c := keystats.NewCollector(seed, from)
	for s := range seconds {
		requests := 0
		for i := range keys {
			key := fmt.Sprintf("login|4:%04d", i)
			r := keystats.Record{Key: key, Hash: keystats.Hash(seed, key), Weight: 1, Cost: cost}
			for range n(i) {
				c.Add(&r)
				requests++
			}
		}
		c.EndSecond(int64(from+s+1), uint64(requests), 0)
	}
	return c.Sample()
}

// TestThresholdRefuses checks limits that cannot be estimated.
func TestThresholdRefuses(t *testing.T) {
	s := steady(60, 60, func(int) int { return 1 }, 1)
	for _, limit := range []weir.Limit{{}, weir.MustLimit("20 concurrency"), weir.MustLimit("100/s tenant_bucket burst 140 weighted tenant a tenants a:3:50,b:1:20")} {
		if _, err := s.Threshold(limit); !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Threshold(%s): %v, want ErrInvalid", limit, err)
		}
	}
}

// TestNotEnough checks the least traffic for an estimate.
func TestNotEnough(t *testing.T) {
	for _, tc := range []struct {
		keys, seconds int
		reason        string
	}{
		{50, 60, ""}, {1, 60, ""}, {50, 59, "got 59 s of traffic, want 60 s or more"}, {0, 0, "got 0 s"},
	} {
		got, err := steady(tc.keys, tc.seconds, func(int) int { return 1 }, 1).Threshold(weir.MustLimit("1/m"))
		if err != nil || got.Enough != (tc.reason == "") || !strings.HasPrefix(got.Reason, tc.reason) {
			t.Errorf("%d keys in %d s: %v, reason %q, want %q (%v)", tc.keys, tc.seconds, got.Enough, got.Reason, tc.reason, err)
		}
	}
}

// TestThresholdOfAll checks a limit that all clients share: it has one key.
func TestThresholdOfAll(t *testing.T) {
	all := steady(1, 60, func(int) int { return 20 }, 1)
	for limit, requests := range map[string][2]uint64{"1200/m": {0, 0}, "300/m": {600, 625}} {
		got, err := all.Threshold(weir.MustLimit(limit))
		if err != nil || !got.Enough || got.KeysTotal != (keystats.Range{Low: 1, High: 1}) || got.RequestsTotal != 1200 {
			t.Fatalf("%s: %v, %+v", limit, err, got)
		}
		if r := got.Requests; r.Low < requests[0] || r.High > requests[1] {
			t.Errorf("%s: requests %v, want within %v of 1200", limit, r, requests)
		}
	}
}

// TestExactThreshold checks estimates of so few keys that all are counted.
func TestExactThreshold(t *testing.T) {
	// 100 keys with 1 request per second, of which 10 have 5.
	n := func(key int) int { return 1 + 4*max(0, 1-key/10) }
	for _, tc := range []struct {
		limit    string
		cost     uint32
		keys     uint64
		requests [2]uint64
	}{
		{"1000/m", 1, 0, [2]uint64{0, 0}},
		{"120/m", 1, 10, [2]uint64{600, 650}},               // of 300 in the minute, 120 and up to 120 more pass
		{"1/m fixed_window", 1, 100, [2]uint64{8200, 8300}}, // of 8400, at most two windows of each key
		{"1000/m", 100, 100, [2]uint64{6000, 8400}},         // ten requests at once, and ten in a minute
		{"10/s", 11, 100, [2]uint64{8400, 8400}},            // the cost is above the capacity
	} {
		got, err := steady(100, 60, n, tc.cost).Threshold(weir.MustLimit(tc.limit))
		if err != nil || !got.Enough {
			t.Fatalf("%s: %v, %+v", tc.limit, err, got)
		}
		if want := (keystats.Range{Low: tc.keys, High: tc.keys}); got.Keys != want || got.ExactAbove != 0 || got.KeysTotal != (keystats.Range{Low: 100, High: 100}) {
			t.Errorf("%s: keys %v of %v, exact above %d, want %v of 100", tc.limit, got.Keys, got.KeysTotal, got.ExactAbove, want)
		}
		if r := got.Requests; r.Low < tc.requests[0] || r.High > tc.requests[1] || got.RequestsTotal != 8400 {
			t.Errorf("%s: requests %v of %d, want within %v of 8400", tc.limit, r, got.RequestsTotal, tc.requests)
		}
	}
	got, _ := steady(100, 60, n, 1).Threshold(weir.MustLimit("100/m"))
	want := []keystats.Bar{{From: 32, To: 64, Keys: 90}, {From: 64, To: 128}, {From: 128, To: 256}, {From: 256, To: 512, Keys: 10}}
	if fmt.Sprint(got.Histogram) != fmt.Sprint(want) {
		t.Errorf("histogram %v, want %v", got.Histogram, want)
	}
}

// TestCoverage checks that lost records lower the coverage and widen estimates upward.
func TestCoverage(t *testing.T) {
	c := keystats.NewCollector(seed, 1_700_000_040)
	for s := range 60 {
		for i := range 60 {
			key := fmt.Sprintf("login|2:%02d", i)
			c.Add(&keystats.Record{Key: key, Hash: keystats.Hash(seed, key), Weight: 1, Cost: 1})
			c.Lose()
		}
		c.EndSecond(int64(1_700_000_040+s+1), 120, 0)
	}
	got, err := c.Sample().Threshold(weir.MustLimit("1/m fixed_window"))
	if err != nil || math.Abs(got.Coverage-0.5) > 0.01 || got.Requests.High < 7000 || got.RequestsTotal != 7200 {
		t.Errorf("coverage %v, requests %v of %d, want half and up to 7,080 or more (%v)", got.Coverage, got.Requests, got.RequestsTotal, err)
	}
}
