package weirfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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
	if _, err := weirfile.Load(path); err == nil || !strings.Contains(err.Error(), `weir.yaml:5:24: policies[0].overrides.file: "overrides.csv": want a CSV file: open `) {
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
		var adopted []string
		troubles := 0
		f := weirfile.Follower{
			Path: path, Every: time.Second,
			Adopt: func(f *weirfile.File) error {
				adopted = append(adopted, f.Policies.Policy("a").Config().Overrides[0].Limits[0].String())
				return nil
			},
			Trouble: func(err error) {
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
			if len(adopted) != step.adopted || troubles != step.troubles {
				t.Errorf("step %d: adopted %q, %d troubles, want %d and %d", i, adopted, troubles, step.adopted, step.troubles)
			}
		}
		cancel()
		<-done
	})
}

// bigTable returns a policy file with 100,000 overrides.
func bigTable(tb testing.TB) string {
	var b strings.Builder
	b.WriteString("key,limits\n")
	for i := range 100_000 {
		fmt.Fprintf(&b, "customer-%06d,%d/s burst 200; 5000/24h\n", i, 100+i%50)
	}
	return withTable(tb, "header:K", b.String())
}

// TestTableMemory checks that loading 100,000 overrides allocates at most 100 MB in total, so
// that memory grows by less.
func TestTableMemory(t *testing.T) {
	path := bigTable(t)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, err := weirfile.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 100 {
		t.Errorf("Load allocates %d MB, want at most 100", mb)
	}
	if n := len(f.Policies.Policy("a").Config().Overrides); n != 100_000 {
		t.Errorf("got %d overrides, want 100,000", n)
	}
}

// BenchmarkTable loads 100,000 overrides.
func BenchmarkTable(b *testing.B) {
	path := bigTable(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := weirfile.Load(path); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTableOfAFunctionIsRefused checks that rules of functions have lists only.
func TestTableOfAFunctionIsRefused(t *testing.T) {
	_, err := weirfile.Parse("weir.yaml", []byte("functions: { rules: [{ name: f, limits: 1/s, overrides: { file: a.csv } }] }"))
	if err == nil || !strings.Contains(err.Error(), "want a list of overrides") {
		t.Errorf("Parse = %v, want an error that asks for a list", err)
	}
}
