package benchmarks

import (
	"flag"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

var (
	nginxRounds = flag.Int("nginx.rounds", 3, "rounds of BenchmarkNginx: every way once in each")
	nginxWays   = flag.String("nginx.ways", "", "measure only nginx and the ways whose name has this in it")
)

// BenchmarkNginx compares the ways in which nginx and Weir limit requests with nginx without
// limits. All servers start first, then each way is measured in rounds of -benchtime in whole
// seconds. The final table has the medians of the rounds. It takes about 21 ways · 3 rounds ·
// 1 s.
func BenchmarkNginx(b *testing.B) {
	seconds := benchSeconds(b)
	ways, p := startWays(b)
	ways = chosen(ways)
	for _, w := range ways {
		warm(b, w)
	}
	all := make([][]sample, len(ways))
	for range max(1, *nginxRounds) {
		for i, w := range ways {
			s := p.measure(b, w.url, seconds)
			if want := b2f(w.denied); math.Abs(s.bad-want) > 0.0001 {
				b.Fatalf("%s: %.4f of the answers of %s are refusals, want %v", w.name, s.bad, w.url, want)
			}
			all[i] = append(all[i], s)
		}
	}
	for i, w := range ways {
		m := median(all[i])
		b.Run(w.title(), func(b *testing.B) {
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(m.rate, "req/s")
			b.ReportMetric(m.servers(), "cpu-µs/req")
			b.ReportMetric(float64(m.p50.Microseconds()), "p50-µs")
			b.ReportMetric(float64(m.p99.Microseconds()), "p99-µs")
		})
	}
	fmt.Fprintf(os.Stdout, "\n%d rounds of %d s, wrk -t%d -c%d, on %d cores, which wrk shares; medians. Between rounds the requests/s of one way differed by up to %.0f %%.\n\n%s\n",
		max(1, *nginxRounds), seconds, wrkThreads, wrkConnections, runtime.NumCPU(), 100*worst(all), table(ways, all))
}

func (w way) title() string {
	if w.denied {
		return w.name + ", denied"
	}
	return w.name
}

func chosen(ways []way) (some []way) {
	for i, w := range ways {
		if i == 0 || strings.Contains(w.title(), *nginxWays) {
			some = append(some, w)
		}
	}
	return some
}

// benchSeconds returns -benchtime in whole seconds, at least one.
func benchSeconds(b *testing.B) int {
	b.Helper()
	text := flag.Lookup("test.benchtime").Value.String()
	d, err := time.ParseDuration(text)
	if err != nil {
		return 1 // a number of times, such as 1x
	}
	return max(1, int(d.Seconds()))
}

// warm sends requests until connections exist and Lua is compiled, and checks the responses. A
// way that denies admits only what its limit allows.
func warm(b *testing.B, w way) {
	b.Helper()
	want := 200
	if w.denied {
		want = 429
		await(b, w.url, want)
	}
	for range 500 {
		if got, err := get(b.Context(), w.url); got != want {
			b.Fatalf("%s: GET %s = %d, %v, want %d", w.name, w.url, got, err, want)
		}
	}
}

func b2f(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

func worst(all [][]sample) (most float64) {
	for _, s := range all {
		most = max(most, spread(s))
	}
	return most
}

// table returns a Markdown table. The ratios are relative to the first way.
func table(ways []way, all [][]sample) string {
	var t strings.Builder
	base := median(all[0])
	for _, denied := range []bool{false, true} {
		what := "admitted"
		if denied {
			what = "denied"
		}
		fmt.Fprintf(&t, "| %s | requests/s | ratio | CPU µs/request | ratio | nginx | weir | redis | upstream | (wrk) | p50 | p99 |\n", what)
		t.WriteString("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n")
		for i, w := range ways {
			if w.denied != denied {
				continue
			}
			m := median(all[i])
			fmt.Fprintf(&t, "| %s | %.0f | %.2f | %.1f | %.2f |", w.name, m.rate, m.rate/base.rate, m.servers(), m.servers()/base.servers())
			for _, v := range m.cpu {
				fmt.Fprintf(&t, " %s |", micros(v))
			}
			fmt.Fprintf(&t, " %s | %s |\n", millis(m.p50), millis(m.p99))
		}
		t.WriteString("\n")
	}
	return t.String()
}

// micros formats a time and omits values that idle processes use.
func micros(v float64) string {
	if v < 0.5 {
		return "–"
	}
	return fmt.Sprintf("%.1f", v)
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
