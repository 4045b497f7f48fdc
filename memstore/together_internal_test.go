//go:build !race

package memstore

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/floodweir/weir"
)

// TestTogetherIsTxn makes the same random requests of two stores with one clock. One decides Takes
// of words in place, and the other by transactions, because its requests carry the state of the zero
// Limit over. All decisions must be equal.
func TestTogetherIsTxn(t *testing.T) {
	limits := []weir.Limit{
		weir.MustLimit("3/s burst 7"), weir.MustLimit("1/s"), weir.MustLimit("1000/m"), weir.MustLimit("1024/m burst 2"),
		weir.MustLimit("5/s leaky_bucket burst 3 queue"), weir.MustLimit("5/s leaky_bucket burst 3"),
		weir.MustLimit("9/m fixed_window"), weir.MustLimit("3000/m fixed_window"),
		weir.MustLimit("9/m sliding_window"), weir.MustLimit("4/s").Named("n"),
	}
	ctx := context.Background()
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 19))
		now := int64(1_700_000_000_000_000)
		var stores [2]*Store
		for i := range stores {
			s, err := New(Config{Clock: func() int64 { return now }, MaxKeys: []int{80, 1000}[seed%2], Full: Full(seed / 2)})
			if err != nil {
				t.Fatal(err)
			}
			stores[i] = s
		}
		stores[1].hash = stores[0].hash // so that both have the same shards
		narrow := len(limits) - 2
		for step := range 5_000 {
			if r.IntN(3) == 0 {
				now += r.Int64N([]int64{2, 100_000, 3_000_000}[r.IntN(3)])
			}
			rs := make([]weir.Request, 1+r.IntN(2*fewTogether))
			for i := range rs {
				rs[i] = weir.Request{Key: "k" + strconv.Itoa(r.IntN(16)), Limit: limits[r.IntN(narrow)], N: r.Int64N(3)}
				if rs[i].Limit.Capacity() > 1000 {
					rs[i].N *= 300
				}
			}
			if q := &rs[r.IntN(len(rs))]; r.IntN(4) == 0 {
				q.Limit = limits[r.IntN(len(limits))]
				switch q.Verb = weir.Verb(r.IntN(int(weir.Cancel) + 1)); {
				case q.Limit.Algorithm() == "sliding_window" || q.Verb < weir.Reserve:
					q.Verb = min(q.Verb, weir.Reset)
				default:
					q.ID, q.TTL, q.N = strconv.Itoa(r.IntN(2)), time.Duration(1+r.IntN(2_000_000))*time.Microsecond, 1
				}
			}
			var oks [2]bool
			var errs [2]error
			ds := [2][]weir.Decision{make([]weir.Decision, len(rs)), make([]weir.Decision, len(rs))}
			for i, s := range stores {
				mine := slices.Clone(rs)
				if i == 1 {
					mine[0].From = []weir.Limit{{}}
				}
				oks[i], errs[i] = s.DoAll(ctx, mine, ds[i])
			}
			if (errs[0] == nil) != (errs[1] == nil) || errs[0] == nil && (oks[0] != oks[1] || !slices.Equal(ds[0], ds[1])) {
				t.Fatalf("seed %d, step %d: %v:\ngot  %v %v %v\nwant %v %v %v", seed, step, rs, oks[0], errs[0], ds[0], oks[1], errs[1], ds[1])
			}
		}
		if a, b := stores[0].Stats(), stores[1].Stats(); a != b {
			t.Errorf("seed %d: got %+v, want %+v", seed, a, b)
		}
	}
}

// TestTogetherLosesNoUpdate checks that no decision without the lock changes a word while a together
// decides on it: the together would overwrite it.
func TestTogetherLosesNoUpdate(t *testing.T) {
	k := newLoneKey(t, "")
	k.r.Limit = weir.MustLimit("10/1000h")
	k.hash = stateHash(k.s.hash.sum(k.r.Key), k.r.Limit)
	k.do(t, weir.Take, 0) // 9 are left
	tg := make(together, 1)
	if !tg.gatherFew(k.s, []weir.Request{k.r}) {
		t.Fatal("gatherFew = false, want true")
	}
	tg.lock(k.s, k.now)
	if !tg.pin() {
		t.Fatal("pin = false, want true")
	}
	var d weir.Decision
	if k.s.narrow(narrow(k.r.Limit), &k.r, k.hash, k.now, &d) {
		t.Errorf("%+v while a together decides on the key, want no decision", d)
	}
	tg.unlock()
	if d := k.do(t, weir.Take, 0); !d.OK || d.Remaining != 8 {
		t.Errorf("afterwards %+v, want 8 remaining", d)
	}
}
