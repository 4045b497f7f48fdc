package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// withoutJSON has the commands without --json, each with its reason.
var withoutJSON = map[string]string{
	"serve":      "runs until it is stopped; --log json sets the form of its log",
	"ratelimit":  "runs until it is stopped; LOG_FORMAT=json sets the form of its log",
	"schema":     "prints JSON",
	"migrate":    "prints one line, or SQL",
	"go":         "passes its arguments to the go command",
	"edge nginx": "prints a configuration of nginx",
}

// TestEveryCommandHasJSON checks that each command prints its result as JSON, or is listed
// with a reason.
func TestEveryCommandHasJSON(t *testing.T) {
	found := map[string]bool{}
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			walk(sub)
		}
		name := strings.TrimPrefix(c.CommandPath(), "weir ")
		if c.HasSubCommands() || name == "weir" {
			return // prints its help
		}
		flag := c.Flags().Lookup("json")
		found[name] = true
		if has := flag != nil && flag.Value.Type() == "bool"; has == (withoutJSON[name] != "") {
			t.Errorf("weir %s: --json %v, and withoutJSON has %q: want one of them", name, has, withoutJSON[name])
		}
	}
	walk(newRoot(&app{getenv: func(string) string { return "" }}))
	for name := range withoutJSON {
		if !found[name] {
			t.Errorf("withoutJSON has %q: there is no such command", name)
		}
	}
	if len(found) < 15 {
		t.Errorf("%d commands, want all", len(found))
	}
}

// shape returns the fields of a JSON value, with the types of their values.
func shape(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var fields []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			fields = append(fields, name+": "+shape(v[name]))
		}
		return "{" + strings.Join(fields, ", ") + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		return "[" + shape(v[0]) + "]"
	case string:
		return "text"
	case float64:
		return "number"
	case bool:
		return "bool"
	}
	return "null"
}

// TestShapes checks the JSON of commands that need no server, which scripts depend on.
func TestShapes(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good.yaml", "policies:\n  - { name: p, key: client.ip, limits: 1/s, match: { paths: /a } }\n")
	write("bad.yaml", "policies:\n  - { name: p, key: client.ip, limits: 0/s }\n")
	write("nginx.conf", "http { limit_req_zone $binary_remote_addr zone=a:1m rate=5r/s; limit_req zone=a; limit_req_log_level info; limit_conn_zone $server_name zone=b:1m; }\n")
	write("p_test.yaml", "file: good.yaml\ntests:\n  - name: first\n    requests:\n      - { path: /a, expect: { status: 200 } }\n")
	const policy = "{key: [text], limits: [text], mode: text, name: text, percent: number}"
	for _, test := range []struct {
		args string
		code int
		want string
	}{
		{"check good.yaml", 0, "{faults: [], file: text, notes: [], policies: [" + policy + "], valid: bool}"},
		{"check bad.yaml", 1, "{faults: [{column: number, expected: text, field: text, line: number, message: text, value: text}], file: text, notes: [], policies: [], valid: bool}"},
		{"version", 0, "{arch: text, go: text, os: text, version: text}"},
		{"token mei", 0, "{line: text, name: text, role: text, token: text}"},
		{"edge lua lua", 0, "{directory: text, files: number}"},
		{"import nginx nginx.conf", 0, "{listed: [], policies: number, text: text}"},
		{"take k --store memory --limit 1/s", 0, "{at: text, capacity: number, granted: number, limit: text, ok: bool, remaining: number, reset_after: number, retry_after: number}"},
		{"explain good.yaml --url /a --ip 192.0.2.1", 0, ""},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), append(strings.Fields(test.args), "--json"), strings.NewReader(""), &out, &errs, func(string) string { return "" })
		var v any
		if err := json.Unmarshal(out.Bytes(), &v); err != nil || code != test.code || errs.Len() > 0 {
			t.Errorf("weir %s = %d %s %s, %v, want %d and JSON", test.args, code, &out, &errs, err, test.code)
		}
		if got := shape(v); test.want != "" && got != test.want {
			t.Errorf("weir %s:\n%s\nwant\n%s", test.args, got, test.want)
		}
		if !strings.Contains(string(page), test.want) {
			t.Errorf("docs/operations.md does not have the JSON of weir %s:\n%s", test.args, test.want)
		}
	}
}
