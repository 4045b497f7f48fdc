package e2e_test

import (
	"flag"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/programtest"
	"github.com/floodweir/weir/e2e/redistest"
	"github.com/floodweir/weir/internal/porttest"
)

// The default cells are the worst ones: many calls in progress, and few that are late together.
var (
	loadCells = flag.String("load.cells", `^redis/busy/(10/paced|1000/unpaced)$`, "regular expression of the cells of the load table to run, such as redis/busy/1000/unpaced")
	loadTime  = flag.Duration("load.time", 500*time.Millisecond, "duration of a cell of the load table")
	loadTable = flag.String("load.table", "", "file for the load table, in Markdown")
)

// The rate and the burst of /api.
const (
	loadRate  = 50
	loadBurst = 100
)

const loadPolicies = `
gateway:
  routes:
    - { path: /, upstream: "UPSTREAM" }
policies:
  - { name: login, match: { paths: [/login] }, key: ["const:all-clients"], limits: [1/h] }
  - { name: api, match: { paths: [/api] }, key: ["const:all-clients"], limits: [50/s burst 100] }
`

// A loadCell is one row of the load table.
type loadCell struct {
	store       string // memory, redis, or paused: Redis that stops for 60 ms every 2 s
	busy        bool   // another process keeps each core busy
	connections int
	paced       bool // each connection sends one request per 20 ms
}

func (c loadCell) String() string {
	cores, pace := "idle", "unpaced"
	if c.busy {
		cores = "busy"
	}
	if c.paced {
		pace = "paced"
	}
	return fmt.Sprintf("%s/%s/%d/%s", c.store, cores, c.connections, pace)
}

// TestLoadTable sends load to a gateway with default settings. It checks that the requests that
// reach the upstream do not exceed their limits, and local decisions their bound. /login is used
// up, and /api has a rate. It checks no time: the table has the times. make load-table runs all
// cells.
func TestLoadTable(t *testing.T) {
	chosen, err := regexp.Compile(*loadCells)
	if err != nil {
		t.Fatal("-load.cells: ", err)
	}
	var table strings.Builder
	table.WriteString("| store | cores | connections | pace | /login | /api | denied | overloaded | errors | local | p50 | p99 | responses/s |\n|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
	cells := 0
	for _, store := range []string{"memory", "redis", "paused"} {
		for _, busy := range []bool{false, true} {
			for _, paced := range []bool{true, false} {
				for _, connections := range []int{10, 100, 500, 1000, 3000, 6000} {
					c := loadCell{store, busy, connections, paced}
					if !chosen.MatchString(c.String()) {
						continue
					}
					cells++
					t.Run(c.String(), func(t *testing.T) { table.WriteString(c.run(t)) })
				}
			}
		}
	}
	if cells == 0 {
		t.Errorf("-load.cells=%q matches no cell", *loadCells)
	}
	t.Logf("%d cells\n%s", cells, table.String())
	if *loadTable != "" {
		if err := os.WriteFile(*loadTable, []byte(table.String()), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// run runs a cell and returns its row.
func (c loadCell) run(t *testing.T) string {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || uint64(files.Cur) < uint64(c.connections)+1000 {
		t.Fatalf("limit of open files: %d, %v, want %d: ulimit -n", files.Cur, err, c.connections+1000)
	}
	var reached [len(loadPaths)]atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		for i, path := range loadPaths {
			if r.URL.Path == path {
				reached[i].Add(1)
			}
		}
	}))
	t.Cleanup(upstream.Close)
	store, pause := "memory", func() func() { return func() {} }
	if c.store != "memory" {
		redis := redistest.Start(t)
		store = "redis://" + redis.Addr
		if c.store == "paused" {
			pause = func() func() { return pauseRepeatedly(redis) }
		}
	}
	addr := startLoaded(t, upstream.URL, store)
	useUp(t, "http://"+addr+loadPaths[0])
	before := reached[0].Load()

	l := newLoad(t, addr, c.connections)
	if c.paced {
		l.pace = 20 * time.Millisecond
	}
	if c.busy {
		keepBusy(t)
	}
	resume := pause()
	began := time.Now()
	l.run(*loadTime)
	resume()
	login, api := reached[0].Load()-before, reached[1].Load()
	took := time.Since(began)

	mostLogin, mostAPI := int64(0), loadBurst+int64(math.Floor(loadRate*took.Seconds()))
	local := l.local.Load()
	if local > 0 { // the bound of repeated outages: the share is a second limit
		mostLogin, mostAPI = mostLogin+1, 2*mostAPI
	}
	if login > mostLogin || api > mostAPI {
		t.Errorf("%d requests reached /login and %d reached /api, want at most %d and %d", login, api, mostLogin, mostAPI)
	}
	if store == "memory" && local+l.overloaded.Load() > 0 {
		t.Errorf("%d local decisions, %d requests rejected: want none with a store in memory", local, l.overloaded.Load())
	}
	if l.denied.Load()+l.overloaded.Load() == 0 {
		t.Error("no request was denied or rejected")
	}
	q := l.decisions.Quantiles()
	cells := append(strings.Split(c.String(), "/"),
		fmt.Sprintf("%d of %d", login, mostLogin), fmt.Sprintf("%d of %d", api, mostAPI),
		fmt.Sprint(l.denied.Load()), fmt.Sprint(l.overloaded.Load()), fmt.Sprint(l.errors.Load()), fmt.Sprint(local),
		milliseconds(q.P50), milliseconds(q.P99), fmt.Sprintf("%.0f", float64(l.responses.Load())/took.Seconds()))
	row := "| " + strings.Join(cells, " | ") + " |\n"
	t.Log(row)
	return row
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.1f ms", d.Seconds()*1000) }

// startLoaded runs weir with loadPolicies and returns the address of its gateway.
func startLoaded(t *testing.T, upstream, store string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(loadPolicies, "UPSTREAM", upstream)), 0o600); err != nil {
		t.Fatal(err)
	}
	gateway, api := porttest.Address(t), porttest.Address(t)
	startProcess(t, programtest.Weir(t), "serve", file, "--store", store, "--listen-gateway", gateway, "--listen-http", api,
		"--max-connections", "7000")
	awaitStatus(t, "http://"+api+"/readyz", http.StatusOK)
	return gateway
}

// useUp sends requests until the store denies one.
func useUp(t *testing.T, url string) {
	t.Helper()
	for range 1000 {
		res, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode == http.StatusTooManyRequests && res.Header.Get("Weir-Degraded") == "" {
			return
		}
	}
	t.Fatalf("%s: the store denied none of 1000 requests", url)
}

// pauseRepeatedly stops a server for 60 ms every 2 s until the returned function is called.
func pauseRepeatedly(s *redistest.Server) (end func()) {
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for wait := 500 * time.Millisecond; ; wait = 1940 * time.Millisecond {
			select {
			case <-time.After(wait):
			case <-ended:
				return
			}
			syscall.Kill(s.PID(), syscall.SIGSTOP)
			<-time.After(60 * time.Millisecond)
			syscall.Kill(s.PID(), syscall.SIGCONT)
		}
	})
	return func() {
		close(ended)
		wg.Wait()
	}
}

// keepBusy runs one busy loop per core until the test ends. A loop also ends with its parent.
func keepBusy(t *testing.T) {
	t.Helper()
	for range runtime.NumCPU() {
		loop := exec.Command("sh", "-c", `while kill -0 $PPID; do i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done; done`)
		if err := loop.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			loop.Process.Kill()
			loop.Wait()
		})
	}
}
