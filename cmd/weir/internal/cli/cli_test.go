package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/cli"
)

// TestExitCodes checks exit codes, which the scripts in testdata do not distinguish.
func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", "policies:\n  - { name: p, key: [client.ip], limits: [1/s] }\n")
	bad := write("bad.yaml", "policies:\n  - { name: p, key: [client.ip], limits: [0/s] }\n")
	nowhere := filepath.Join(dir, "nowhere.yaml")
	for _, test := range []struct {
		args []string
		want int
	}{
		{nil, 0},
		{[]string{"version"}, 0},
		{[]string{"nonsense"}, 2},
		{[]string{"version", "--nonsense"}, 2},
		{[]string{"check", good}, 0},
		{[]string{"check", bad}, 1},
		{[]string{"check", nowhere}, 2},
		{[]string{"check"}, 2},
		{[]string{"help", "serve"}, 0},
		{[]string{"help", "nonsense"}, 2},
		{[]string{"help", "key", "nonsense"}, 2},
		{[]string{"completion"}, 0},
		{[]string{"completion", "nonsense"}, 2},
		{[]string{"completion", "bash", "nonsense"}, 2},
		{[]string{"serve", bad}, 1},
		{[]string{"serve", bad, "--drain", "soon"}, 1},
		{[]string{"serve", good, "--drain", "soon"}, 2},
		{[]string{"serve", "--drain", "soon"}, 2},
		{[]string{"serve", nowhere}, 2},
		{[]string{"serve", "--http-token-file", nowhere}, 2},
		{[]string{"serve", "one", "two"}, 2},
		{[]string{"serve", ""}, 2}, // an empty argument, such as from an unset variable, does not start the demo
		{[]string{"take", "k", "--store", "memory", "--limit", "1/s"}, 0},
		{[]string{"take", "k", "--store", "memory", "--limit", "1/s", "-n", "2"}, 1},
		{[]string{"take", "k", "--store", "memory", "--limit", "1/s", "-n", "0"}, 0},
		{[]string{"take", "k", "--store", "memory", "--limit", "0/s"}, 2},
		{[]string{"take", "k", "--store", "memory"}, 2},
		{[]string{"take", "k", "--nonsense"}, 2},
		{[]string{"take", "k", "--limit", "1/s", "--server", "http://127.0.0.1:1"}, 2},
		{[]string{"audit", "--admin", "http://127.0.0.1:1"}, 1},
		{[]string{"audit", "--admin", "nonsense"}, 2},
		{[]string{"sim", "0/s"}, 2},
		{[]string{"replay", "-", "--policies", bad}, 1},
		{[]string{"replay", "-", "--policies", nowhere}, 2},
		{[]string{"replay", "-", "--running", "--admin", "http://127.0.0.1:1"}, 1},
		{[]string{"replay", "-", "--running", "--admin", "nonsense"}, 2},
		{[]string{"replay", nowhere, "--policies", good}, 2},
	} {
		var out, errs bytes.Buffer
		got := cli.Run(t.Context(), test.args, strings.NewReader(""), &out, &errs, func(string) string { return "" })
		if got != test.want {
			t.Errorf("weir %s = %d, want %d\n%s%s", strings.Join(test.args, " "), got, test.want, out.String(), errs.String())
		}
		if said := errs.Len() > 0; said == (got == 0 || got == 1 && test.args[0] == "take") {
			t.Errorf("weir %s = %d, and says %q to stderr", strings.Join(test.args, " "), got, errs.String())
		}
	}
}

// TestCheckOfBudgets checks that weir check prints by how much a budget can be exceeded.
func TestCheckOfBudgets(t *testing.T) {
	for reserve, want := range map[string]string{
		"{ max_output: 500 }":            "(in tokens; exceeded by at most the excess of requests in flight over the bytes of the body and 1000 input and 500 output tokens)",
		"{ max_input: 100, step: 50 }":   "over 100 input and 4096 output tokens; streams, in steps of 50, by what the count of a step misses, such as hidden reasoning, and what is generated until the upstream is canceled)",
		"{ step: 50 }, exhausted: allow": "over the bytes of the body and 1000 input and 4096 output tokens)",
	} {
		file := "policies: [{ name: ai, budget: { unit: tokens, levels: [{ name: all, key: const:all, limits: 100000/day }], reserve: " + reserve + " } }]"
		var out, errs bytes.Buffer
		if code := cli.Run(t.Context(), []string{"check", "-"}, strings.NewReader(file), &out, &errs, func(string) string { return "" }); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("check = %d\n%s%s\nwant %s", code, out.String(), errs.String(), want)
		}
	}
}
