package benchmarks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/share"
)

// A farLedger is a ledger whose calls take a time, until it is cut off.
type farLedger struct {
	share.Ledger
	takes time.Duration
	mute  bool // a Swap does not report the rows that it has found
	cut   atomic.Bool
	calls *atomic.Int64
}

func (f *farLedger) call(do func() error) error {
	f.calls.Add(1)
	<-time.After(f.takes / 2)
	err := weir.ErrUnavailable
	if !f.cut.Load() {
		err = do()
	}
	<-time.After(f.takes / 2)
	return err
}

func (f *farLedger) Load(ctx context.Context, names []string, rows []share.Stored) (now time.Time, err error) {
	err = f.call(func() (err error) { now, err = f.Ledger.Load(ctx, names, rows); return err })
	return now, err
}

func (f *farLedger) Swap(ctx context.Context, swaps []share.Swap) error {
	err := f.call(func() error { return f.Ledger.Swap(ctx, swaps) })
	for i := range swaps {
		if f.mute {
			swaps[i].At = time.Time{}
		}
	}
	return err
}

// A strictStore calls a store for every request.
type strictStore struct {
	weir.Store
	takes time.Duration
	calls *atomic.Int64
}

func (s strictStore) Do(ctx context.Context, r weir.Request) (weir.Decision, error) {
	s.calls.Add(1)
	<-time.After(s.takes / 2)
	d, err := s.Store.Do(ctx, r)
	<-time.After(s.takes / 2)
	return d, err
}

// A syncedStore counts a window in this process. Once a second it adds its count to that of all
// processes, and reads the sum.
type syncedStore struct {
	weir.Store
	mu     sync.Mutex
	window time.Time // its start
	known  int64     // of all processes, at the last synchronization
	own    int64     // since then
}

func (s *syncedStore) Do(_ context.Context, r weir.Request) (d weir.Decision, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(r.Limit)
	if d.OK = s.known+s.own < r.Limit.Count(); d.OK {
		s.own++
	}
	return d, nil
}

// turn begins a window.
func (s *syncedStore) turn(l weir.Limit) {
	if window := time.Now().Truncate(l.Period()); window != s.window {
		s.window, s.known, s.own = window, 0, 0
	}
}

// sync synchronizes with the count of all processes, in one call.
func (s *syncedStore) sync(l weir.Limit, all *windowCount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn(l)
	s.known, s.own = all.add(s.window, s.own), 0
}

// A windowCount is a counter in a store.
type windowCount struct {
	mu     sync.Mutex
	window time.Time
	n      int64
}

func (c *windowCount) add(window time.Time, n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if window != c.window {
		c.window, c.n = window, 0
	}
	c.n += n
	return c.n
}

// A fleet is processes that share a limit, in the virtual time of synctest.
type fleet struct {
	limit  weir.Limit
	stores []weir.Store
	calls  atomic.Int64 // of the store or ledger

	counted time.Time   // requests from then on are
	killed  atomic.Bool // the first process is: its clients ask the others

	asked, admitted, failed atomic.Int64
	mu                      sync.Mutex
	took                    []time.Duration
}

const fleetSize = 5

func memory() weir.Store {
	m, err := memstore.New(memstore.Config{})
	if err != nil {
		panic(err)
	}
	return m
}

func (f *fleet) strict(*testing.T) {
	all := memory()
	for range fleetSize {
		f.stores = append(f.stores, strictStore{all, time.Millisecond, &f.calls})
	}
}

func (f *fleet) synced(t *testing.T) {
	all := &windowCount{}
	for i := range fleetSize {
		s := &syncedStore{}
		f.stores = append(f.stores, s)
		stop := t.Context().Done()
		go func() {
			<-time.After(time.Duration(i) * time.Second / fleetSize)
			tick := time.NewTicker(time.Second)
			defer tick.Stop()
			for {
				f.calls.Add(1)
				s.sync(f.limit, all)
				select {
				case <-tick.C:
				case <-stop:
					return
				}
			}
		}()
	}
}

// shares makes stores that divide the limit by one ledger.
func (f *fleet) shares(t *testing.T, takes time.Duration, c share.Config) (ledgers []*farLedger) {
	all := share.NewMemory(nil)
	for range fleetSize {
		l := &farLedger{Ledger: all, takes: takes, calls: &f.calls}
		s, err := share.New(memory(), l, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		f.stores = append(f.stores, s)
		ledgers = append(ledgers, l)
	}
	return ledgers
}

// weights are the parts of the demand of each process.
var weights = [fleetSize]float64{0.4, 0.25, 0.2, 0.1, 0.05}

// run offers so many requests per second to each process. It counts those after a time, for another
// one.
func (f *fleet) run(rates [fleetSize]float64, before, d time.Duration) {
	var clients, arrivals sync.WaitGroup
	f.counted = time.Now().Add(before)
	ends := f.counted.Add(d)
	arrivals.Go(func() {
		<-time.After(before)
		f.calls.Store(0)
	})
	for i, rate := range rates {
		if rate == 0 {
			continue
		}
		r := rand.New(rand.NewPCG(uint64(i), uint64(d)))
		arrivals.Go(func() {
			for at := time.Now(); ; {
				at = at.Add(time.Duration(r.ExpFloat64() * float64(time.Second) / rate))
				if at.After(ends) {
					return
				}
				<-time.After(time.Until(at))
				to := i
				if i == 0 && f.killed.Load() {
					to = 1 + r.IntN(fleetSize-1)
				}
				clients.Go(func() { f.request(f.stores[to]) })
			}
		})
	}
	arrivals.Wait()
	clients.Wait()
}

func (f *fleet) request(s weir.Store) {
	start := time.Now()
	d, err := s.Do(context.Background(), weir.Request{Key: "hot", Limit: f.limit, N: 1})
	if start.Before(f.counted) {
		return
	}
	f.asked.Add(1)
	switch {
	case err != nil:
		f.failed.Add(1)
	case d.OK:
		f.admitted.Add(1)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.took = append(f.took, time.Since(start))
}

// offer divides requests per second among the processes.
func offer(total float64) (rates [fleetSize]float64) {
	for i := range rates {
		rates[i] = total * weights[i]
	}
	return rates
}

// TestShareLoad compares strict decisions, shares, and counts that are synchronized once a second. The
// load is half of a limit to ten times of it. It counts what a minute admits, and calls of the store.
func TestShareLoad(t *testing.T) {
	limit := weir.MustLimit("20000/m fixed_window anchor epoch")
	loads := []int{50, 300}
	if *plot != "" {
		loads = []int{50, 75, 100, 150, 200, 300, 500, 700, 1000}
	}
	names := []string{"strict", "shares", "synchronized each second"}
	var labels []string
	admitted, calls := make([][]float64, 3), make([][]float64, 3)
	for _, load := range loads {
		labels = append(labels, fmt.Sprint(load, " %"))
		for i := range names {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{limit: limit}
				switch i {
				case 0:
					f.strict(t)
				case 1:
					f.shares(t, time.Millisecond, share.Config{})
				default:
					f.synced(t)
				}
				f.run(offer(float64(load*int(limit.Count()))/6000), time.Minute, time.Minute-time.Millisecond) // the clock of a test begins with a minute
				admitted[i] = append(admitted[i], 100*float64(f.admitted.Load())/float64(limit.Count()))
				calls[i] = append(calls[i], float64(f.calls.Load())/60)
				t.Logf("%s at %d%%: %d of %d admitted, %d calls", names[i], load, f.admitted.Load(), f.asked.Load(), f.calls.Load())
			})
		}
	}
	draw(t, "shares-accuracy.svg", "Admitted, % of the limit", labels, names, admitted...)
	draw(t, "shares-calls.svg", "Calls of the store per second", labels, names, calls...)
	for i, load := range loads {
		for way, name := range names[:2] {
			if admitted[way][i] > 100 || admitted[way][i] < 0.96*min(100, float64(load)) {
				t.Errorf("%s at %d%%: %.1f%% admitted, want at most the limit and 96%% of what it admits", name, load, admitted[way][i])
			}
		}
	}
	last := len(loads) - 1
	if admitted[2][last] < 102 {
		t.Errorf("counts that are synchronized each second admit %.1f%%, want more than 102%%", admitted[2][last])
	}
	if calls[1][last] > calls[0][last]/5 {
		t.Errorf("shares call the ledger %.1f times a second, want a fifth of %.1f", calls[1][last], calls[0][last])
	}
}

// TestShareFar measures requests while each call of the ledger takes 80 ms: at least 99 % do not wait for it. If the
// ledger does not report the row that another process has written, processes that begin together may need longer for
// their first shares than the three seconds before.
func TestShareFar(t *testing.T) {
	for _, test := range []struct {
		load, atOnce float64
		mute         bool
	}{{0.5, 0.99, false}, {0.8, 0.99, false}, {1.5, 0.99, false}, {0.8, 0.9, true}} {
		for _, text := range []string{"10000/s burst 2000", "5000/s sliding_window"} {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{limit: weir.MustLimit(text)}
				for _, l := range f.shares(t, 80*time.Millisecond, share.Config{}) {
					l.mute = test.mute
				}
				f.far(t, test.load, test.atOnce)
			})
		}
	}
}

// far offers a load, and checks how many requests do not wait.
func (f *fleet) far(t *testing.T, load, want float64) {
	f.run(offer(load*float64(f.limit.Count())), 3*time.Second, 20*time.Second)
	slices.Sort(f.took)
	p := func(part float64) time.Duration { return f.took[int(float64(len(f.took))*part)] }
	n, _ := slices.BinarySearch(f.took, time.Millisecond)
	atOnce := float64(n) / float64(len(f.took))
	t.Logf("%s at %.0f%%: %d of %d admitted, %.2f%% within 1ms, p50 %v, p99.9 %v, max %v, %d calls", f.limit, load*100,
		f.admitted.Load(), f.asked.Load(), 100*atOnce, p(0.5), p(0.999), f.took[len(f.took)-1], f.calls.Load())
	if atOnce < want {
		t.Errorf("%s at %.0f%%: %.2f%% within 1ms, want %.0f%%", f.limit, load*100, 100*atOnce, 100*want)
	}
}

// TestShareLease kills one of five processes, whose clients then ask the others. It measures what is
// unused of the limit in the minute after it.
func TestShareLease(t *testing.T) {
	leases := []time.Duration{time.Second, 10 * time.Second}
	if *plot != "" {
		leases = []time.Duration{1, 2, 3, 5, 7, 10, 15, 20, 25, 30}
		for i := range leases {
			leases[i] *= time.Second
		}
	}
	var labels []string
	unused := make([][]float64, 2)
	for _, lease := range leases {
		labels = append(labels, lease.String())
		for i := range unused {
			synctest.Test(t, func(t *testing.T) {
				f := &fleet{limit: weir.MustLimit("1000/s burst 200")}
				ledgers := f.shares(t, time.Millisecond, share.Config{Lease: lease})
				rates, warmup := [fleetSize]float64{300, 300, 300, 300, 300}, max(10*time.Second, lease)
				if i == 1 {
					go func() {
						<-time.After(warmup)
						ledgers[0].cut.Store(true)
						f.killed.Store(true)
					}()
				}
				f.run(rates, warmup, time.Minute)
				unused[i] = append(unused[i], 100-float64(f.admitted.Load())/600)
				t.Logf("lease %v, killed %d: %.2f%% unused", lease, i, unused[i][len(unused[i])-1])
			})
		}
	}
	draw(t, "shares-lease.svg", "Unused part of the limit in a minute, %", labels, []string{"no process is killed", "one of five is killed"}, unused...)
	for i, lease := range leases {
		// A fifth of the limit is stranded for two leases at most.
		if most := 1 + 0.25*200*lease.Minutes(); unused[0][i] > 1 || unused[1][i] > most {
			t.Errorf("lease %v: %.1f%% unused, and %.1f%% after a kill, want at most 1%% and %.1f%%", lease, unused[0][i], unused[1][i], most)
		}
	}
}
