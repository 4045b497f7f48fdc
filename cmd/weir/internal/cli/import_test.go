package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/cli"
)

// TestImportExitCodes checks exit codes, which the scripts do not distinguish.
func TestImportExitCodes(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.json", `[{"resource": "/x", "count": 1}]`)
	listed := write("listed.json", `[{"resource": "/x", "count": 1, "strategy": 1, "refResource": "/y"}]`)
	broken := write("broken.json", `[{"resource": "/x", "count": 0}`)
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"import"}, 0},
		{[]string{"import", "sentinel", good}, 0},
		{[]string{"import", "sentinel", listed}, 3},
		{[]string{"import", "sentinel", broken}, 1},
		{[]string{"import", "nginx", broken}, 1},
		{[]string{"import", "envoy", broken}, 1},
		{[]string{"import", "sentinel", filepath.Join(dir, "nowhere")}, 2},
		{[]string{"import", "nginx", filepath.Join(dir, "nowhere")}, 2},
		{[]string{"import", "envoy", filepath.Join(dir, "nowhere")}, 2},
		{[]string{"import", "sentinel", dir}, 2},
		{[]string{"import", "sentinel"}, 2},
		{[]string{"import", "envoy"}, 2},
		{[]string{"import", "nonsense"}, 2},
		{[]string{"import", "sentinel", good, "--nonsense"}, 2},
		{[]string{"import", "sentinel", good, "-o", filepath.Join(dir, "nowhere", "x")}, 1},
	} {
		var out, errs bytes.Buffer
		got := cli.Run(t.Context(), test.args, strings.NewReader(""), &out, &errs, func(string) string { return "" })
		if got != test.want || (got != 0) != (errs.Len() > 0) {
			t.Errorf("weir %s = %d, want %d, and says\n%s", strings.Join(test.args, " "), got, test.want, errs.String())
		}
	}
}
