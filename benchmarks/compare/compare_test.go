package compare_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/benchmarks/compare"
)

var contender = flag.String("contender", "", "for child processes of TestRun: the contender to serve")

// contenders cost 10, 30, and 5 in the first round and a failure in the second. The last two
// fail at once.
var contenders = []compare.Contender{
	{Name: "base", Open: costs(10, 20)},
	{Name: "dear", Open: costs(30, 80)},
	{Name: "once", Open: costs(5)},
	{Name: "fatal", Open: func(t testing.TB) compare.Measure { t.Fatal("no such server"); return nil }},
	{Name: "panics", Open: func(testing.TB) compare.Measure { panic("out of luck") }},
}

func costs(rounds ...float64) func(testing.TB) compare.Measure {
	return func(testing.TB) compare.Measure {
		n := 0
		return func(t testing.TB, _ time.Duration) compare.Sample {
			if n == len(rounds) {
				t.Fatal("used up")
			}
			n++
			return compare.Sample{"cost": rounds[n-1]}
		}
	}
}

// TestRun runs contenders in processes and checks ratios, goals, tables and plots.
func TestRun(t *testing.T) {
	for _, c := range contenders {
		if c.Name == *contender {
			compare.Serve(t, c, os.Stdin, os.Stdout)
			return
		}
	}
	row := compare.Row{
		Name: "test/row", Title: "a row", Base: "base", Contenders: contenders,
		Columns: []compare.Column{{Name: "cost", Head: "ns", Ratio: true}},
		Goals: []compare.Goal{
			{Contender: "dear", Column: "cost", Least: 3.5}, {Contender: "once", Column: "cost", Least: 1},
			{Contender: "fatal", Column: "cost", Least: 1}, {Column: "cost", Most: 15},
		},
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	results := compare.Run([]compare.Row{row}, compare.Options{
		Rounds: 2, Time: time.Millisecond, Logf: t.Logf,
		Command: func(_, contender string) *exec.Cmd {
			return exec.Command(program, "-test.run=^TestRun$", "-contender="+contender)
		},
	})
	r := results[0]
	for name, want := range map[string][2]float64{"base": {15, 1}, "dear": {55, 3.5}, "once": {5, 0.5}, "fatal": {}} {
		v, _ := r.Value(name, "cost")
		x, ok := r.Ratio(name, "cost")
		if v != want[0] || x != want[1] || ok != (want[0] > 0) {
			t.Errorf("%s: cost %v, ratio %v, %v; want %v", name, v, x, ok, want)
		}
	}
	for i, want := range []string{"", "", "used up", "no such server", "out of luck"} {
		if got := r.Outcomes[i].Failure; !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%s: failure %q, want %q", r.Outcomes[i].Name, got, want)
		}
	}

	var goals, table, plot bytes.Buffer
	compare.Goals(&goals, results)
	r.Table(&table)
	compare.Plot(&plot, "costs & ratios", results)
	for _, want := range []string{
		"test/row  dear / base, ns   ≥ 3.50×     3.50×           yes\n", "once / base, ns   ≥ 1.00×     0.50×            no\n",
		"fatal / base, ns  ≥ 1.00×         –  not measured\n", "base, ns           ≤ 15.0      15.0           yes\n",
	} {
		if !strings.Contains(goals.String(), want) {
			t.Errorf("goals have no %q:\n%s", want, goals.String())
		}
	}
	for _, want := range []string{"base       15.0  1.00×\n", "once       5.00  0.50×\n", "fatal: not measured: ", "panics: not measured: "} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table has no %q:\n%s", want, table.String())
		}
	}
	if text := plot.String(); strings.Count(text, "<rect") != 3 || !strings.Contains(text, "costs &amp; ratios") || !strings.Contains(text, "3.50×") {
		t.Errorf("plot:\n%s", text)
	}
}

func TestReplace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("a\n<!-- x -->\nold\n<!-- /x -->\nb\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := compare.Replace(page, "x", "new"); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if want := "a\n<!-- x -->\n\nnew\n<!-- /x -->\nb\n"; err != nil || string(text) != want {
		t.Errorf("page = %q, %v, want %q", text, err, want)
	}
	if err := compare.Replace(page, "y", "new"); err == nil || !strings.Contains(err.Error(), "<!-- y -->") {
		t.Errorf("Replace of a section that is missing = %v", err)
	}
}

// TestCPU checks that work of this process counts, in both clocks.
func TestCPU(t *testing.T) {
	own, err := compare.Own()
	if err != nil {
		t.Fatal(err)
	}
	all, err := compare.CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for sum, i := 0, 0; ; i++ {
		sum += i * i
		if i%1000 == 0 {
			now, err := compare.Own()
			if err != nil {
				t.Fatal(err)
			}
			if now-own > 50e6 {
				break
			}
		}
	}
	after, err := compare.CPU(os.Getpid())
	if err != nil || after-all < 40e6 {
		t.Errorf("CPU time of 50 ms of work = %v ms, %v", (after-all)/1e6, err)
	}
	if _, err := compare.CPU(1 << 30); err == nil {
		t.Error("CPU of a process that does not exist = nil error")
	}
}
