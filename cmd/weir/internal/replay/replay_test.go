package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/accesslog"
	"github.com/floodweir/weir/cmd/weir/internal/replay"
	"github.com/floodweir/weir/weirfile"
)

func side(t testing.TB, name, policies string) replay.Side {
	t.Helper()
	f, err := weirfile.Parse(name, []byte("policies:\n"+policies))
	if err != nil {
		t.Fatal(err)
	}
	return replay.Side{Name: name, File: f}
}

func run(t testing.TB, log string, c replay.Config, sides ...replay.Side) *replay.Report {
	t.Helper()
	r, err := accesslog.NewReader("log", strings.NewReader(log), accesslog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	report, err := replay.Run([]*accesslog.Reader{r}, sides, c)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

const perClient = "  - { name: api, match: { paths: [/api/*] }, key: [client.ip], limits: [2/s] }\n"

// TestRun replays a log with times in µs: the third request of a client within a second is
// denied, in the order of arrival, not of the log.
func TestRun(t *testing.T) {
	log := "time,client_ip,method,path,status\n" +
		"1764000000.100000,192.0.2.1,GET,/api/a,200\n" +
		"1764000000.300000,192.0.2.1,GET,/api/late,200\n" +
		"1764000000.200000,192.0.2.1,GET,/api/b,200\n" +
		"1764000000.250000,192.0.2.2,GET,/api/a,429\n" +
		"1764000000.260000,192.0.2.1,HEAD,/other,200\n" +
		"1764000000.599999,192.0.2.1,HEAD,/api/c,429\n" + // refilled at .6
		"1764000000.600000,192.0.2.1,GET,/api/d.css,200\n"
	good := func(a netip.Addr) bool { return a == netip.MustParseAddr("192.0.2.1") }
	report := run(t, log, replay.Config{Good: good}, side(t, "a.yaml", perClient), side(t, "b.yaml", strings.ReplaceAll(perClient, "2/s", "1/s")))
	c := report.Sides[0].Spacings[0].Counts
	want := replay.Counts{Requests: 7, Denied: 2, Clients: 1, Methods: 1, Good: replay.Good{Requests: 6, Denied: 2}, Both: 1, OnlyLog: 1, OnlyReplay: 1}
	if c != want || report.WholeSeconds || len(report.Sides[0].Spacings) != 1 {
		t.Errorf("counts = %+v, want %+v", c, want)
	}
	d := report.Sides[0].Differences
	if len(d) != 2 || d[0].Client.String() != "192.0.2.2" || d[0].Policy != "" || d[1].Path != "/api/late" || d[1].Policy != "api" {
		t.Errorf("differences = %+v, want the 429 of 192.0.2.2 and /api/late", d)
	}
	if b := report.Sides[1].Spacings[0].Counts; b.Denied != 4 || b.Static != 1 {
		t.Errorf("b.yaml: %+v, want 4 denied, 1 static", b)
	}
	top := report.Sides[0].Spacings[0].Top
	if len(top) != 1 || top[0].Denied != 2 || !top[0].Good || top[0].First.Nanosecond() != 300e6 || top[0].Last.Nanosecond() != 599999e3 {
		t.Errorf("top = %+v, want two denials of 192.0.2.1 at .3 and .599999", top)
	}
}

// TestWholeSeconds checks the range of a log without fractions of a second.
func TestWholeSeconds(t *testing.T) {
	log := "time,client_ip,path\n" + strings.Repeat("1764000000,192.0.2.1,/api/\n", 4) + strings.Repeat("1764000002,192.0.2.1,/api/\n", 4)
	report := run(t, log, replay.Config{}, side(t, "a.yaml", perClient))
	s := report.Sides[0].Spacings
	if len(s) != 2 || s[0].Denied != 4 || s[1].Denied != 2 { // evenly, each fourth refills: at .5
		t.Errorf("spacings = %+v, want 4 and 2 denied", s)
	}
	if rows := fmt.Sprint(report.Rows()); !strings.Contains(rows, "{denied [2 to 4]}") {
		t.Errorf("rows = %s, want denied 2 to 4", rows)
	}
}

// TestTime checks policies for which the end of a request matters: a queue delays it, slots
// are returned at its end, and only failures count.
func TestTime(t *testing.T) {
	row := func(at, status, duration string) string {
		return fmt.Sprintf("1764000000.%s,192.0.2.1,/,%s,%s\n", at, status, duration)
	}
	log := "time,client_ip,path,status,duration\n" + row("000", "500", "0.150") + row("100", "200", "0.150") + row("200", "200", "0.150") + row("250", "500", "0.010") + row("500", "200", "0")
	for _, test := range []struct {
		policy          string
		denied, delayed int
	}{
		{"  - { name: p, key: [client.ip], limits: [1 concurrency] }\n", 2, 0}, // at .1 and .25
		{"  - { name: p, key: [client.ip], limits: [5/s leaky_bucket burst 1 queue] }\n", 1, 3},
		{"  - { name: p, key: [client.ip], limits: [1/m], count: failures }\n", 4, 0}, // the first failed
		{"  - { name: p, key: [client.ip], limits: [10/s burst 1], on_denied: { wait: 1s } }\n", 0, 1},
	} {
		c := run(t, log, replay.Config{}, side(t, "a.yaml", test.policy)).Sides[0].Spacings[0].Counts
		if c.Denied != test.denied || c.Delayed != test.delayed {
			t.Errorf("%s%d denied, %d delayed, want %d and %d", test.policy, c.Denied, c.Delayed, test.denied, test.delayed)
		}
	}
}

// TestReport checks candidates, skipped requests, values that the log does not have, and that
// pages escape texts of clients.
func TestReport(t *testing.T) {
	log := `{"time":1764000000.5,"ip":"192.0.2.1","method":"GET","path":"/<script>","status":429,"user_agent":"<b>"}` + "\n" +
		`{"time":1764000000.6,"ip":"192.0.2.1","path":"/healthz"}` + "\nnoise\n" +
		`{"time":1764000000.7,"ip":"192.0.2.1","method":"GET","path":"/<script>","status":200}` + "\n" +
		`{"time":1764000000.8,"ip":"192.0.2.1","method":"GET","path":"/","headers":{"x-api-key":["k"]}}` + "\n"
	report := run(t, log, replay.Config{Skip: func(e *accesslog.Entry) bool { return e.Path == "/healthz" }},
		side(t, "a.yaml", "  - { name: p, key: [header:X-Api-Key], limits: [1/m], candidate: [2/m] }\n"))
	var text, page bytes.Buffer
	if err := errors.Join(report.WriteText(&text, 5, true), report.WriteHTML(&page)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"3 requests from 2025-11-24 16:00:00", "5 lines, 1 skipped", `note: 1 lines do not have the format, such as "noise"`,
		"a.yaml: policies read the header X-Api-Key, which the log does not have for", "1 requests of the log have status 429",
		"p~candidate", "requests/s: · offered  ─ denied", "here admitted", "here denied by p",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text has no %q:\n%s", want, text.String())
		}
	}
	if strings.Contains(page.String(), "<script>") || !strings.Contains(page.String(), "/&lt;script&gt;") || !strings.Contains(page.String(), "<svg") {
		t.Errorf("the page escapes no paths or has no plot:\n%s", page.String())
	}
	if m := regexp.MustCompile(`(?i)(src|href)=|https?://[^w]`).FindString(page.String()); m != "" {
		t.Errorf("the page refers to %q", m)
	}
}

// TestEmpty checks the error of a log without requests.
func TestEmpty(t *testing.T) {
	r, err := accesslog.NewReader("log", strings.NewReader("\n"), accesslog.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := replay.Run([]*accesslog.Reader{r}, []replay.Side{side(t, "a.yaml", perClient)}, replay.Config{}); !errors.Is(err, weir.ErrInvalid) {
		t.Errorf("Run of an empty log = %v, want an error", err)
	}
}

// BenchmarkRun replays lines of the format combined through one policy.
func BenchmarkRun(b *testing.B) {
	var log strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&log, `198.51.%d.%d - - [24/Nov/2025:16:%02d:%02d +0000] "GET /api/items/%d HTTP/1.1" 200 512 "-" "Mozilla/5.0 (X11; Linux x86_64) Chrome/12%d.0"`+"\n", i%7, i*i%251, i/6000%60, i/100%60, i%5000, i%9)
	}
	s := side(b, "a.yaml", strings.ReplaceAll(perClient, "2/s", "10/s burst 20"))
	b.ReportAllocs()
	for b.Loop() {
		run(b, log.String(), replay.Config{}, s)
	}
	b.ReportMetric(200_000*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
