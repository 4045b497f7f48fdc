package memstore_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
)

// A plan describes how a history is made.
type plan struct {
	name    string
	limits  [2]string
	steps   int64 // the clock goes on by less than so many µs whenever it is read
	maxKeys int
	noise   int // keys that come beside the two, so that tables move
	verbs   []weir.Verb
}

var (
	tokens  = []weir.Verb{weir.Take, weir.Take, weir.Take, weir.TakeUpTo, weir.Return, weir.Charge, weir.Peek, weir.Reset}
	anyVerb = append([]weir.Verb{weir.Reserve, weir.Reserve, weir.Reserve, weir.Commit, weir.Cancel}, tokens...)
	plans   = []plan{
		{"frozen", [2]string{"3/30µs", "2/30µs"}, 1, 64, 8, tokens},
		{"advancing", [2]string{"3/30µs", "3/70µs"}, 5, 64, 8, tokens},
		{"wide", [2]string{"3/30µs", "3/70µs fixed_window"}, 5, 64, 8, tokens},
		{"swept", [2]string{"3/6µs", "3/7µs"}, 5, 3, 8, tokens},
		{"reserved", [2]string{"3/30µs", "3/7µs fixed_window"}, 5, 64, 8, anyVerb},
		{"reserved and swept", [2]string{"3/6µs", "3/30µs"}, 5, 6, 8, anyVerb},
	}
)

// make makes a history against the store that open opens on a clock.
func (p *plan) make(tb testing.TB, r *rand.Rand, open func(clock func() int64) weir.Store) *history {
	var now, order, reads atomic.Int64
	now.Store(begin)
	s := open(func() int64 { return now.Add(reads.Add(1) * 0x9e37 >> 8 % p.steps) })
	h := &history{limits: [2]weir.Limit{weir.MustLimit(p.limits[0]), weir.MustLimit(p.limits[1])}}
	askers := 4 + r.IntN(3)
	each := 2
	for range askers * each {
		h.ops = append(h.ops, p.op(r, h))
	}
	var ready atomic.Int64
	var wg sync.WaitGroup
	for a := range askers + 1 {
		wg.Go(func() {
			for ready.Add(1); ready.Load() <= int64(askers); { // begin together
				runtime.Gosched()
			}
			if a == askers {
				p.disturb(s)
				return
			}
			for i := range each {
				o := &h.ops[a*each+i]
				o.from, o.began = now.Load(), order.Add(1)
				o.ask(s)
				o.ended, o.to = order.Add(1), now.Load()
			}
		})
	}
	wg.Wait()
	return h
}

// op makes up a call.
func (p *plan) op(r *rand.Rand, h *history) (o op) {
	for range 1 + r.IntN(3)/2 {
		k := r.IntN(2)
		q := weir.Request{Verb: p.verbs[r.IntN(len(p.verbs))], Key: "k" + strconv.Itoa(k), Limit: h.limits[k], N: r.Int64N(5)}
		switch q.Verb {
		case weir.Reserve:
			q.N, q.ID, q.TTL = max(1, q.N), "id", time.Duration(1+r.IntN(20))*time.Microsecond
		case weir.Commit:
			q.ID = "id"
		case weir.Cancel:
			q.N, q.ID = 0, "id"
		}
		o.rs, o.keys = append(o.rs, q), append(o.keys, k)
	}
	o.ds = make([]weir.Decision, len(o.rs))
	return o
}

func (o *op) ask(s weir.Store) {
	if len(o.rs) > 1 {
		o.ok, o.err = s.DoAll(context.Background(), o.rs, o.ds)
		return
	}
	o.ds[0], o.err = s.Do(context.Background(), o.rs[0])
	o.ok = o.ds[0].OK
}

var (
	fleeting   = [2]weir.Limit{weir.MustLimit("1/µs"), weir.MustLimit("1/µs fixed_window")}
	noiseNames = keysOf(16)
)

func (p *plan) disturb(s weir.Store) {
	for i := range p.noise {
		_, _ = s.Do(context.Background(), weir.Request{Key: noiseNames[i], Limit: fleeting[i&1], N: 1})
	}
}

// TestLinearizable checks that whatever some goroutines ask at the same time is answered
// as if they had come one after the other.
func TestLinearizable(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	each := 1500
	if racing {
		each = 100
	}
	histories, overlaps := 0, 0
	for i, p := range plans {
		for _, procs := range []int{1, 2, 3, 8} {
			runtime.GOMAXPROCS(procs)
			r := rand.New(rand.NewPCG(uint64(i), uint64(procs)))
			for range each {
				h := p.make(t, r, func(clock func() int64) weir.Store {
					s, err := memstore.New(memstore.Config{MaxKeys: p.maxKeys, Clock: clock})
					if err != nil {
						t.Fatal(err)
					}
					return s
				})
				histories++
				overlaps += h.overlaps()
				if !h.linear() {
					t.Fatalf("%s, %d threads: no order explains this:\n%s", p.name, procs, h)
				}
			}
		}
	}
	t.Logf("%d histories, in which %d calls overlapped the one before", histories, overlaps)
}

// overlaps counts the calls that began before another had ended that began
// before them.
func (h *history) overlaps() (n int) {
	for i := range h.ops {
		for j := range h.ops {
			if a, b := &h.ops[i], &h.ops[j]; a.began < b.began && b.began < a.ended {
				n++
				break
			}
		}
	}
	return n
}

// TestLinearizableCanFail asks stores that are wrong on purpose.
func TestLinearizableCanFail(t *testing.T) {
	for name, broken := range map[string]func(weir.Store) weir.Store{
		"a batch that is not atomic": func(s weir.Store) weir.Store { return torn{s} },
		"a lost update":              func(s weir.Store) weir.Store { return &lost{Store: s} },
	} {
		r := rand.New(rand.NewPCG(1, 2))
		found := 0
		for n := range 20_000 {
			h := plans[n%3].make(t, r, func(clock func() int64) weir.Store {
				s, _ := memstore.New(memstore.Config{MaxKeys: 64, Clock: clock})
				return broken(s)
			})
			if !h.linear() {
				found++
				break
			}
		}
		if found == 0 {
			t.Errorf("%s: every history was explained", name)
		}
	}
}

// torn decides a batch one request after the other, and gives back what it took
// if one is denied.
type torn struct{ weir.Store }

func (s torn) DoAll(ctx context.Context, rs []weir.Request, ds []weir.Decision) (all bool, err error) {
	all = true
	for i := range rs {
		runtime.Gosched()
		if ds[i], err = s.Do(ctx, rs[i]); err != nil {
			return false, err
		}
		all = all && ds[i].OK
	}
	for i := range rs {
		if !all && ds[i].OK && rs[i].Verb <= weir.TakeUpTo {
			_, _ = s.Do(ctx, weir.Request{Verb: weir.Return, Key: rs[i].Key, Limit: rs[i].Limit, N: ds[i].Granted})
		}
	}
	return all, nil
}

// lost looks first and charges then.
type lost struct{ weir.Store }

func (s *lost) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	if r.Verb != weir.Take {
		return s.Store.Do(ctx, r)
	}
	r.Verb = weir.Peek
	d, err := s.Store.Do(ctx, r)
	runtime.Gosched()
	if err == nil && d.OK {
		r.Verb = weir.Charge
		return s.Store.Do(ctx, r)
	}
	return d, err
}
