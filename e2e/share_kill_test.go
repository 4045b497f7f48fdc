//go:build unix

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/contrib/rueidis"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/share"
	"github.com/floodweir/weir/share/redisledger"
)

const (
	shareProcessEnv = "WEIR_TEST_SHARE_PROCESS" // the address of Redis
	killedLimit     = "3000/s burst 3000"
)

// shareProcess asks for one key without end, and writes a byte for each admission.
func shareProcess(addr string) error {
	conn, err := rueidis.Open("redis://" + addr)
	if err != nil {
		return err
	}
	ledger, err := redisledger.New(conn, "")
	if err != nil {
		return err
	}
	mem, err := memstore.New(memstore.Config{})
	if err != nil {
		return err
	}
	store, err := share.New(mem, ledger, share.Config{Lease: time.Second})
	if err != nil {
		return err
	}
	limit := weir.MustLimit(killedLimit)
	tick := time.NewTicker(time.Millisecond)
	for {
		for range 2 {
			d, err := store.Do(context.Background(), weir.Request{Key: "hot", Limit: limit, N: 1})
			if err == nil && d.OK {
				if _, err := os.Stdout.Write([]byte{'1'}); err != nil {
					return err
				}
			}
		}
		<-tick.C
	}
}

// TestKilledHolders kills and stops processes that hold shares of a limit. All together admit no
// more than the limit. They go on until they have admitted twice the burst, which depends on the
// machine.
func TestKilledHolders(t *testing.T) {
	server := redistest.Start(t)
	var admitted, starts atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	ends := begin.Add(time.Duration(usual(8, 60)) * time.Second)
	const enough = 6000
	goesOn := func() bool {
		return time.Now().Before(ends) || admitted.Load() < enough && time.Since(begin) < 5*time.Minute
	}
	for i := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			for goesOn() {
				starts.Add(1)
				life := time.Duration(500+r.IntN(4000)) * time.Millisecond
				n, err := admissions(server.Addr, life, r.IntN(3) == 0)
				if err != nil {
					t.Error(err)
					return
				}
				admitted.Add(n)
			}
		})
	}
	wg.Wait()
	span := time.Since(begin)
	most := 3000 + int64(span.Seconds()*3000) + 1
	t.Logf("%d of %d admitted in %v by %d processes", admitted.Load(), most, span, starts.Load())
	if n := admitted.Load(); n > most || n < enough {
		t.Errorf("%d admitted, want %d to %d", n, enough, most)
	}
}

// admissions runs a process for a time, kills it, and returns how many requests it admitted. With
// stops, the process is also suspended for longer than its lease.
func admissions(redis string, life time.Duration, stops bool) (int64, error) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), shareProcessEnv+"="+redis)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	read := make(chan int64)
	go func() {
		n, _ := io.Copy(io.Discard, out)
		read <- n
	}()
	ctx, cancel := context.WithTimeout(context.Background(), life)
	defer cancel()
	pause := func(d time.Duration) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	if stops {
		pause(life / 3)
		_ = cmd.Process.Signal(syscall.SIGSTOP)
		pause(1500 * time.Millisecond)
		_ = cmd.Process.Signal(syscall.SIGCONT)
	}
	<-ctx.Done()
	if err := cmd.Process.Kill(); err != nil {
		return 0, fmt.Errorf("kill: %w", err)
	}
	n := <-read
	_ = cmd.Wait() // it was killed
	return n, nil
}
