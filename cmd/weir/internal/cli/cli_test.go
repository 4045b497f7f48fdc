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
		{[]string{"serve", bad}, 1},
		{[]string{"serve", "--drain", "soon"}, 1},
		{[]string{"serve", "one", "two"}, 2},
		{[]string{"serve", ""}, 2}, // an empty argument, such as from an unset variable, does not start the demo
		{[]string{"take", "k", "--store", "memory", "--limit", "1/s"}, 0},
		{[]string{"take", "k", "--store", "memory", "--limit", "1/s", "-n", "2"}, 1},
		{[]string{"take", "k", "--store", "memory", "--limit", "1/s", "-n", "0"}, 0},
		{[]string{"take", "k", "--store", "memory", "--limit", "0/s"}, 2},
		{[]string{"take", "k", "--store", "memory"}, 2},
		{[]string{"take", "k", "--nonsense"}, 2},
		{[]string{"take", "k", "--limit", "1/s", "--server", "http://127.0.0.1:1"}, 2},
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
