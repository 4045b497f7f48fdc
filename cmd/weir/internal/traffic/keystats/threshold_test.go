package keystats_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
	"github.com/floodweir/weir/internal/algo"
)

const seed = 7

// A trace has the arrivals of each key, in µs since the epoch.
type trace struct {
	from, until int64 // s
	keys        [][]int64
	limit       weir.Limit
}

// randomTrace returns 1 to 10 minutes of traffic by keys whose rates follow Zipf's law; some send
// bursts.
func randomTrace(rng *rand.Rand) *trace {
	length := 60 + rng.Int64N(520)
	tr := &trace{from: 1_700_000_000 + rng.Int64N(1000)}
	tr.until = tr.from + length
	keys := int(math.Exp(math.Log(80) + rng.Float64()*(math.Log(20_000)-math.Log(80))))
	requests := float64(keys) * (2 + 20*rng.Float64())
	exponent, bursty, size := 0.4+0.9*rng.Float64(), rng.Float64(), 1+rng.IntN(30)
	sum := 0.0
	for i := range keys {
		sum += math.Pow(float64(i+1), -exponent)
	}
	for i := range keys {
		mean := requests * math.Pow(float64(i+1), -exponent) / sum
		n := int(mean)
		if rng.Float64() < mean-float64(n) {
			n++
		}
		var at []int64
		each, width := 1, int64(1)
		if rng.Float64() < bursty {
			each, width = size, 1+rng.Int64N(3e6)
		}
		for len(at) < n {
			burst := tr.from*1e6 + rng.Int64N(length*1e6)
			for range min(each, n-len(at)) {
				at = append(at, min(burst+rng.Int64N(width), tr.until*1e6-1))
			}
		}
		slices.Sort(at)
		tr.keys = append(tr.keys, at)
	}
	count := 1 + rng.IntN(30)
	text := fmt.Sprintf("%d/%s", count, []string{"s", "10s", "m", "m", "m"}[rng.IntN(5)])
	text += []string{"", " burst 5", fmt.Sprint(" burst ", 1+rng.IntN(60)), " sliding_window", " fixed_window", " sliding_log"}[rng.IntN(6)]
	tr.limit = weir.MustLimit(text)
	return tr
}

// truth returns how many keys and requests the limit denies from a second on.
func (tr *trace) truth(from, until int64) (keys, requests, active uint64) {
	rule := tr.limit.Spec().Rule
	for _, at := range tr.keys {
		var state []int64
		denied, any := uint64(0), false
		for _, us := range at {
			if us < from*1e6 || us >= until*1e6 {
				continue
			}
			any = true
			var result algo.Result
			if state, result = rule.Do(state, algo.Ask{Now: us, N: 1}); !result.OK {
				denied++
			}
		}
		if any {
			active++
		}
		if denied > 0 {
			keys++
		}
		requests += denied
	}
	return keys, requests, active
}

// play sends a trace to a collector and returns the sample at its end. The requests of a key after
// the first admitted ones are denied.
func (tr *trace) play(admitted int) *keystats.Sample {
	c := keystats.NewCollector(seed, tr.from)
	next := make([]int, len(tr.keys))
	names := make([]string, len(tr.keys))
	for i := range names {
		names[i] = fmt.Sprintf("login|%d:%d", len(fmt.Sprint(i)), i)
	}
	for s := tr.from; s < tr.until; s++ {
		requests, denials := uint64(0), uint64(0)
		for i, at := range tr.keys {
			for ; next[i] < len(at) && at[next[i]] < (s+1)*1e6; next[i]++ {
				r := keystats.Record{Key: names[i], Hash: keystats.Hash(seed, names[i]), Weight: 1, Cost: 1, Denied: next[i] >= admitted}
				c.Add(&r)
				if requests++; r.Denied {
					denials++
				}
			}
		}
		c.EndSecond(s+1, requests, denials)
	}
	return c.Sample()
}

// TestThreshold checks that the intervals contain the truth in at least 95 % of random traces: 200
// if WEIR_LONG is set. The seed of a trace is its number.
func TestThreshold(t *testing.T) {
	traces := uint64(12)
	if os.Getenv("WEIR_LONG") != "" {
		traces = 200
	}
	outside, all := map[string]int{}, 0
	var widths []float64
	for number := range traces {
		tr := randomTrace(rand.New(rand.NewPCG(number, 0)))
		s := tr.play(5)
		from, until := s.Bounds()
		keys, requests, active := tr.truth(from, until)
		got, err := s.Threshold(tr.limit)
		if err != nil {
			t.Fatal(err)
		}
		if !got.Enough {
			if until-from >= 60 && active >= 60 {
				t.Errorf("seed %d: %d keys in %d s are not enough: %s", number, active, until-from, got.Reason)
			}
			continue
		}
		all++
		check := func(what string, r keystats.Range, want uint64) {
			if want < r.Low || want > r.High {
				outside[what]++
				t.Logf("seed %d, %v, %d keys, exact above %d: %s: got %v, truth %d", number, tr.limit, active, got.ExactAbove, what, r, want)
			}
		}
		check("keys", got.Keys, keys)
		check("requests", got.Requests, requests)
		check("all keys", got.KeysTotal, active)
		if requests > 0 {
			widths = append(widths, float64(got.Requests.High-got.Requests.Low)/float64(requests))
		}
	}
	slices.Sort(widths)
	t.Logf("%d traces, outside: %v, median width of requests %.2f of the truth", all, outside, widths[len(widths)/2])
	for what, n := range outside {
		if n > max(all*5/100, 1) {
			t.Errorf("%s: %d of %d intervals do not contain the truth, want at most 5 %%", what, n, all)
		}
	}
}
