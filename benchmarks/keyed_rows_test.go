package benchmarks

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/didip/tollbooth/v8"
	ulule "github.com/ulule/limiter/v3"
	ululemem "github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/benchmarks/compare"
	weirmem "github.com/floodweir/weir/memstore"
)

// morePeers are the keyed peers of the rows that localKeyedPeers does not have.
var morePeers = []peer{
	{"ulule", func(_ testing.TB, perSecond int) func(string) bool {
		l := ulule.New(ululemem.NewStore(), ulule.Rate{Period: time.Second, Limit: int64(perSecond)})
		ctx := context.Background()
		return func(key string) bool {
			c, err := l.Get(ctx, key)
			if err != nil {
				panic(err)
			}
			return !c.Reached
		}
	}},
	{"tollbooth", func(_ testing.TB, perSecond int) func(string) bool {
		l := tollbooth.NewLimiter(float64(perSecond), nil).SetBurst(perSecond)
		return func(key string) bool { return !l.LimitReached(key) }
	}},
}

// hashing is no limiter, but what every keyed one does first: it reads the key and the clock.
var hashing = peer{"hash and clock", func(testing.TB, int) func(string) bool {
	seed, began := maphash.MakeSeed(), time.Now()
	return func(key string) bool { return maphash.String(seed, key) != 0 && time.Since(began) >= 0 }
}}

// A keyedLoad is a number of keys, and the order in which they are asked for.
type keyedLoad struct {
	name, title string
	keys        int
	perSecond   int
	zipf        bool
	goals       []compare.Goal
}

func keyedRows() (rows []compare.Row) {
	goals := func(more ...compare.Goal) []compare.Goal {
		all := []compare.Goal{{Contender: "floor", Column: "cpu", Least: 1 / 1.3}}
		for _, p := range []string{"x-time-rate-in-a-map", "go-limiter", "go-limiter-1h", "throttled", "ulule", "tollbooth"} {
			all = append(all, compare.Goal{Contender: p, Column: "cpu", Least: 2})
		}
		return append(all, more...)
	}
	for _, l := range []keyedLoad{
		{"keyed/hot", "one key", 1, 1_000_000, false, nil},
		{"keyed/uniform", "100,000 keys, uniform", 100_000, 1_000_000, false, goals()},
		{"keyed/zipf", "1,000,000 keys, zipf with s = 1.1", 1_000_000, 1_000_000, true, goals()},
		{"keyed/denied", "100,000 keys, denied", 100_000, 1, false, nil},
	} {
		rows = append(rows, l.row())
	}
	return rows
}

func (l keyedLoad) row() compare.Row {
	row := compare.Row{Name: l.name, Title: l.title, Base: "weir/AllowKey", Columns: local, Goals: l.goals}
	for _, p := range slices.Concat([]peer{hashing}, localKeyedPeers, morePeers) {
		row.Contenders = append(row.Contenders, compare.Contender{Name: p.name, Open: func(t testing.TB) compare.Measure {
			return l.measure(p.open(t, l.perSecond))
		}})
	}
	return row
}

// measure creates every key, then asks in an order drawn before.
func (l keyedLoad) measure(take func(string) bool) compare.Measure {
	keys := names(l.keys)
	order := draws(l.keys, l.zipf)
	for _, k := range keys {
		take(k)
	}
	at := 0
	return repeat(1, func(n int) {
		for range n {
			take(keys[order[at]])
			if at++; at == len(order) {
				at = 0
			}
		}
	})
}

func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("tenant-0042/user-%08d", i)
	}
	return keys
}

// draws returns the numbers of a million keys in random order.
func draws(keys int, zipf bool) []uint32 {
	r := rand.New(rand.NewPCG(1, 2))
	z := rand.NewZipf(r, 1.1, 1, uint64(keys-1))
	order := make([]uint32, 1<<20)
	for i := range order {
		if zipf {
			order[i] = uint32(z.Uint64())
		} else {
			order[i] = uint32(r.IntN(keys))
		}
	}
	return order
}

// memoryRows fill a new limiter with a million keys in each round. Each key is a string of its
// own, as a request brings it.
func memoryRows() []compare.Row {
	row := compare.Row{
		Name: "memory/1M", Title: "memory with 1,000,000 keys in use", Base: "weir", Shortest: time.Second,
		Columns: []compare.Column{{Name: "bytes", Head: "B/key", Ratio: true}, {Name: "gc", Head: "CPU ms of a collection", Ratio: true}, {Name: "fill", Head: "CPU ns to add a key", Ratio: true}},
	}
	windows := compare.Row{
		Name: "memory/windows", Title: row.Title + ", other algorithms", Base: "weir, fixed_window", Columns: row.Columns, Shortest: row.Shortest,
		Goals: []compare.Goal{{Column: "bytes", Most: 48}},
	}
	row.Contenders = append(row.Contenders, filling("weir", func(t testing.TB) func(string) bool { return weirTake(t, "100/h") })) // a key that is full again is forgotten
	for _, p := range slices.Concat(localKeyedPeers, morePeers) {
		if !strings.HasPrefix(p.name, "weir") {
			row.Contenders = append(row.Contenders, filling(p.name, func(t testing.TB) func(string) bool { return p.open(t, 1000) }))
		}
	}
	for _, algorithm := range []string{"fixed_window", "sliding_window", "token_bucket"} {
		windows.Contenders = append(windows.Contenders, filling("weir, "+algorithm, func(t testing.TB) func(string) bool {
			return weirTake(t, "100/h "+algorithm)
		}))
	}
	return []compare.Row{row, windows}
}

func weirTake(t testing.TB, limits ...string) func(string) bool {
	store, err := weirmem.New(weirmem.Config{MaxKeys: 16 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return takeAll(t, store, limits...)
}

// takeAll returns a function that takes one token of each limit, all or nothing.
func takeAll(t testing.TB, store weir.Store, limits ...string) func(string) bool {
	t.Helper()
	ctx := context.Background()
	var all []*weir.Limiter
	for _, text := range limits {
		l, err := weir.New(store, weir.MustLimit(text), weir.Config{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	if len(all) == 1 {
		return func(key string) bool {
			d, err := all[0].Take(ctx, key, 1)
			if err != nil {
				panic(err)
			}
			return d.OK
		}
	}
	return func(key string) bool {
		var few [16]weir.Request
		rs := few[:0]
		for _, l := range all {
			r, err := l.Request(ctx, key, 1)
			if err != nil {
				panic(err)
			}
			rs = append(rs, r)
		}
		d, err := weir.TakeAll(ctx, store, rs...)
		if err != nil {
			panic(err)
		}
		return d.OK
	}
}

func filling(name string, open func(t testing.TB) func(string) bool) compare.Contender {
	return compare.Contender{Name: name, Open: func(testing.TB) compare.Measure {
		return func(t testing.TB, _ time.Duration) compare.Sample { return fill(t, open, 1_000_000) }
	}}
}

func fill(t testing.TB, open func(t testing.TB) func(string) bool, keys int) compare.Sample {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	take := open(t)
	began := own(t)
	for i := range keys {
		take(fmt.Sprintf("tenant-0042/user-%08d", i))
	}
	filled := own(t) - began
	runtime.GC()
	runtime.ReadMemStats(&after)
	began = own(t)
	runtime.GC()
	gc := own(t) - began
	take("tenant-0042/user-00000000") // keep it until here
	return compare.Sample{
		"bytes": float64(int64(after.HeapInuse)-int64(before.HeapInuse)) / float64(keys),
		"gc":    gc / 1e6, "fill": filled / float64(keys),
	}
}
