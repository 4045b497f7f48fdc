package redismodel_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/e2e/simulate/redismodel"
	"github.com/floodweir/weir/internal/roundtrip"
	"github.com/floodweir/weir/redisstore"
)

// A gatedConn runs a round trip when the test lets it, and records how many commands it had.
type gatedConn struct {
	conn
	sent chan int
	run  chan struct{}
}

func (c *gatedConn) Do(ctx context.Context, cmds []redisstore.Command, replies []redisstore.Reply) {
	c.sent <- len(cmds)
	<-c.run
	c.conn.Do(ctx, cmds, replies)
}

// queued is closed when the request waits in the process.
type queued struct {
	once sync.Once
	done chan struct{}
}

func (q *queued) Queued()  { q.once.Do(func() { close(q.done) }) }
func (q *queued) Sent()    {}
func (q *queued) Replied() {}

// TestGroups checks that batches which share a run of the script are decided as if each had its
// own, one after the other. Each has a Peek, since Takes alone have another script: TestTakes.
func TestGroups(t *testing.T) {
	var now atomic.Int64
	now.Store(1_700_000_000_000_000)
	open := func(c redisstore.Conn) *redisstore.Store {
		s, err := redisstore.New(c, redisstore.Config{InFlight: 1, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	vm := redismodel.NewVM()
	gate := &gatedConn{conn: conn{server: redismodel.NewServer(vm, now.Load)}, sent: make(chan int), run: make(chan struct{})}
	together := open(gate)
	apart := open(&conn{server: redismodel.NewServer(vm, now.Load)})
	limits := []weir.Limit{weir.MustLimit("5/s burst 6"), weir.MustLimit("4/s"), weir.MustLimit("2 concurrency lease 1s")}
	verbs := []weir.Verb{weir.Take, weir.Take, weir.Take, weir.TakeUpTo, weir.Peek, weir.Charge, weir.Return, weir.Reserve}
	r := rand.New(rand.NewPCG(1, 2))
	denied := 0
	for round := range 400 {
		batches := make([][]weir.Request, 2+r.IntN(4))
		for i := range batches {
			for j := range 1 + r.IntN(3) {
				q := weir.Request{Verb: verbs[r.IntN(len(verbs))], Key: string(rune('a' + r.IntN(2))), Limit: limits[r.IntN(len(limits))], N: 1 + r.Int64N(3)}
				if q.Limit == limits[2] && (q.Verb == weir.Take || q.Verb == weir.TakeUpTo || q.Verb == weir.Charge || q.Verb == weir.Return) {
					q.Verb = weir.Peek // a slot has a holder
				}
				if q.Verb == weir.Reserve {
					q.N, q.ID, q.TTL = 1, fmt.Sprint(round, i, j), time.Second
				}
				batches[i] = append(batches[i], q)
			}
			batches[i] = append(batches[i], weir.Request{Verb: weir.Peek, Key: "a", Limit: limits[0], N: 1})
		}
		type result struct {
			ok  bool
			ds  []weir.Decision
			err string
		}
		do := func(ctx context.Context, s *redisstore.Store, rs []weir.Request) result {
			ds := make([]weir.Decision, len(rs))
			ok, err := s.DoAll(ctx, rs, ds)
			return result{ok, ds, fmt.Sprint(err)}
		}
		var wg sync.WaitGroup
		got := make([]result, len(batches))
		wg.Go(func() {
			if _, err := together.Do(t.Context(), weir.Request{Verb: weir.Peek, Key: "first", Limit: limits[0]}); err != nil {
				t.Error(err)
			}
		})
		<-gate.sent
		for i, rs := range batches {
			q := &queued{done: make(chan struct{})}
			wg.Go(func() { got[i] = do(context.WithValue(t.Context(), roundtrip.Key, q), together, rs) })
			<-q.done
		}
		gate.run <- struct{}{}
		if n := <-gate.sent; n != 1 {
			t.Fatalf("round %d: %d batches in %d commands, want 1", round, len(batches), n)
		}
		gate.run <- struct{}{}
		done := make(chan struct{})
		go func() { wg.Wait(); close(done) }()
		for open := true; open; { // a batch that has to declare more keys is sent again
			select {
			case <-gate.sent:
				gate.run <- struct{}{}
			case <-done:
				open = false
			}
		}
		for i, rs := range batches {
			if want := do(t.Context(), apart, rs); !reflect.DeepEqual(got[i], want) {
				t.Fatalf("round %d, batch %d of %d: %+v\ngot  %+v\nwant %+v", round, i, len(batches), rs, got[i], want)
			}
			if !got[i].ok {
				denied++
			}
		}
		now.Add(r.Int64N(600_000))
	}
	if denied < 100 {
		t.Errorf("%d batches denied, want more", denied)
	}
}
