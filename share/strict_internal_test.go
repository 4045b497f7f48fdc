//go:build !race

package share

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// TestStrictDecisions sends random requests for keys without shares to a row of a ledger and to a
// memory store: every decision is the same.
func TestStrictDecisions(t *testing.T) {
	for _, limit := range append([]string{"100/m", "700/day fixed_window calendar UTC"}, simulated...) {
		t.Run(limit, func(t *testing.T) {
			for seed := range uint64(5) {
				w := newWorld(seed, limit, 1, 0)
				w.ledgerDrift = 0
				node := w.nodes[0]
				node.c.threshold = 1e18 // never
				mem, err := memstore.New(memstore.Config{Clock: w.ledgerTime})
				if err != nil {
					t.Fatal(err)
				}
				span := w.rule.Horizon()
				for step := range 2000 {
					w.now += w.rand.Int64N(1 + w.rand.Int64N(1+span/20))
					r := randomRequest(w.rand, w.limit)
					o := &op{entry: node.entry, r: &r}
					node.exchange(o)
					want, err := mem.Do(t.Context(), r)
					if o.Err != nil || err != nil {
						t.Fatalf("seed %d, step %d: %v, %v", seed, step, o.Err, err)
					}
					if o.d != want {
						t.Fatalf("seed %d, step %d: %s %d = %+v, want %+v", seed, step, r.Verb, r.N, o.d, want)
					}
				}
			}
		})
	}
}

func randomRequest(r *rand.Rand, l weir.Limit) weir.Request {
	q := weir.Request{Verb: weir.Verb(r.IntN(6)), Key: "key", Limit: l, N: r.Int64N(l.Capacity() / 4)}
	if q.Verb == weir.Reset && r.IntN(20) > 0 || q.Verb == weir.Charge && r.IntN(3) > 0 {
		q.Verb = weir.Take
	}
	if r.IntN(30) == 0 {
		q.N = l.Capacity() + r.Int64N(3)
	}
	if q.Verb == weir.Reset {
		q.N = 0
	}
	return q
}

// exchange decides ops at once.
func (n *node) exchange(ops ...*op) {
	for t := newTrip(n.c, n.clock, ops); ; {
		names := t.names()
		if len(names) == 0 {
			return
		}
		rows := make([]Stored, len(names))
		now, err := n.w.ledger.Load(context.Background(), names, rows)
		for swaps := t.loaded(rows, now, err); len(swaps) > 0; {
			swaps = t.swapped(n.w.ledger.Swap(context.Background(), swaps))
		}
	}
}

// TestRowCodec checks that a row is what was encoded, and that damaged rows are errors.
func TestRowCodec(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		want := row{limit: fmt.Sprint(r.Int64(), "/s"), at: r.Int64(), closed: r.IntN(2) == 0}
		want.rest.Rate, want.rest.Size = r.Int64()-r.Int64(), r.Int64N(100)
		for range r.IntN(20) {
			want.rest.Words = append(want.rest.Words, r.Int64())
		}
		for range r.IntN(5) {
			h := holder{id: r.Uint64(), seq: r.Uint64N(1000), demand: r.Int64(), lease: r.Int64N(100), old: r.IntN(2) == 0}
			h.part.Rate, h.part.Size = r.Int64(), r.Int64()
			want.holders = append(want.holders, h)
		}
		data := want.encode()
		var got row
		if err := got.decode(data); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("decode = %+v, %v, want %+v", got, err, want)
		}
		for n := range data {
			if err := new(row).decode(data[:n]); err == nil {
				t.Fatalf("decode of %d of %d bytes = nil, want an error", n, len(data))
			}
		}
		if err := new(row).decode(append(data, 0)); err == nil {
			t.Error("decode of a row and one more byte = nil, want an error")
		}
	}
}

func FuzzRow(f *testing.F) {
	f.Add((&row{limit: "100/s", at: 5}).encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		var r row
		if r.decode(data) != nil {
			return
		}
		for _, limit := range simulated {
			d := newWorld(1, limit, 0, 0).d
			if _, in, err := r.open(d, 1_700_000_000_000_000, true); err == nil {
				r.keep(0)
				_ = r.rest.Level(1_700_000_000_000_000)
				_ = in
			}
		}
	})
}
