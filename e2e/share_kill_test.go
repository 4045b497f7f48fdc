//go:build unix

package e2e_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/redisledger"
)

const shareProcessEnv = "WEIR_TEST_SHARE_PROCESS" // the address of Redis, and a limit

// shareProcess asks for one key without end. It writes the times before and after each admission and its At.
func shareProcess(config string) error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1) // the test has ended
	}()
	addr, limit, _ := strings.Cut(config, " ")
	conn, err := rueidis.Open("redis://" + addr)
	for ; err != nil; conn, err = rueidis.Open("redis://" + addr) {
		<-time.After(10 * time.Millisecond) // it is cut off
	}
	ledger, err := redisledger.New(conn, "")
	if err != nil {
		return err
	}
	mem, err := memstore.New(memstore.Config{})
	if err != nil {
		return err
	}
	store, err := share.New(mem, ledger, share.Config{Lease: time.Second, Timeout: 200 * time.Millisecond})
	if err != nil {
		return err
	}
	r := weir.Request{Key: "hot", Limit: weir.MustLimit(limit), N: 1}
	for tick := time.NewTicker(2 * time.Millisecond); ; <-tick.C {
		before := time.Now()
		d, err := store.Do(context.Background(), r)
		if err != nil || !d.OK {
			continue
		}
		var record []byte
		for _, at := range []time.Time{before, time.Now(), d.At} {
			record = binary.LittleEndian.AppendUint64(record, uint64(at.UnixMicro()))
		}
		if _, err := os.Stdout.Write(record); err != nil {
			return err
		}
	}
}

// A shareLog merges the admissions of processes.
type shareLog struct {
	mu   sync.Mutex
	all  []admission
	at   []int64 // their At, µs
	base int64
}

// read adds what a process writes until it ends.
func (l *shareLog) read(r io.Reader) {
	for record := make([]byte, 24); ; {
		if _, err := io.ReadFull(r, record); err != nil {
			return
		}
		us := func(i int) int64 { return int64(binary.LittleEndian.Uint64(record[8*i:])) }
		since := func(i int) time.Duration { return time.Duration(us(i)-l.base) * time.Microsecond }
		l.mu.Lock()
		l.all = append(l.all, admission{since(0), since(1)})
		l.at = append(l.at, us(2))
		l.mu.Unlock()
	}
}

func (l *shareLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.all)
}

// check replays the admissions. Windows are by the clock of Redis, to which their At belongs. Other limits admit at
// most what a bucket of their count does in any span of time, by a clock that is faster.
func (l *shareLog) check(t *testing.T, limit weir.Limit, drift float64) {
	t.Helper()
	switch limit.Config().(type) {
	case weir.FixedWindow, weir.SlidingWindow:
		over := 0
		slices.SortFunc(l.at, cmp.Compare)
		var state []int64
		for _, at := range l.at {
			var r algo.Result
			if state, r = limit.Spec().Rule.Do(state, algo.Ask{Op: algo.Take, Now: at, N: 1}); !r.OK {
				over++
			}
		}
		t.Logf("%d admissions, %d exceed the limit", len(l.at), over)
		if over > 0 {
			t.Errorf("%d of %d admissions exceed the limit, want none", over, len(l.at))
		}
	default:
		rate := float64(limit.Count()) / limit.Period().Seconds() * (1 + drift)
		worst, from, to := excess(l.all, rate, float64(limit.Capacity()))
		t.Logf("%d admissions, the fullest span has %+.1f", len(l.all), worst)
		if worst > 0 {
			t.Errorf("%.1f more than the limit from %v to %v", worst, from, to)
		}
	}
}

// clockShim is a library for LD_PRELOAD: the clock of a program is faster by CLOCK_DRIFT millionths.
const clockShim = `
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
static long start, drift;
__attribute__((constructor)) static void init(void) {
	struct timespec t;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
	start = t.tv_sec;
	drift = atol(getenv("CLOCK_DRIFT"));
}
int gettimeofday(struct timeval *restrict v, void *restrict zone) {
	struct timespec t;
	syscall(SYS_clock_gettime, CLOCK_REALTIME, &t);
	long us = (t.tv_sec - start) * 1000000 + t.tv_nsec / 1000;
	us += us * drift / 1000000;
	v->tv_sec = start + us / 1000000;
	v->tv_usec = us % 1000000;
	return 0;
}
`

// startDrifting starts a Redis whose clock is faster by so many millionths.
func startDrifting(t *testing.T, drift int) *redistest.Server {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Log("the clock of Redis does not drift: that takes Linux")
		return redistest.Start(t)
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, []byte(clockShim), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	t.Setenv("LD_PRELOAD", library)
	t.Setenv("CLOCK_DRIFT", fmt.Sprint(drift))
	server := redistest.Start(t)
	os.Unsetenv("LD_PRELOAD") // Setenv restores it
	return server
}

// drifts checks that the clock of a Redis is ahead, or behind.
func drifts(t *testing.T, server *redistest.Server, ahead bool) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	redistest.Await(t, "the drift of a clock", func() error {
		before := time.Now().UnixMicro()
		reply := server.Do(t, "TIME").([]any)
		after := time.Now().UnixMicro()
		var s, us int64
		if _, err := fmt.Sscan(fmt.Sprintln(reply...), &s, &us); err != nil {
			return err
		}
		if at := s*1_000_000 + us; ahead && at <= after || !ahead && at >= before {
			return fmt.Errorf("TIME = %d µs, asked from %d to %d", at, before, after)
		}
		return nil
	})
}

// TestKilledHolders runs eight processes that divide a limit, and whose clocks differ from that of Redis by 500
// millionths. They are killed, suspended for longer than their leases, and cut off from Redis. For each algorithm, all
// together admit no more than the limit. They go on until they have admitted enough, which depends on the machine.
func TestKilledHolders(t *testing.T) {
	for i, text := range []string{
		"1000/s burst 200",
		"1000/s burst 200 leaky_bucket",
		"1000/s fixed_window anchor epoch",
		"1000/s sliding_window",
		"1000/s sliding_log",
	} {
		drift := []int{500, -500}[i%2]
		server, limit := startDrifting(t, drift), weir.MustLimit(text)
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			var starts, cuts atomic.Int64
			var wg sync.WaitGroup
			begin := time.Now()
			ends := begin.Add(time.Duration(usual(5, 60)) * time.Second)
			log := &shareLog{base: begin.UnixMicro()}
			const enough = 2000
			goesOn := func() bool {
				return time.Now().Before(ends) || log.count() < enough && time.Since(begin) < 5*time.Minute
			}
			for i := range 8 {
				proxy := redistest.StartProxy(t, server.Addr)
				wg.Go(func() {
					for r := rand.New(rand.NewPCG(uint64(i), 1)); goesOn(); {
						starts.Add(1)
						p := &shareLife{
							life: time.Duration(1000+r.IntN(5000)) * time.Millisecond, stops: r.IntN(3) == 0,
							config: proxy.Addr + " " + text,
						}
						if r.IntN(3) == 0 {
							cuts.Add(1)
							p.proxy = proxy
						}
						if err := p.run(log); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			t.Logf("%d processes, %d of them cut off, in %v", starts.Load(), cuts.Load(), time.Since(begin))
			if n := log.count(); n < enough {
				t.Errorf("%d admissions, want %d", n, enough)
			}
			drifts(t, server, drift > 0)
			log.check(t, limit, float64(max(0, drift))/1e6)
		})
	}
}

// A shareLife is the life of a process.
type shareLife struct {
	life   time.Duration
	stops  bool             // it is suspended for longer than its lease
	proxy  *redistest.Proxy // cuts it off from Redis for a while, if not nil
	config string
}

// run starts the process, and kills it.
func (p *shareLife) run(log *shareLog) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), shareProcessEnv+"="+p.config)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := cmd.Start(); err != nil {
		return err
	}
	var read sync.WaitGroup
	read.Go(func() { log.read(out) })
	ctx, cancel := context.WithTimeout(context.Background(), p.life)
	defer cancel()
	pause := func(d time.Duration) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	pause(p.life / 4)
	if p.proxy != nil {
		p.proxy.Set(redistest.DropAll)
		pause(p.life / 2)
		p.proxy.Set(redistest.NoFault)
	}
	if p.stops {
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		pause(2500 * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGCONT)
	}
	<-ctx.Done()
	if err := cmd.Process.Kill(); err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	read.Wait()
	_ = cmd.Wait() // it was killed
	return nil
}
