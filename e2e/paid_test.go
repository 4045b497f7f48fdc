package e2e_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
)

// How many programs of examples/paid the tests run, and how many replicas each has.
const (
	paidProcesses = 4
	paidReplicas  = 3
)

// A paidAPI counts the calls that it would charge for.
type paidAPI struct {
	*httptest.Server
	calls atomic.Int64
}

func startPaidAPI(t *testing.T) *paidAPI {
	a := &paidAPI{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { a.calls.Add(1) }))
	t.Cleanup(a.Close)
	return a
}

// await waits until the API has received n calls.
func (a *paidAPI) await(t *testing.T, n int64) {
	t.Helper()
	redistest.Await(t, fmt.Sprintf("%d calls", n), func() error {
		if got := a.calls.Load(); got < n {
			return fmt.Errorf("the API received %d", got)
		}
		return nil
	})
}

// quiet returns the number of calls within d.
func (a *paidAPI) quiet(d time.Duration) int64 {
	before := a.calls.Load()
	<-time.After(d)
	return a.calls.Load() - before
}

// A paidProcess is one running program.
type paidProcess struct {
	cmd *exec.Cmd
	out bytes.Buffer
}

func startPaid(t *testing.T, binary string, args ...string) *paidProcess {
	t.Helper()
	p := &paidProcess{cmd: exec.Command(binary, args...)}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.end(syscall.SIGKILL) })
	return p
}

// end sends a signal and waits for the end. It does nothing if the process has ended.
func (p *paidProcess) end(s os.Signal) {
	if p.cmd.ProcessState == nil {
		p.cmd.Process.Signal(s)
		p.cmd.Wait()
	}
}

// TestPaid runs the example as four processes that share a budget. The API receives exactly
// the budget.
func TestPaid(t *testing.T) {
	binary, api, redis := programtest.Build(t, "./examples/paid"), startPaidAPI(t), redistest.Start(t)
	const budget = 100
	outs := make([]string, paidProcesses)
	var wg sync.WaitGroup
	for i := range outs {
		wg.Go(func() {
			out, err := exec.Command(binary, "-redis", "redis://"+redis.Addr, "-api", api.URL, "-calls", "40",
				"-replicas", strconv.Itoa(paidReplicas), "-limits", fmt.Sprintf("500/s, %d/24h fixed_window", budget)).CombinedOutput()
			if outs[i] = string(out); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	wg.Wait()
	sent := 0
	for _, out := range outs {
		var s, denied, undecided, failed int
		if _, err := fmt.Sscanf(out, "sent %d, denied %d, undecided %d, failed %d", &s, &denied, &undecided, &failed); err != nil ||
			undecided+failed != 0 || s+denied != 40*paidReplicas {
			t.Errorf("a process prints %q (%v)", out, err)
		}
		sent += s
	}
	if got := api.calls.Load(); got != budget || sent != budget {
		t.Errorf("the API received %d calls and the processes sent %d, want %d", got, sent, budget)
	}
}

// TestPaidThroughFaults kills the Redis that holds the budget and some of the processes that
// spend it. Without Redis nothing is sent, and in total the API does not receive more than the
// budget.
func TestPaidThroughFaults(t *testing.T) {
	binary, api, redis := programtest.Build(t, "./examples/paid"), startPaidAPI(t), redistest.StartDurable(t)
	const budget = 400
	start := func() *paidProcess {
		return startPaid(t, binary, "-redis", "redis://"+redis.Addr, "-api", api.URL, "-calls", "0",
			"-replicas", strconv.Itoa(paidReplicas), "-limits", fmt.Sprintf("200/s burst 20, %d/24h fixed_window", budget))
	}
	ps := make([]*paidProcess, paidProcesses)
	for i := range ps {
		ps[i] = start()
	}
	api.await(t, 100)

	redis.Stop()
	atKill := api.calls.Load()
	redistest.Await(t, "no calls without a store", func() error {
		if n := api.quiet(700 * time.Millisecond); n != 0 {
			return fmt.Errorf("the API received %d calls", n)
		}
		return nil
	})
	atRestart := api.calls.Load()
	if n := atRestart - atKill; n > paidProcesses*paidReplicas { // calls admitted before are in flight
		t.Errorf("the API received %d calls without a store", n)
	}
	redis.Restart(t)
	api.await(t, atRestart+50)

	for i := range 2 {
		ps[i].end(syscall.SIGKILL)
		ps[i] = start()
	}
	// Charged but not sent: calls of killed processes, and those that Redis charged before it
	// was killed without sending the reply.
	const lost = (2 + paidProcesses) * paidReplicas
	api.await(t, budget-lost)
	if n := api.quiet(time.Second); n > lost {
		t.Errorf("%d more calls", n)
	}
	if got := api.calls.Load(); got > budget {
		t.Errorf("the API received %d calls of a budget of %d", got, budget)
	} else {
		t.Logf("the API received %d calls of a budget of %d", got, budget)
	}
	for _, p := range ps {
		p.end(syscall.SIGTERM)
		if out := p.out.String(); !strings.HasPrefix(out, "sent ") {
			t.Errorf("a process prints %q", out)
		}
	}
}

// TestPaidInMemory runs the example as its page does.
func TestPaidInMemory(t *testing.T) {
	out, err := exec.Command(programtest.Build(t, "./examples/paid")).CombinedOutput()
	if want := "sent 40, denied 160, undecided 0, failed 0\nthe API saw 40 calls: the bill is 2.00\n"; err != nil || string(out) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, out, want)
	}
}
