package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	product "github.com/floodweir/weir/flashsale/cli"
	"github.com/floodweir/weir/flashsale/verify/cli"
)

// run runs a command line without an environment.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	code = cli.Run(t.Context(), args, strings.NewReader(""), &out, &err, func(string) string { return "" })
	return code, out.String(), err.String()
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"nope", 2, `unknown command "nope"`},
		{"audit --nope", 2, "unknown flag --nope"},
		{"audit", 2, "want --data or --database"},
		{"audit --redis redis://h", 2, "--database: want a URL"},
		{"audit --data DIR --slack -1s", 2, "--slack -1s: want 0 or more"},
		{"audit --data DIR --workers -1", 2, "--workers -1: want 0 or more"},
		{"audit --data /nonexistent", 1, "auditor"},
		{"audit --data DIR --sale=", 2, `--sale "": want the IDs of sales`},
		{"lab --runs 0", 2, "--runs 0: want 1 to 100"},
		{"lab --buyers 0 --runs 1", 1, "uyers"},
		{"lab --redis nope --runs 1", 1, "redis"},
		{"load --sale s --url http://203.0.113.1", 1, "want a loopback address"},
		{"load --users 0 --sale s", 2, "--users 0: want a value above 0"},
		{"load --duration 0s --sale s", 2, "--duration 0s: want a value above 0"},
		{"load --sale s --url http://127.0.0.1:1", 1, `load: url "http://127.0.0.1:1": no response: connection refused`},
		{"load --sale s --processes shop=0", 2, "--processes shop=0: want a name and a process ID above 0"},
		{"load --sale s --processes shop=1073741824", 1, "load: processes shop=1073741824: want the ID of a process"},
		{"load --sale s --processes shop", 2, "--processes"},
		{"load --profile nope --sale s", 1, `profile "nope": want open, soldout, drain, waiting or mixed`},
	} {
		args := strings.Fields(strings.ReplaceAll(c.args, "DIR", t.TempDir()))
		code, _, stderr := run(t, args...)
		if code != c.code || !strings.Contains(stderr, c.want) || !strings.HasPrefix(stderr, "verify: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("verify %s: exit %d, %q, want exit %d and one line with %q", c.args, code, stderr, c.code, c.want)
		}
	}
}

// TestAuditWithoutSales checks that an audit of nothing is an error.
func TestAuditWithoutSales(t *testing.T) {
	data := t.TempDir()
	var out bytes.Buffer
	if code := product.Run(t.Context(), []string{"migrate", "--data", data}, strings.NewReader(""), &out, &out, func(string) string { return "" }); code != 0 {
		t.Fatalf("migrate: exit %d, %s", code, &out)
	}
	for _, c := range []struct{ args, want string }{
		{"audit", "auditor: nothing to audit: the database has 0 sales, want one that was exposed"},
		{"audit --watch 1ms", "auditor: nothing to audit: the database has 0 sales, want one that was exposed"},
		{"audit --sale nope", `auditor: nothing to audit: sale "nope": want the ID of a sale that the database has`},
	} {
		if code, stdout, stderr := run(t, append(strings.Fields(c.args), "--data", data)...); code != 1 || stdout != "" || stderr != "verify: "+c.want+"\n" {
			t.Errorf("%s: exit %d, %q %q, want exit 1 and %q", c.args, code, stdout, stderr, c.want)
		}
	}
}

// TestObservationsFile checks that a run that fails before its start keeps an existing file.
func TestObservationsFile(t *testing.T) {
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old"), filepath.Join(dir, "fresh")
	if err := os.WriteFile(old, []byte("seen\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{old, fresh} {
		if code, _, stderr := run(t, "load", "--sale", "s", "--profile", "nope", "--observations", path); code != 1 {
			t.Errorf("exit %d, %q", code, stderr)
		}
	}
	if text, err := os.ReadFile(old); err != nil || string(text) != "seen\n" {
		t.Errorf("the file from before has %q, %v", text, err)
	}
	if _, err := os.Stat(fresh); !os.IsNotExist(err) {
		t.Errorf("a file that is not needed: %v, want none", err)
	}
}

// TestPasswordsOfURLs checks that no output contains the password of a URL.
func TestPasswordsOfURLs(t *testing.T) {
	for _, args := range [][]string{
		{"audit", "--help"},
	} {
		var out bytes.Buffer
		cli.Run(t.Context(), args, strings.NewReader(""), &out, &out, func(name string) string {
			return map[string]string{"FLASHSALE_REDIS": "redis://:hunter2@h", "FLASHSALE_DATABASE": "postgres://u:hunter2@h/d"}[name]
		})
		if text := out.String(); strings.Contains(text, "hunter2") {
			t.Errorf("verify %v prints the password: %s", args, text)
		}
	}
}
