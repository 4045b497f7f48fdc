package benchmarks

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-analyze/charts"

	"github.com/floodweir/weir/contrib/failsafe"
	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/protect"
)

// plot writes the plots of docs/protection.md.
var plot = flag.String("plot", "", "directory for the plots of protections")

// deadline bounds the wait of a client for a response. The client then tries again at once, twice.
const deadline = 2 * time.Second

// A resource serves a number of requests at a time, in order of arrival, also those whose client
// has given up. Beyond its backlog it fails at once. It runs in the virtual time of synctest.
type resource struct {
	slots chan struct{}

	mu    sync.Mutex
	takes time.Duration
	queue int

	busy  int
	used  time.Duration // of its slots
	since time.Time
}

const backlog = 10_000

var errFull = errors.New("backlog full")

func newResource(slots int) *resource {
	return &resource{slots: make(chan struct{}, slots), takes: 20 * time.Millisecond, since: time.Now()}
}

// change changes the number of waiting and served requests, and returns the time of a request.
func (r *resource) change(waiting, busy int) (takes time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if waiting > 0 && r.queue >= backlog {
		return 0, false
	}
	r.used += time.Duration(r.busy) * time.Since(r.since)
	r.since, r.busy, r.queue = time.Now(), r.busy+busy, r.queue+waiting
	return r.takes, true
}

func (r *resource) serve() bool {
	if _, ok := r.change(1, 0); !ok {
		return false
	}
	r.slots <- struct{}{}
	takes, _ := r.change(-1, 1)
	<-time.After(takes)
	r.change(0, -1)
	<-r.slots
	return true
}

// CPU implements protect.MetricReader: a slot is a processor.
func (r *resource) CPU() (time.Duration, float64, error) {
	r.change(0, 0)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used, float64(cap(r.slots)), nil
}

func (r *resource) Memory() (int64, int64, error) { return 0, 1, nil }
func (r *resource) Load() (float64, error)        { return 0, nil }

// A second counts the attempts that ended in it. Those that found the backlog full are rejected.
type second struct {
	good, rejected int
	took           []time.Duration // of admitted attempts, at most deadline
}

func (s *second) p99() float64 {
	if len(s.took) == 0 {
		return charts.GetNullValue()
	}
	slices.Sort(s.took)
	return float64(s.took[len(s.took)*99/100].Milliseconds())
}

// A scenario is an open-loop load: arrivals do not depend on responses.
type scenario struct {
	slots   int
	seconds int
	rate    func(second int) int // requests that arrive per second, without repeated attempts
	takes   func(second int) time.Duration
}

// run returns the counts by second, of all classes together and of critical requests alone. One of
// five is critical, two are batch.
func (c scenario) run(t *testing.T, protections func(*resource) []protect.Protection) (all, critical []second) {
	all, critical = make([]second, c.seconds), make([]second, c.seconds)
	synctest.Test(t, func(t *testing.T) {
		r := newResource(c.slots)
		chain := protect.New(protect.Config{Protections: protections(r)})
		var mu sync.Mutex
		began := time.Now()
		count := func(class string, took time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			at := int(time.Since(began) / time.Second)
			for _, seconds := range [][]second{all, critical} {
				switch s := &seconds[min(at, c.seconds-1)]; {
				case at >= c.seconds:
				case took < 0:
					s.rejected++
				default:
					s.took = append(s.took, took)
					if took < deadline {
						s.good++
					}
				}
				if class != "critical" {
					return
				}
			}
		}
		var clients sync.WaitGroup
		for at := range c.seconds {
			r.mu.Lock()
			r.takes = c.takes(at)
			r.mu.Unlock()
			n := c.rate(at)
			for i := range n {
				class := []string{"critical", "", "batch", "", "batch"}[i%5]
				clients.Go(func() { attempts(chain, r, class, count, &clients) })
				<-time.After(time.Until(began.Add(time.Duration(at)*time.Second + time.Duration(i+1)*time.Second/time.Duration(n))))
			}
		}
		clients.Wait()
	})
	return all, critical
}

// attempts is a client with two repeated attempts: at once after deadline, or else after a second. It
// counts the time of each, or -1 if there was no response.
func attempts(chain *protect.Chain, r *resource, class string, count func(string, time.Duration), running *sync.WaitGroup) {
	for range 3 {
		start, done := time.Now(), make(chan bool, 1)
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		ctx, pass, err := chain.Enter(ctx, class)
		if err != nil {
			cancel()
			count(class, -1)
			<-time.After(time.Second)
			continue
		}
		running.Go(func() { done <- r.serve() })
		served := true
		select {
		case served = <-done:
		case <-ctx.Done():
		}
		cancel()
		took := time.Since(start)
		switch {
		case !served:
			pass.End(errFull)
			count(class, -1)
			<-time.After(time.Second)
		case took < deadline:
			pass.End(nil)
			count(class, took)
			return
		default:
			pass.End(context.DeadlineExceeded)
			count(class, took)
		}
	}
}

func upstream(s guard.Settings) func(*resource) []protect.Protection {
	return func(*resource) []protect.Protection {
		all, err := failsafe.ForRequests("upstream", s)
		if err != nil {
			panic(err)
		}
		return all
	}
}

func none(*resource) []protect.Protection { return nil }

func system(r *resource) []protect.Protection {
	s, err := protect.NewSystem(protect.SystemConfig{CPU: 80, Metrics: r, Classes: []protect.Class{{Name: "critical", ShedAt: 100}, {Name: "batch", ShedAt: 70}}})
	if err != nil {
		panic(err)
	}
	return s.Protections(false)
}

var (
	adaptive = upstream(guard.Settings{Adaptive: &guard.Adaptive{Min: 10, Max: 400, Initial: 50}})
	breaker  = upstream(guard.Settings{Breaker: &guard.Breaker{Slow: time.Second, SlowRate: 60, Of: 20, Period: 10 * time.Second, Cooldown: 10 * time.Second, Trials: 3}})
)

func good(seconds []second) (values []float64) {
	for _, s := range seconds {
		values = append(values, float64(s.good))
	}
	return values
}

func p99(seconds []second) (values []float64) {
	for _, s := range seconds {
		values = append(values, s.p99())
	}
	return values
}

func sum(values []float64) (total float64) {
	for _, v := range values {
		total += v
	}
	return total
}

// draw writes a line chart, which is readable on light and dark pages, if there is a directory.
func draw(t *testing.T, file, title string, labels []string, names []string, lines ...[]float64) {
	t.Helper()
	if *plot == "" {
		return
	}
	gray := charts.ColorRGB(128, 128, 128)
	o := charts.NewLineChartOptionWithData(lines)
	o.Theme = charts.GetTheme(charts.ThemeLight).WithBackgroundColor(charts.ColorTransparent).WithTextColor(gray).
		WithXAxisColor(gray).WithYAxisColor(gray).WithAxisSplitLineColor(charts.Color{R: 128, G: 128, B: 128, A: 64}).
		WithSeriesColors([]charts.Color{charts.ColorRGB(213, 94, 0), charts.ColorRGB(0, 140, 200), charts.ColorRGB(0, 158, 115)})
	o.Title.Text = title
	o.XAxis.Labels = labels
	if len(labels) > 20 {
		o.XAxis.LabelCount = len(labels) / 10 // each 10 s
	}
	o.Legend.SeriesNames = names
	o.Legend.Offset = charts.OffsetRight
	o.Symbol = charts.Symbol{Shape: charts.SymbolNone}
	o.LineStrokeWidth = 1.5
	p := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: 720, Height: 260})
	if err := p.LineChart(o); err != nil {
		t.Fatal(err)
	}
	text, err := p.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(*plot+"/"+file, text, 0o644); err != nil {
		t.Fatal(err)
	}
}

func seconds(n int) (labels []string) {
	for i := range n {
		labels = append(labels, fmt.Sprint(i, " s"))
	}
	return labels
}

// TestProtectSlowUpstream slows an upstream that serves 1,000 requests per second from 20 ms down
// to 1 s, and lets it recover, while 800 requests per second arrive.
func TestProtectSlowUpstream(t *testing.T) {
	c := scenario{slots: 20, seconds: 91, rate: func(int) int { return 800 }, takes: func(second int) time.Duration {
		if second >= 20 && second < 40 {
			return time.Second
		}
		return 20 * time.Millisecond
	}}
	without, _ := c.run(t, none)
	adapted, _ := c.run(t, adaptive)
	broken, _ := c.run(t, breaker)
	names := []string{"without", "adaptive", "breaker"}
	draw(t, "protection-slow-goodput.svg", "Good responses per second", seconds(c.seconds), names, good(without), good(adapted), good(broken))
	draw(t, "protection-slow-p99.svg", "p99 of admitted requests, ms", seconds(c.seconds), names, p99(without), p99(adapted), p99(broken))
	for name, got := range map[string]struct {
		seconds     []second
		least, most float64 // of the 8,000 of the last 10 s
	}{"without": {without, 0, 800}, "adaptive": {adapted, 7200, 8800}, "breaker": {broken, 7200, 8800}} {
		n := sum(good(got.seconds)[80:90])
		if t.Logf("%s: %v", name, good(got.seconds)); n < got.least || n > got.most {
			t.Errorf("%s: %v good responses in the last 10 s, want %v to %v", name, n, got.least, got.most)
		}
	}
}

// TestProtectCPU offers a process with 8 processors, which serves 400 requests per second, 1,200 of
// them for 30 s.
func TestProtectCPU(t *testing.T) {
	c := scenario{slots: 8, seconds: 81, takes: func(int) time.Duration { return 20 * time.Millisecond }, rate: func(second int) int {
		if second >= 10 && second < 40 {
			return 1200
		}
		return 200
	}}
	without, _ := c.run(t, none)
	with, critical := c.run(t, system)
	names := []string{"without", "with", "with: critical"}
	draw(t, "protection-cpu-goodput.svg", "Good responses per second", seconds(c.seconds), names, good(without), good(with), good(critical))
	draw(t, "protection-cpu-p99.svg", "p99 of admitted requests, ms", seconds(c.seconds), names, p99(without), p99(with), p99(critical))
	t.Logf("without %v\nwith %v\ncritical %v", good(without), good(with), good(critical))
	if n := sum(good(with)[15:40]); n < 0.9*25*400 {
		t.Errorf("%v good responses in 25 s at full CPU, want 90 %% of 10000", n)
	}
	if n := sum(good(without)[15:40]); n > 0.2*25*400 {
		t.Errorf("%v good responses without protection, want a collapse", n)
	}
	for i, s := range critical {
		if s.rejected > 0 {
			t.Errorf("second %d: %d critical requests rejected, want none", i, s.rejected)
		}
	}
}

// TestProtectLoad offers an upstream from half to three times what it can serve. The plot has more
// loads between them.
func TestProtectLoad(t *testing.T) {
	step := 125
	if *plot != "" {
		step = 50
	}
	var labels []string
	var lines [3][]float64
	for percent := 50; percent <= 300; percent += step {
		labels = append(labels, fmt.Sprintf("%d %%", percent))
		c := scenario{slots: 20, seconds: 20, rate: func(int) int { return 10 * percent }, takes: func(int) time.Duration { return 20 * time.Millisecond }}
		for i, p := range []func(*resource) []protect.Protection{none, adaptive, upstream(guard.Settings{Bulkhead: &guard.Bulkhead{Max: 40}})} {
			all, _ := c.run(t, p)
			lines[i] = append(lines[i], sum(good(all)[10:])/10/10)
		}
	}
	draw(t, "protection-load.svg", "Good responses, % of capacity", labels, []string{"without", "adaptive", "bulkhead"}, lines[0], lines[1], lines[2])
	t.Logf("%v\n%v", labels, lines)
	for i, at := range labels {
		offered := float64(50 + step*i)
		for _, line := range lines[1:] {
			if line[i] < 0.9*min(100, offered) {
				t.Errorf("at %s: %.0f %% of the capacity, want 90 %% of what can be served", at, line[i])
			}
		}
	}
	if last := lines[0][len(labels)-1]; last > 20 {
		t.Errorf("without protection %.0f %% at three times the capacity, want a collapse", last)
	}
}
