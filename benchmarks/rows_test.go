package benchmarks

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/benchmarks/compare"
)

var (
	peersRows      = flag.String("peers.rows", "^local/allowed$", "regular expression of the rows of TestPeers to measure")
	peersRounds    = flag.Int("peers.rounds", 1, "rounds of TestPeers: every contender of a row once in each")
	peersTime      = flag.Duration("peers.time", 5*time.Millisecond, "time of a contender in a round of TestPeers")
	peersGrowth    = flag.Bool("peers.growth", false, "measure the rows named growth/ in place of the others")
	peersWrite     = flag.String("peers.write", "", "page on which TestPeers replaces its tables and plots")
	peersServer    = flag.String("peers.server", "", "for child processes of TestPeers: the server to run, NAME=ADDRESS=UPSTREAM")
	peersContender = flag.String("peers.contender", "", "for child processes of TestPeers: the row and the contender to serve")
)

// rows returns every row. Those whose names begin with growth/ compare Weir with itself.
func rows() []compare.Row {
	return slices.Concat(localRows(), keyedRows(), memoryRows(), guardRows(), redisRows(), rlsRows(), wireRows(), gatewayRows(), growthRows())
}

// TestPeers measures the rows whose names match in rounds and prints their tables: make
// bench-peers. By default it measures one row briefly, to check that this works. A contender
// that fails is a line of its table.
func TestPeers(t *testing.T) {
	if *peersServer != "" {
		runServer(t, *peersServer)
	}
	if *peersContender != "" {
		serve(t)
		return
	}
	chosen := selected(t, *peersRows)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	results := compare.Run(chosen, compare.Options{
		Rounds: *peersRounds, Time: *peersTime, Logf: t.Logf,
		Command: func(row, contender string) *exec.Cmd {
			return exec.Command(program, "-test.run=^TestPeers$", "-peers.contender="+row+"="+contender)
		},
	})
	var all bytes.Buffer
	for _, r := range results {
		fmt.Fprintln(&all)
		r.Table(&all)
	}
	t.Logf("measured %d rows in %.0f s\n%s", len(results), time.Since(began).Seconds(), all.String())
	if _, ok := results[0].Value(results[0].Base, results[0].Columns[0].Name); !ok && len(results) == 1 {
		t.Errorf("%s: %s has no figures", results[0].Name, results[0].Base)
	}
	if *peersWrite != "" {
		writePage(t, results, all.String())
	}
}

func selected(t *testing.T, pattern string) (chosen []compare.Row) {
	names, err := regexp.Compile(pattern)
	if err != nil {
		t.Fatal("-peers.rows: ", err)
	}
	for _, r := range rows() {
		if names.MatchString(r.Name) && strings.HasPrefix(r.Name, "growth/") == *peersGrowth {
			chosen = append(chosen, r)
		}
	}
	if chosen == nil {
		t.Fatalf("-peers.rows: %q matches no row", pattern)
	}
	return chosen
}

// serve measures one contender for the parent process.
func serve(t *testing.T) {
	row, name, _ := strings.Cut(*peersContender, "=")
	for _, r := range rows() {
		for _, c := range r.Contenders {
			if r.Name == row && c.Name == name {
				compare.Serve(t, c, os.Stdin, os.Stdout)
				return
			}
		}
	}
	t.Fatalf("no contender %s of %s", name, row)
}

// writePage replaces the figures of the page, and writes a plot for each group of rows, which
// have the same first element in their names.
func writePage(t *testing.T, results []compare.Result, tables string) {
	section := "peers"
	if *peersGrowth {
		section = "growth"
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "```text\n%s\n```\n\n", strings.Join(environment(t), "\n"))
	if section == "peers" {
		compare.Goals(&text, results)
	}
	groups := map[string][]compare.Result{}
	var order []string
	for _, r := range results {
		group := r.Name[:strings.LastIndex(r.Name, "/")]
		if groups[group] == nil {
			order = append(order, group)
		}
		groups[group] = append(groups[group], r)
	}
	for _, group := range order {
		file := filepath.Join("plots", "peers-"+strings.ReplaceAll(group, "/", "-")+".svg")
		var plot bytes.Buffer
		compare.Plot(&plot, "Costs relative to the base: "+group, groups[group])
		if err := os.WriteFile(filepath.Join(filepath.Dir(*peersWrite), file), plot.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "\n![%s](%s)\n", group, filepath.ToSlash(file))
	}
	text.WriteString(tables)
	if err := compare.Replace(*peersWrite, section, text.String()); err != nil {
		t.Fatal(err)
	}
}

// environment describes the machine, the versions and the run.
func environment(t *testing.T) []string {
	one := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			return name + ": " + err.Error()
		}
		first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		return first
	}
	info, _ := os.ReadFile("/proc/cpuinfo")
	cpu := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(info)
	if cpu == nil {
		cpu = [][]byte{nil, []byte(runtime.GOARCH)}
	}
	lines := []string{
		fmt.Sprintf("%s, %d × %s, Linux %s, %s", time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), cpu[1], one("uname", "-r"), runtime.Version()),
		fmt.Sprintf("%s; %s", one("redis-server", "--version"), one("nginx", "-v")),
		fmt.Sprintf("%d rounds of %v for each contender", *peersRounds, *peersTime),
	}
	args := []string{"list", "-m", "-f", "{{.Path}} {{.Version}}"}
	out, err := exec.Command("go", append(args, peerModules...)...).Output()
	if err != nil {
		t.Fatalf("go list -m: %v", err)
	}
	lines = append(lines, strings.Fields(strings.ReplaceAll(strings.TrimSpace(string(out)), " ", "@"))...)
	for _, s := range serverPeers {
		lines = append(lines, s.module+"@"+s.version)
	}
	return lines
}

// peerModules are the modules whose versions the page names.
var peerModules = []string{
	"golang.org/x/time", "go.uber.org/ratelimit", "github.com/juju/ratelimit", "github.com/failsafe-go/failsafe-go", "github.com/alibaba/sentinel-golang",
	"github.com/sethvargo/go-limiter", "github.com/throttled/throttled/v2", "github.com/ulule/limiter/v3",
	"github.com/didip/tollbooth/v8", "github.com/go-redis/redis_rate/v10", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	"github.com/tidwall/redcon", "github.com/valyala/fasthttp", "google.golang.org/grpc",
}

// cost and wall are the columns of work in the contender's process.
var (
	cost   = compare.Column{Name: "cpu", Head: "CPU ns", Ratio: true}
	wall   = compare.Column{Name: "wall", Head: "wall ns", Ratio: true}
	allocs = compare.Column{Name: "allocs", Head: "allocs"}
	local  = []compare.Column{cost, wall, allocs}
)

// repeat measures work in this process. f does it n times on one goroutine; goroutines run at
// the same time. Figures are of one time of the work.
func repeat(goroutines int, f func(n int)) compare.Measure {
	each := 0
	return func(t testing.TB, d time.Duration) compare.Sample {
		for n := 64; each == 0; n *= 4 {
			if took := timed(goroutines, n, f); took > d/8 {
				each = max(1, int(float64(n)*float64(d)/float64(took)))
			}
		}
		runtime.GC()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		cpu := own(t)
		took := timed(goroutines, each, f)
		cpu = own(t) - cpu
		runtime.ReadMemStats(&after)
		n := float64(each * goroutines)
		return compare.Sample{
			"cpu": cpu / n, "wall": float64(took) / n, "allocs": float64((after.Mallocs - before.Mallocs) / uint64(n)),
		}
	}
}

// timed runs f on goroutines, n times on each.
func timed(goroutines, n int, f func(n int)) time.Duration {
	began := time.Now()
	if goroutines == 1 {
		f(n)
		return time.Since(began)
	}
	done := make(chan struct{})
	for range goroutines {
		go func() { f(n); done <- struct{}{} }()
	}
	for range goroutines {
		<-done
	}
	return time.Since(began)
}

func own(t testing.TB) float64 {
	t.Helper()
	v, err := compare.Own()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// used returns the CPU time of servers.
func used(t testing.TB, pids ...int) float64 {
	t.Helper()
	v, err := compare.CPU(pids...)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
