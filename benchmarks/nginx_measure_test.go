package benchmarks

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/e2e/redistest"
)

// Settings of every way.
const (
	wrkThreads     = 2
	wrkConnections = 32
)

// A group is a set of processes whose CPU time is summed.
type group int

// The groups. The last one is the load generator.
const (
	nginxGroup group = iota
	weirGroup
	redisGroup
	upstreamGroup
	wrkGroup
	groups
)

// A sample holds the measurements of one way in one round.
type sample struct {
	rate     float64         // requests per second
	cpu      [groups]float64 // µs per request
	p50, p99 time.Duration   // reported by wrk
	bad      float64         // the share of requests with a status other than 2xx and 3xx
}

// servers returns the CPU time of all groups except the generator.
func (s sample) servers() (sum float64) {
	for _, v := range s.cpu[:wrkGroup] {
		sum += v
	}
	return sum
}

var (
	wrkRequests = regexp.MustCompile(`(\d+) requests in `)
	wrkRate     = regexp.MustCompile(`Requests/sec:\s+([\d.]+)`)
	wrkOthers   = regexp.MustCompile(`Non-2xx or 3xx responses: (\d+)`)
	wrkHalf     = regexp.MustCompile(`50%\s+([\d.]+)(us|ms|s)`)
	wrkMost     = regexp.MustCompile(`99%\s+([\d.]+)(us|ms|s)`)
)

// processes are the measured processes, by group. Redis, which may be nil, reports its time itself.
type processes struct {
	pids  [groups][]int
	redis *redistest.Server
}

// times returns the CPU times of the groups in µs, without the generator.
func (p *processes) times(b testing.TB) (t [groups]float64) {
	b.Helper()
	parents := parents(b)
	for g, pids := range p.pids {
		for pid := range parents {
			if slices.Contains(pids, pid) || slices.Contains(pids, parents[pid]) {
				t[g] += ticks(b, pid)
			}
		}
	}
	if p.redis != nil {
		t[redisGroup] = cpu(b, p.redis) * 1e6
	}
	return t
}

// parents returns the parent of every process.
func parents(b testing.TB) map[int]int {
	b.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		b.Fatalf("CPU times come from /proc, of Linux: %d processes, %v", len(files), err)
	}
	all := map[int]int{}
	for _, f := range files {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
		if err != nil {
			b.Fatal(err)
		}
		if fields := stat(pid); fields != nil {
			all[pid], _ = strconv.Atoi(fields[1])
		}
	}
	return all
}

// stat returns the fields of /proc/PID/stat from the state on; nil if the process has ended.
func stat(pid int) []string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ") // skip the process name
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return nil
	}
	return fields
}

// ticks returns the CPU time of a process in µs. The clock of /proc ticks 100 times a second
// on every Linux that Go supports.
func ticks(b testing.TB, pid int) float64 {
	b.Helper()
	fields := stat(pid)
	if fields == nil {
		return 0
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	if err := errors.Join(err, err2); err != nil {
		b.Fatal(err)
	}
	return (user + system) * 1e4
}

// measure runs wrk at full speed and returns a sample.
func (p *processes) measure(b testing.TB, url string, seconds int) (s sample) {
	b.Helper()
	before := p.times(b)
	cmd := exec.CommandContext(b.Context(), "wrk", "--latency", fmt.Sprintf("-t%d", wrkThreads),
		fmt.Sprintf("-c%d", wrkConnections), fmt.Sprintf("-d%ds", seconds), url)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("wrk (Debian: apt-get install wrk): %v\n%s", err, out)
	}
	after := p.times(b)
	if strings.Contains(string(out), "Socket errors") {
		b.Fatalf("wrk met errors at %s:\n%s", url, out)
	}
	requests := number(b, out, wrkRequests)
	if requests == 0 {
		b.Fatalf("wrk got no answer from %s:\n%s", url, out)
	}
	if wrkOthers.Match(out) {
		s.bad = number(b, out, wrkOthers) / requests
	}
	for g := range groups {
		s.cpu[g] = (after[g] - before[g]) / requests
	}
	state := cmd.ProcessState
	s.cpu[wrkGroup] = float64((state.UserTime() + state.SystemTime()).Microseconds()) / requests
	s.rate, s.p50, s.p99 = number(b, out, wrkRate), span(b, out, wrkHalf), span(b, out, wrkMost)
	return s
}

func number(b testing.TB, out []byte, r *regexp.Regexp) float64 {
	b.Helper()
	m := r.FindSubmatch(out)
	if m == nil {
		b.Fatalf("wrk says nothing that fits %v:\n%s", r, out)
	}
	v, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return v
}

func span(b testing.TB, out []byte, r *regexp.Regexp) time.Duration {
	b.Helper()
	v := number(b, out, r)
	unit := map[string]time.Duration{"us": time.Microsecond, "ms": time.Millisecond, "s": time.Second}[string(r.FindSubmatch(out)[2])]
	return time.Duration(v * float64(unit))
}

// median returns the median of each figure over all rounds: of two, the lower.
func median(all []sample) (m sample) {
	middle := func(f func(sample) float64) float64 {
		vs := make([]float64, len(all))
		for i, s := range all {
			vs[i] = f(s)
		}
		slices.Sort(vs)
		return vs[(len(vs)-1)/2]
	}
	m.rate = middle(func(s sample) float64 { return s.rate })
	for g := range m.cpu {
		m.cpu[g] = middle(func(s sample) float64 { return s.cpu[g] })
	}
	m.p50 = time.Duration(middle(func(s sample) float64 { return float64(s.p50) }))
	m.p99 = time.Duration(middle(func(s sample) float64 { return float64(s.p99) }))
	return m
}

// spread returns the spread of the rates of the rounds: (most - least) / median.
func spread(all []sample) float64 {
	least, most := math.Inf(1), 0.0
	for _, s := range all {
		least, most = min(least, s.rate), max(most, s.rate)
	}
	return (most - least) / median(all).rate
}
