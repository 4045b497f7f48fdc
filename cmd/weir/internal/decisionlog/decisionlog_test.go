package decisionlog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/cmd/weir/internal/decisionlog"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

func newPolicy(tb testing.TB, name string, mode policy.Mode) *policy.Policy {
	tb.Helper()
	p, err := policy.New(policy.Config{
		Name: name, Mode: mode, Key: []policy.KeyPart{{Source: policy.ClientIP}},
		Limits: []weir.Limit{weir.MustLimit("10/s")},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// A book is a Log whose lines the test can read.
type book struct {
	*decisionlog.Log
	out *bytes.Buffer
}

func open(tb testing.TB, c decisionlog.Config) book {
	tb.Helper()
	b := book{out: new(bytes.Buffer)}
	if c.Log == nil {
		c.Log = slog.New(slog.NewJSONHandler(b.out, nil))
	}
	var err error
	if b.Log, err = decisionlog.New(c); err != nil {
		tb.Fatal(err)
	}
	return b
}

// lines returns the lines written since the last call.
func (b book) lines(tb testing.TB) (all []map[string]any) {
	tb.Helper()
	for line := range strings.Lines(b.out.String()) {
		m := map[string]any{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			tb.Fatalf("%q: %v", line, err)
		}
		delete(m, "time")
		all = append(all, m)
	}
	b.out.Reset()
	return all
}

func want(tb testing.TB, got []map[string]any, want ...string) {
	tb.Helper()
	var texts []string
	for _, line := range got {
		b, err := json.Marshal(line)
		if err != nil {
			tb.Fatal(err)
		}
		texts = append(texts, string(b))
	}
	if strings.Join(texts, "\n") != strings.Join(want, "\n") {
		tb.Errorf("the log says\n%s\nwant\n%s", strings.Join(texts, "\n"), strings.Join(want, "\n"))
	}
}

func TestLines(t *testing.T) {
	ctx := context.Background()
	b := open(t, decisionlog.Config{Every: 1, Denied: 1, Salt: []byte("salt")})
	p, shadow := newPolicy(t, "api", policy.Enforce), newPolicy(t, "trial", policy.Shadow)
	limit := weir.MustLimit("10/s")
	for _, step := range []struct {
		e    enforce.Event
		more []slog.Attr
		want string
	}{
		{
			e:    enforce.Event{Policy: p, Key: "k", Outcome: enforce.Admitted, Decision: weir.Decision{OK: true, Limit: limit, Remaining: 9}},
			want: `{"interface":"gateway","key":"0adf6a405b15b87a","level":"INFO","limit":"10/s burst 10","msg":"decision","outcome":"admitted","policy":"api","remaining":9}`,
		},
		{
			e:    enforce.Event{Policy: p, Key: "k", Outcome: enforce.Denied, Decision: weir.Decision{Limit: limit, RetryAfter: 50 * time.Millisecond}},
			more: []slog.Attr{slog.String("method", "GET")},
			want: `{"interface":"gateway","key":"0adf6a405b15b87a","level":"INFO","limit":"10/s burst 10","method":"GET","msg":"decision","outcome":"denied","policy":"api","remaining":0,"retry_after":"50ms"}`,
		},
		{
			e:    enforce.Event{Policy: p, Key: "k", Outcome: enforce.Denied, Decision: weir.Decision{Limit: limit, RetryAfter: weir.Never}},
			want: `{"interface":"gateway","key":"0adf6a405b15b87a","level":"INFO","limit":"10/s burst 10","msg":"decision","outcome":"denied","policy":"api","remaining":0,"retry_after":"never"}`,
		},
		{
			e:    enforce.Event{Policy: p, Key: "k", Outcome: enforce.Admitted, Decision: weir.Decision{OK: true, Limit: limit, Borrowed: true}},
			want: `{"borrowed":true,"interface":"gateway","key":"0adf6a405b15b87a","level":"INFO","limit":"10/s burst 10","msg":"decision","outcome":"admitted","policy":"api","remaining":0}`,
		},
		{
			e:    enforce.Event{Policy: shadow, Shadow: true, Key: "other", Outcome: enforce.Denied, Decision: weir.Decision{Limit: limit, Delay: time.Second}},
			want: `{"delay":"1s","interface":"gateway","key":"7fb6623ba11ec865","level":"INFO","limit":"10/s burst 10","msg":"decision","outcome":"denied","policy":"trial","remaining":0,"shadow":true}`,
		},
	} {
		b.Observe(ctx, "gateway", step.e, step.more...)
		want(t, b.lines(t), step.want)
	}
	b.Observe(ctx, "gateway", enforce.Event{}) // no policy: nothing to say
	want(t, b.lines(t))
}

func TestKeys(t *testing.T) {
	ctx := context.Background()
	e := enforce.Event{Policy: newPolicy(t, "api", policy.Enforce), Key: "api|11:203.0.113.7", Outcome: enforce.Denied}
	key := func(c decisionlog.Config) any {
		c.Denied = 1
		b := open(t, c)
		b.Observe(ctx, "http", e)
		return b.lines(t)[0]["key"]
	}
	if k := key(decisionlog.Config{Keys: decisionlog.Off}); k != nil {
		t.Errorf("off: %v", k)
	}
	if k := key(decisionlog.Config{Keys: decisionlog.Plain}); k != e.Key {
		t.Errorf("plain: %v", k)
	}
	one, two := key(decisionlog.Config{}), key(decisionlog.Config{})
	if one == two || len(one.(string)) != 16 || strings.Contains(one.(string), "203") {
		t.Errorf("two processes have the hashes %v and %v, want different ones", one, two)
	}
	if a, b := key(decisionlog.Config{Salt: []byte("x")}), key(decisionlog.Config{Salt: []byte("x")}); a != b {
		t.Errorf("with one salt the hashes are %v and %v", a, b)
	}
}

// TestLineEnds checks that a key cannot end a line and begin another.
func TestLineEnds(t *testing.T) {
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		out := new(bytes.Buffer)
		b := open(t, decisionlog.Config{Denied: 1, Keys: decisionlog.Plain, Log: slog.New(handler(out))})
		b.Observe(context.Background(), "http", enforce.Event{
			Policy: newPolicy(t, "api", policy.Enforce), Outcome: enforce.Denied,
			Key: "a\r\nlevel=ERROR msg=\"forged\"\u2028\x1b[2J\x00\xff",
		}, slog.String("path", "/\n{\"level\":\"ERROR\"}"))
		if n := strings.Count(out.String(), "\n"); n != 1 || bytes.ContainsFunc(out.Bytes(), func(r rune) bool { return r < ' ' && r != '\n' || r == utf8.RuneError }) {
			t.Errorf("%s: %d lines: %q", name, n, out)
		}
	}
}

// TestLongTexts checks that long texts are cut, so the size of a line is bounded.
func TestLongTexts(t *testing.T) {
	b := open(t, decisionlog.Config{Denied: 1, Keys: decisionlog.Plain})
	long := strings.Repeat("é", 1<<20)
	b.Observe(context.Background(), "http", enforce.Event{Policy: newPolicy(t, "api", policy.Enforce), Key: long, Outcome: enforce.Denied},
		slog.String("path", long), slog.Int("port", 8080))
	if n := b.out.Len(); n > 2000 {
		t.Errorf("a line of %d bytes", n)
	}
	if line := b.lines(t)[0]; line["port"] != 8080.0 || !strings.HasPrefix(line["path"].(string), "éé") || !strings.HasSuffix(line["key"].(string), "é…") {
		t.Errorf("%v", line)
	}
}

// TestSample checks the rates of admitted and denied requests.
func TestSample(t *testing.T) {
	p := newPolicy(t, "api", policy.Enforce)
	for _, test := range []struct {
		every, denied        int
		outcome              enforce.Outcome
		leastLines, mostLine int
	}{
		{0, 0, enforce.Admitted, 0, 0},
		{0, 0, enforce.Denied, 0, 0},
		{0, 1, enforce.Admitted, 0, 0},
		{0, 1, enforce.Denied, 10_000, 10_000},
		{0, 1, enforce.FailedClosed, 10_000, 10_000},
		{0, 1, enforce.Overloaded, 10_000, 10_000},
		{1, 0, enforce.Held, 10_000, 10_000},
		{1, 0, enforce.Denied, 0, 0},
		{10, 0, enforce.Admitted, 800, 1200}, // 1000 ± 6.7 standard deviations
		{0, 100, enforce.Denied, 40, 170},
	} {
		b := open(t, decisionlog.Config{Every: test.every, Denied: test.denied, PerSecond: 1 << 30})
		for range 10_000 {
			b.Observe(context.Background(), "http", enforce.Event{Policy: p, Outcome: test.outcome})
		}
		lines := b.lines(t)
		if n := max(test.every, test.denied); n > 1 && lines[0]["every"] != float64(n) {
			t.Errorf("one of %d: the line has every %v", n, lines[0]["every"])
		}
		if n := len(lines); n < test.leastLines || n > test.mostLine {
			t.Errorf("one of %d, one of %d denied: %d lines of 10,000 %s, want %d to %d",
				test.every, test.denied, n, test.outcome, test.leastLines, test.mostLine)
		}
	}
}

// TestCap checks that the lines per second are bounded, and that the next line has the
// number of suppressed ones.
func TestCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, decisionlog.Config{Denied: 1, PerSecond: 5, Keys: decisionlog.Off})
		e := enforce.Event{Policy: newPolicy(t, "api", policy.Enforce), Outcome: enforce.Denied}
		for range 10_000 {
			b.Observe(context.Background(), "http", e)
		}
		if n := len(b.lines(t)); n != 5 {
			t.Errorf("%d lines at once, want 5", n)
		}
		time.Sleep(200 * time.Millisecond)
		b.Observe(context.Background(), "http", e)
		b.Observe(context.Background(), "http", e)
		want(t, b.lines(t), `{"interface":"http","level":"INFO","msg":"decision","outcome":"denied","policy":"api","suppressed":9995}`)
		total := 0
		for range 100 { // ten seconds
			time.Sleep(100 * time.Millisecond)
			for range 100 {
				b.Observe(context.Background(), "http", e)
			}
			total += len(b.lines(t))
		}
		if total > 5*10+5 {
			t.Errorf("%d lines in ten seconds, want at most 55", total)
		}
	})
}

// TestProblems checks that an unavailable store is logged once per second for each
// policy, even without a sample.
func TestProblems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, decisionlog.Config{})
		down := fmt.Errorf("redis: %w", weir.ErrUnavailable)
		a, c := newPolicy(t, "a", policy.Enforce), newPolicy(t, "c", policy.Enforce)
		fail := func(p *policy.Policy, n int) {
			for range n {
				b.Observe(context.Background(), "gateway", enforce.Event{Policy: p, Outcome: enforce.FailedOpen, Err: down})
			}
		}
		fail(a, 100)
		want(t, b.lines(t), `{"error":"redis: store unavailable","interface":"gateway","level":"ERROR","msg":"no decision","outcome":"failed_open","policy":"a"}`)
		fail(c, 1)
		want(t, b.lines(t), `{"error":"redis: store unavailable","interface":"gateway","level":"ERROR","msg":"no decision","outcome":"failed_open","policy":"c"}`)
		time.Sleep(999 * time.Millisecond)
		fail(a, 1)
		want(t, b.lines(t))
		time.Sleep(time.Millisecond)
		fail(a, 2)
		want(t, b.lines(t), `{"error":"redis: store unavailable","interface":"gateway","level":"ERROR","msg":"no decision","outcome":"failed_open","policy":"a","suppressed":100}`)
		time.Sleep(time.Second)
		b.Observe(context.Background(), "gateway", enforce.Event{Policy: a, Outcome: enforce.Admitted, Decision: weir.Decision{OK: true, Degraded: policy.Local}})
		want(t, b.lines(t), `{"degraded":"local","interface":"gateway","level":"WARN","msg":"decided without the store","outcome":"admitted","policy":"a"}`)
		b.Observe(context.Background(), "gateway", enforce.Event{
			Policy: c, Outcome: enforce.Admitted, Err: down, Fault: errors.New("no such key: team"), Decision: weir.Decision{OK: true, Degraded: policy.Local},
		})
		want(t, b.lines(t),
			`{"degraded":"local","error":"redis: store unavailable","interface":"gateway","level":"WARN","msg":"decided without the store","outcome":"admitted","policy":"c"}`,
			`{"error":"no such key: team","interface":"gateway","level":"WARN","msg":"expression failed","outcome":"admitted","policy":"c"}`)
		b.Observe(context.Background(), "gateway", enforce.Event{Policy: c, Outcome: enforce.Unsettled, Err: down})
		want(t, b.lines(t), `{"error":"redis: store unavailable","interface":"gateway","level":"ERROR","msg":"cost not settled","outcome":"unsettled","policy":"c"}`)

		b.Observe(context.Background(), "gateway", enforce.Event{Policy: c, Outcome: enforce.Unpriced, Cost: 20, Err: budget.ErrNoUsage})
		want(t, b.lines(t), `{"charged":20,"error":"budget: response without a cost","interface":"gateway","level":"WARN","msg":"cost unknown","outcome":"unpriced","policy":"c"}`)
		b.Observe(context.Background(), "gateway", enforce.Event{Policy: c, Outcome: enforce.Unpriced, Cost: 20, Err: budget.ErrExhausted})
		want(t, b.lines(t), `{"charged":20,"interface":"gateway","level":"WARN","msg":"stream ended by its budget","outcome":"unpriced","policy":"c"}`)

		gone, cancel := context.WithCancel(context.Background())
		cancel()
		time.Sleep(time.Second)
		b.Observe(gone, "gateway", enforce.Event{Policy: a, Outcome: enforce.FailedClosed, Err: context.Canceled})
		want(t, b.lines(t)) // the client left
	})
}

// TestProblemsAreBounded checks that a changing set of policies is bounded in lines and
// memory by a thousand.
func TestProblemsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, decisionlog.Config{})
		for i := range 5000 {
			b.Observe(context.Background(), "http", enforce.Event{
				Policy: newPolicy(t, fmt.Sprint("p", i), policy.Enforce), Outcome: enforce.FailedOpen, Err: weir.ErrUnavailable,
			})
		}
		if n := len(b.lines(t)); n != 1001 {
			t.Errorf("%d lines for 5000 policies, want 1000 and one for all others", n)
		}
	})
}

func TestRefused(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	for text, c := range map[string]decisionlog.Config{
		"Log: invalid: want a logger, got nil":                     {},
		"Every: invalid: want one of 0 or more, got -1":            {Log: log, Every: -1},
		"Denied: invalid: want one of 0 or more, got -2":           {Log: log, Denied: -2},
		"PerSecond: invalid: want 0 or more lines, got -3":         {Log: log, PerSecond: -3},
		`Keys: invalid: want hash, plain or off, got "everything"`: {Log: log, Keys: "everything"},
	} {
		if _, err := decisionlog.New(c); err == nil || err.Error() != "decisionlog: "+text || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("%+v: %v, want %s", c, err, text)
		}
	}
}

// TestQuiet checks that an event that is not logged allocates nothing, also in parallel.
func TestQuiet(t *testing.T) {
	ctx := context.Background()
	e := enforce.Event{Policy: newPolicy(t, "api", policy.Enforce), Outcome: enforce.Admitted}
	off := open(t, decisionlog.Config{})
	if n := testing.AllocsPerRun(100, func() { off.Observe(ctx, "http", e) }); n != 0 {
		t.Errorf("%v allocations for nothing", n)
	}
	errorsOnly := open(t, decisionlog.Config{Every: 1, Log: slog.New(slog.NewTextHandler(new(bytes.Buffer), &slog.HandlerOptions{Level: slog.LevelError}))})
	if n := testing.AllocsPerRun(100, func() { errorsOnly.Observe(ctx, "http", e) }); n != 0 {
		t.Errorf("%v allocations at a disabled level", n)
	}
	busy := open(t, decisionlog.Config{Every: 1, PerSecond: 10})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 1000 {
				busy.Observe(ctx, "http", e)
			}
		})
	}
	all.Wait()
	if n := len(busy.lines(t)); n < 10 || n > 100 {
		t.Errorf("%d lines of 8000, want about 10", n)
	}
}

func BenchmarkObserve(b *testing.B) {
	log, err := decisionlog.New(decisionlog.Config{Log: slog.New(slog.NewJSONHandler(new(discard), nil)), Every: 1000, Denied: 1})
	if err != nil {
		b.Fatal(err)
	}
	p := newPolicy(b, "api", policy.Enforce)
	for _, o := range []enforce.Outcome{enforce.Admitted, enforce.Denied} {
		e := enforce.Event{Policy: p, Key: "api|11:203.0.113.7", Outcome: o}
		b.Run(string(o), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				log.Observe(context.Background(), "http", e)
			}
		})
	}
}

type discard struct{}

func (*discard) Write(p []byte) (int, error) { return len(p), nil }

// TestPriceVersion checks that the line of a budget in US dollars has the version of the prices.
func TestPriceVersion(t *testing.T) {
	prices, err := budget.NewPrices("", budget.Price{Models: []string{"m1"}, Input: "1", Output: "10"})
	if err != nil {
		t.Fatal(err)
	}
	for unit, version := range map[budget.Unit]any{budget.USD: prices.Version(), budget.Tokens: nil} {
		meter, err := budget.NewMeter(budget.MeterConfig{Unit: unit, Prices: prices})
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.New(policy.Config{
			Name: "ai", Key: []policy.KeyPart{{Source: policy.ClientIP}}, Limits: []weir.Limit{weir.MustLimit("1000000/day")}, Settle: policy.Settle{Meter: meter},
		})
		if err != nil {
			t.Fatal(err)
		}
		b := open(t, decisionlog.Config{Every: 1})
		b.Observe(t.Context(), "gateway", enforce.Event{Policy: p, Outcome: enforce.Admitted})
		if lines := b.lines(t); len(lines) != 1 || lines[0]["prices"] != version {
			t.Errorf("%s: lines %v, want prices %v", unit, lines, version)
		}
	}
}
