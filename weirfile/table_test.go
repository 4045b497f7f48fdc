package weirfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile"
)

// withTable writes a policy file whose overrides are in a table, and the table. It returns the
// path of the policy file.
func withTable(tb testing.TB, key, table string) string {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range map[string]string{
		"weir.yaml":     "policies:\n  - name: a\n    key: " + key + "\n    limits: 10/s\n    overrides: { file: overrides.csv }\n",
		"overrides.csv": table,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return filepath.Join(dir, "weir.yaml")
}

func TestTable(t *testing.T) {
	path := withTable(t, `[client.ip, "header:X-Team"]`, "\ufeffclient.ip,header:X-Team,limits\r\n"+
		"203.0.113.7,ops,1000/s\n10.0.0.0/8,*,\"100/s; 5000/24h\"\n\n*,\"a, \"\"b\"\"\",0\n*,partner-*,unlimited\n")
	f, err := weirfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range f.Policies.Policy("a").Config().Overrides {
		got = append(got, fmt.Sprintf("%q %v %t %t", o.Key, o.Limits, o.Block, o.Unlimited))
	}
	want := []string{
		`["203.0.113.7" "ops"] [1000/s burst 1000] false false`, `["10.0.0.0/8" "*"] [100/s burst 100 5000/24h burst 5000] false false`,
		`["*" "a, \"b\""] [] true false`, `["*" "partner-*"] [] false true`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("overrides:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if got := weirfile.Includes(path); len(got) != 1 || got[0] != filepath.Join(filepath.Dir(path), "overrides.csv") {
		t.Errorf("Includes = %q, want the table", got)
	}
}

func TestTableErrors(t *testing.T) {
	for _, tt := range []struct{ name, table, want string }{
		{"no header", "k1,10/s\n", `overrides.csv:1:1: policies[0].overrides: "k1,10/s": want the columns header:K,limits in the first line`},
		{"empty", "", `overrides.csv:1:1: policies[0].overrides: "": want the columns`},
		{"a limit", "key,limits\nk1,10/s\nk2,10/x\n", `overrides.csv:3:1: policies[0].overrides[1].limits: "10/x": `},
		{"a second limit", "key,limits\nk1,10/s;\n", `overrides.csv:2:1: policies[0].overrides[0].limits: "10/s;": `},
		{"no limit", "key,limits\nk1,\n", `overrides.csv:2:1: policies[0].overrides[0].limits: "": `},
		{"no key", "key,limits\n,10/s\n", `overrides.csv:2:1: policies[0].overrides[0].key[0]: "": want a value`},
		{"a column more", "key,limits\nk1,10/s,20/s\n", `overrides.csv:2:1: policies[0].overrides: want CSV with 2 columns: wrong number of fields`},
		{"a quote", "key,limits\nk1,10/s\n\"k2,10/s\n", `overrides.csv:`},
		{"a key twice", "header:K,limits\nk1,10/s\n\nk1,20/s\n", `overrides.csv:4:1: policies[0].overrides[1].key: "k1": want every key once`},
		{"limits twice", "key,limits\nk1,10/s;10/s\n", `overrides.csv:2:1: policies[0].overrides[0].limits[1]: "10/s burst 10": want every limit once`},
		{"another encoding", "key,limits\n\xff,10/s\n", `overrides.csv:1:1: policies[0].overrides: want text in UTF-8`},
		{"too many", "key,limits\n" + strings.Repeat("*,1/s\n", 100_001), `weir.yaml:5:16: policies[0].overrides: 100001 overrides: want at most 100000`},
		{"too large", "key,limits\n" + strings.Repeat(" ", 16<<20), `overrides.csv:1:1: policies[0].overrides: more than`},
	} {
		path := withTable(t, "header:K", tt.table)
		_, err := weirfile.Load(path)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""), tt.want) {
			t.Errorf("%s: Load = %v, want %s", tt.name, err, tt.want)
		}
	}
	path := withTable(t, "header:K", "")
	if err := os.Remove(filepath.Join(filepath.Dir(path), "overrides.csv")); err != nil {
		t.Fatal(err)
	}
	if _, err := weirfile.Load(path); err == nil || !strings.Contains(err.Error(), `weir.yaml:5:24: policies[0].overrides.file: "overrides.csv": want a CSV or YAML file: open `) {
		t.Errorf("Load without the table = %v, want an error of the field", err)
	}
	if _, err := weirfile.Parse("weir.yaml", []byte("policies: [{ name: a, key: client.ip, limits: 1/s, overrides: { file: /etc/passwd } }]")); err == nil ||
		!strings.Contains(err.Error(), "only a policy file on disk can name another file") {
		t.Errorf("Parse of a text that names a file = %v, want an error", err)
	}
}

// TestFollowTable checks that a change of a table is adopted, and that a table with an error
// keeps the limits until it is corrected.
func TestFollowTable(t *testing.T) {
	path := withTable(t, "header:K", "key,limits\nk,1/s\n")
	table := filepath.Join(filepath.Dir(path), "overrides.csv")
	write := func(text string) {
		if err := os.WriteFile(table, []byte(text), 0o600); err != nil {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var adopted []string
		troubles := 0
		f := weirfile.Follower{
			Path: path, Every: time.Second,
			Adopt: func(f *weirfile.File) error {
				mu.Lock()
				defer mu.Unlock()
				adopted = append(adopted, f.Policies.Policy("a").Config().Overrides[0].Limits[0].String())
				return nil
			},
			Trouble: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					troubles++
				}
			},
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- f.Run(ctx) }()
		for i, step := range []struct {
			do       func()
			adopted  int
			troubles int
		}{
			{func() {}, 1, 0},
			{func() {}, 1, 0},
			{func() { write("key,limits\nk,20/s\n") }, 2, 0},
			{func() { write("key,limits\nk,20/x1\n") }, 2, 1},
			{func() {}, 2, 1},
			{func() { os.Remove(table) }, 2, 2},
			{func() { write("key,limits\nk,3000/s\n") }, 3, 2},
		} {
			step.do()
			<-time.After(time.Second)
			synctest.Wait()
			mu.Lock()
			if len(adopted) != step.adopted || troubles != step.troubles {
				t.Errorf("step %d: adopted %q, %d troubles, want %d and %d", i, adopted, troubles, step.adopted, step.troubles)
			}
			mu.Unlock()
		}
		cancel()
		<-done
	})
}

// bigTable returns a policy file with 100,000 overrides in CSV.
func bigTable(tb testing.TB) string {
	return withTable(tb, "header:K", "key,limits\n"+many(100_000, "customer-%06d,%d/s burst 200; 5000/24h\n"))
}

// many returns the text of n overrides.
func many(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i, 100+i%50)
	}
	return b.String()
}

// TestBillingDays checks a billing day for each key, in both formats of files.
func TestBillingDays(t *testing.T) {
	for name, path := range map[string]string{
		"CSV":  withTable(t, "header:K", "key,limits\n"+many(31, "k%d,%[1]d1/month calendar Europe/Berlin day %[2]d\n")),
		"YAML": withList(t, "header:K", many(31, "- { key: k%d, limits: { rate: %[1]d1/month, calendar: Europe/Berlin, day: %[2]d } }\n")),
	} {
		_, err := weirfile.Load(path)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), "1 to 31") {
			t.Errorf("%s: Load of the days 100 to 149 = %v, want an error", name, err)
		}
	}
	var csv, list strings.Builder
	csv.WriteString("key,limits\n")
	for day := 1; day <= 31; day++ {
		fmt.Fprintf(&csv, "k%d,1000/month calendar Europe/Berlin day %[1]d\n", day)
		fmt.Fprintf(&list, "- { key: k%d, limits: { rate: 1000/month, calendar: Europe/Berlin, day: %[1]d } }\n", day)
	}
	for name, path := range map[string]string{"CSV": withTable(t, "header:K", csv.String()), "YAML": withList(t, "header:K", list.String())} {
		f, err := weirfile.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range f.Policies.Policy("a").Config().Overrides {
			if c, ok := o.Limits[0].Config().(weir.FixedWindow); !ok || c.Calendar != "month" || max(1, c.Day) != i+1 || o.Key[0] != fmt.Sprintf("k%d", i+1) {
				t.Errorf("%s: override %d is %q %+v", name, i, o.Key, o.Limits)
			}
		}
	}
}

// bigFiles returns policy files with 100,000 overrides: in CSV, in YAML, and in the file itself.
func bigFiles(tb testing.TB) map[string]string {
	const element = "- { key: customer-%06d, limits: [%d/s burst 200, 5000/24h] }\n"
	inline := filepath.Join(tb.TempDir(), "inline.yaml")
	if err := os.WriteFile(inline, []byte("policies:\n- name: a\n  key: header:K\n  limits: 10/s\n  overrides:\n"+many(100_000, "  "+element)), 0o600); err != nil {
		tb.Fatal(err)
	}
	return map[string]string{"CSV": bigTable(tb), "YAML": withList(tb, "header:K", many(100_000, element)), "inline": inline}
}

// withList is withTable for a list in YAML.
func withList(tb testing.TB, key, list string) string {
	tb.Helper()
	path := withTable(tb, key, "")
	text, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, []byte(strings.Replace(string(text), "overrides.csv", "overrides.yaml", 1)), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(path), "overrides.yaml"), []byte(list), 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// TestList checks overrides in a YAML file, which is read in pieces.
func TestList(t *testing.T) {
	var list strings.Builder
	list.WriteString("# Customers.\n---\n")
	for i := range 5000 {
		fmt.Fprintf(&list, "- key: [203.0.%d.%d, # an address\n    'team - %d']\n  limits:\n    - %d/s\n", i/250, i%250, i, 100+i%50)
	}
	list.WriteString("- { key: [10.0.0.0/8, \"*\"], limits: 0 }\n- { key: [\"*\", \"\"], limits: unlimited }")
	f, err := weirfile.Load(withList(t, `[client.ip, "header:X-Team"]`, list.String()))
	if err != nil {
		t.Fatal(err)
	}
	got := f.Policies.Policy("a").Config().Overrides
	for i, want := range map[int]string{
		0: `["203.0.0.0" "team - 0"] [100/s burst 100] false false`, 4999: `["203.0.19.249" "team - 4999"] [149/s burst 149] false false`,
		5000: `["10.0.0.0/8" "*"] [] true false`, 5001: `["*" ""] [] false true`,
	} {
		if o := got[i]; len(got) != 5002 || fmt.Sprintf("%q %v %t %t", o.Key, o.Limits, o.Block, o.Unlimited) != want {
			t.Errorf("override %d of %d: %q %v, want %s", i, len(got), o.Key, o.Limits, want)
		}
	}
}

func TestListErrors(t *testing.T) {
	long := many(2000, "- { key: k%d, limits: %d/s }\n") // several pieces
	for _, tt := range []struct{ name, list, want string }{
		{"empty", "", `overrides.yaml:1:1: policies[0].overrides: want a list of overrides`},
		{"a comment", "# none\n", `overrides.yaml:1:1: policies[0].overrides: want a list of overrides`},
		{"a map", "overrides: []\n", `overrides.yaml:1:1: policies[0].overrides: a map: want a list of overrides`},
		{"a limit", long + "- { key: k, limits: 10/x }", `overrides.yaml:2001:21: policies[0].overrides[2000].limits[0]: "10/x": `},
		{"a field", long + "- { kye: k, limits: 10/s }", `overrides.yaml:2001:5: policies[0].overrides[2000].kye: unknown field, did you mean key?`},
		{"a key twice", long + "- { key: k7, limits: 10/s }", `overrides.yaml:2001:10: policies[0].overrides[2000].key: "k7": want every key once: it is that of overrides[7] already`},
		{"no YAML", long + "- { key: k", `overrides.yaml:2001:`},
		{"an anchor elsewhere", "- { key: &k k, limits: 10/s }\n" + long + "- { key: *k, limits: 10/s }", `overrides.yaml:2002:10: policies[0].overrides: `},
		{"no list at the end", long + "limits: 1/s\n", `overrides.yaml:`},
		{"too many", strings.Repeat("- { key: \"*\", limits: 1/s }\n", 100_001), `weir.yaml:5:16: policies[0].overrides: 100001 overrides: want at most 100000`},
		{"too large", "- " + strings.Repeat(" ", 16<<20), `overrides.yaml:1:1: policies[0].overrides: more than`},
	} {
		path := withList(t, "header:K", tt.list)
		_, err := weirfile.Load(path)
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(strings.ReplaceAll(err.Error(), filepath.Dir(path)+"/", ""), tt.want) {
			t.Errorf("%s: Load = %.500v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestTableMemory checks that the heap grows by at most 100 MB while 100,000 overrides are loaded. CSV
// allocates no more than that in total.
func TestTableMemory(t *testing.T) {
	for name, path := range bigFiles(t) {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		peak := watchHeap()
		f, err := weirfile.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if mb := int64(peak()-before.HeapAlloc) >> 20; mb > 100 {
			t.Errorf("%s: the heap grows by %d MB, want at most 100", name, mb)
		}
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; name == "CSV" && mb > 100 {
			t.Errorf("Load allocates %d MB, want at most 100", mb)
		}
		if n := len(f.Policies.Policy("a").Config().Overrides); n != 100_000 {
			t.Errorf("%s: got %d overrides, want 100,000", name, n)
		}
	}
}

// watchHeap returns a function that returns the largest heap until then.
func watchHeap() (stop func() uint64) {
	done, peak := make(chan struct{}), make(chan uint64)
	go func() {
		most := uint64(0)
		for heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}; ; {
			metrics.Read(heap)
			most = max(most, heap[0].Value.Uint64())
			select {
			case <-done:
				peak <- most
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() uint64 {
		close(done)
		return <-peak
	}
}

// BenchmarkTable loads many overrides. Peak is the largest heap during a load, above that before.
func BenchmarkTable(b *testing.B) {
	for name, path := range bigFiles(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var base runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&base)
			peak := watchHeap()
			for b.Loop() {
				if _, err := weirfile.Load(path); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(peak()-base.HeapAlloc)/1e6, "peak-MB")
		})
	}
}

// TestTableOfAFunctionIsRefused checks that rules of functions have lists only.
func TestTableOfAFunctionIsRefused(t *testing.T) {
	_, err := weirfile.Parse("weir.yaml", []byte("functions: { rules: [{ name: f, limits: 1/s, overrides: { file: a.csv } }] }"))
	if err == nil || !strings.Contains(err.Error(), "want a list of overrides") {
		t.Errorf("Parse = %v, want an error that asks for a list", err)
	}
}
