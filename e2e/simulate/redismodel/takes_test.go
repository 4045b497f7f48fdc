package redismodel_test

import (
	"context"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/simulate/redismodel"
	"github.com/floodweir/weir/internal/roundtrip"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/redisstore"
)

// TestTakes checks that concurrent Takes and batches of Takes are decided as package memstore
// decides them one after the other. They share one command. Some are equal, and one limit changes.
// Requests of another kind are in the same batches, for keys of their own: a sliding window, and two
// Takes of one state together.
func TestTakes(t *testing.T) {
	start := int64(1_700_000_000_000_000)
	var now atomic.Int64
	now.Store(start)
	vm := redismodel.NewVM()
	gate := &gatedConn{conn: conn{server: redismodel.NewServer(vm, now.Load)}, sent: make(chan int), run: make(chan struct{})}
	store, err := redisstore.New(gate, redisstore.Config{InFlight: 1, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	reference, err := memstore.New(memstore.Config{Clock: now.Load})
	if err != nil {
		t.Fatal(err)
	}
	defer reference.Close()
	plain := []weir.Limit{weir.MustLimit("5/s burst 6"), weir.MustLimit("7/s burst 9"), weir.MustLimit("1000003/24h burst 5"), weir.MustLimit("6/s fixed_window anchor epoch"), weir.MustLimit("8/3s fixed_window anchor epoch"), weir.MustLimit("9/2s fixed_window")}
	others := weir.MustLimit("8/s sliding_window")
	change := []weir.Limit{weir.MustLimit("5/s burst 6").Named("x"), weir.MustLimit("7/s burst 4").Named("x")}
	r := rand.New(rand.NewPCG(3, 4))
	type result struct {
		ds  []weir.Decision
		ok  bool
		err error
	}
	do := func(ctx context.Context, s weir.Store, rs []weir.Request) result {
		ds := make([]weir.Decision, len(rs))
		if len(rs) == 1 {
			d, err := s.Do(ctx, rs[0])
			return result{[]weir.Decision{d}, d.OK, err}
		}
		ok, err := s.DoAll(ctx, rs, ds)
		return result{ds, ok, err}
	}
	denied, commands := 0, 0
	for round := range 7200 {
		calls := make([][]weir.Request, 1+r.IntN(12))
		if round%4 < 2 { // alone, also at the end of a window
			calls = calls[:1]
		}
		for i := range calls {
			n := 1 + r.Int64N(2)
			q := weir.Request{Key: string(rune('a' + r.IntN(2))), Limit: plain[r.IntN(len(plain))], N: n}
			switch r.IntN(12) {
			case 0, 1: // a batch over two states
				next := q
				next.Limit = plain[r.IntN(len(plain))]
				if next.Key = "b"; q.Key == "b" {
					next.Key = "a"
				}
				calls[i] = []weir.Request{q, next}
				continue
			case 2:
				q.Limit = change[round/10%2]
			case 6:
				if len(calls) == 1 { // several would have an order
					q.Limit = change[r.IntN(2)]
				}
			case 3:
				q.N = 7 + r.Int64N(1<<50)
			case 4:
				q.Key, q.Limit = "c", others
			case 5:
				q.Key = "d"
				calls[i] = []weir.Request{q, q}
				continue
			}
			calls[i] = []weir.Request{q}
		}
		results := make([]result, len(calls))
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = store.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "first", Limit: plain[0]}) })
		<-gate.sent
		for i, rs := range calls {
			q := &queued{done: make(chan struct{})}
			wg.Go(func() { results[i] = do(context.WithValue(t.Context(), roundtrip.Key, q), store, rs) })
			<-q.done
		}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		gate.run <- struct{}{}
		for open := true; open; {
			select {
			case <-gate.sent:
				commands++
				gate.run <- struct{}{}
			case <-done:
				open = false
			}
		}
		for i, rs := range calls {
			want := do(t.Context(), reference, rs)
			if !reflect.DeepEqual(results[i], want) {
				t.Fatalf("round %d, call %d of %d: %+v\ngot  %+v\nwant %+v", round, i, len(calls), rs, results[i], want)
			}
			if !want.ok {
				denied++
			}
		}
		now.Add(r.Int64N(900_000))
		if round%4 == 0 { // the end of a window
			now.Store((now.Load()/1_000_000 + 1) * 1_000_000)
		}
	}
	if denied < 2100 || commands > 8100 {
		t.Errorf("%d denied in %d commands, want at least 2100 in at most 8100", denied, commands)
	}
}
