// Command seckill compares a limit of 2 per second for "seckill:101" with a token bucket script that
// is common for Redis. Two workers ask both every 200 ms, 20 times each, at the same instants.
//
//	go run ./examples/seckill -fast
//	go run ./examples/seckill -redis 127.0.0.1:6379
//
// With -fast it ends at once, on a simulated clock; with Redis it takes four seconds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/redisstore"
)

const (
	workers = 2
	turns   = 20
	pause   = 200 * time.Millisecond
	key     = "seckill:101"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "seckill:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout io.Writer) error {
	flags := flag.NewFlagSet("seckill", flag.ContinueOnError)
	addr := flags.String("redis", "", "host:port of Redis; in memory if empty")
	fast := flags.Bool("fast", false, "do not wait: in memory, on a simulated clock")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *fast && *addr != "" {
		return errors.New("-fast: got -redis too, whose clock is not simulated")
	}
	limit := weir.MustLimit("2/s")
	s := &sale{script: script{maxPermits: limit.Capacity(), rate: limit.Count()}}
	store, closeStore, err := open(*addr, *fast, s)
	if err != nil {
		return err
	}
	defer closeStore()
	if s.limiter, err = weir.New(store, limit, weir.Config{}); err != nil {
		return err
	}
	if *addr != "" { // tokens of an earlier run
		if _, err := s.limiter.Reset(ctx, key); err != nil {
			return err
		}
	}
	if err := s.hold(ctx, *fast); err != nil {
		return err
	}
	s.report(stdout)
	return nil
}

// open opens a store.
func open(addr string, fast bool, s *sale) (weir.Store, func(), error) {
	if addr == "" {
		var c memstore.Config
		if fast {
			s.now = 1_800_000_000_000_000
			c.Clock = func() int64 { return s.now }
		}
		store, err := memstore.New(c)
		if err != nil {
			return nil, nil, err
		}
		return store, func() { store.Close() }, nil
	}
	conn, err := rueidis.Open("redis://" + addr)
	if err != nil {
		return nil, nil, err
	}
	// No user waits for a response of this program: a late decision is better than none.
	store, err := redisstore.New(conn, redisstore.Config{Timeout: 10 * time.Second})
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return store, func() { store.Close(); conn.Close() }, nil
}

// A sale counts the admitted requests of each second.
type sale struct {
	limiter *weir.Limiter
	now     int64 // µs: the clock of a fast one

	mu          sync.Mutex
	script      script
	first, last time.Time // of the store's clock
	seconds     [turns * int(pause) / int(time.Second)]struct{ asked, script, weir int }
}

// hold runs the workers.
func (s *sale) hold(ctx context.Context, fast bool) error {
	if fast {
		for turn := range turns {
			for range workers {
				if err := s.ask(ctx, turn); err != nil {
					return err
				}
			}
			s.now += pause.Microseconds()
		}
		return nil
	}
	var wg sync.WaitGroup
	errs := make([]error, workers)
	for i := range workers {
		wg.Go(func() {
			tick := time.NewTicker(pause)
			defer tick.Stop()
			for turn := range turns {
				if turn > 0 {
					<-tick.C
				}
				if errs[i] = s.ask(ctx, turn); errs[i] != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// ask asks both, at one instant of the store's clock.
func (s *sale) ask(ctx context.Context, turn int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.limiter.Take(ctx, key, 1)
	if err != nil {
		return err
	}
	if s.first.IsZero() {
		s.first = d.At
	}
	s.last = d.At
	n := &s.seconds[turn*int(pause)/int(time.Second)]
	n.asked++
	if d.OK {
		n.weir++
	}
	if s.script.acquire(d.At.UnixMicro()) {
		n.script++
	}
	return nil
}

// report prints the seconds, the sum, and what the formula says.
func (s *sale) report(w io.Writer) {
	fmt.Fprintf(w, "%-8s %6s %7s %5s\n", "second", "asked", "script", "weir")
	var all struct{ asked, script, weir int }
	for i, n := range s.seconds {
		fmt.Fprintf(w, "%-8d %6d %7d %5d\n", i+1, n.asked, n.script, n.weir)
		all.asked += n.asked
		all.script += n.script
		all.weir += n.weir
	}
	fmt.Fprintf(w, "%-8s %6d %7d %5d\n", "all", all.asked, all.script, all.weir)
	l := s.limiter.Limit()
	t := s.last.Sub(s.first)
	due := l.Capacity() + l.Count()*t.Microseconds()/l.Period().Microseconds()
	fmt.Fprintf(w, "burst + rate × time: ⌊%d + %d × %.1f⌋ = %d\n", l.Capacity(), l.Count(), t.Seconds(), due)
}
