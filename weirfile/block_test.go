package weirfile_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile"
)

// inline returns a policy file with a list of overrides that is long enough to be read in pieces, and
// another policy after it.
func inline(overrides string) string {
	return "policies:\n  - name: a\n    key: header:K\n    limits: 10/s\n    overrides:  # of customers\n" + overrides +
		"    mode: shadow\n  - name: b\n    key: header:K\n    limits: 20/s\n"
}

// elements is the number of overrides of a list that is read in pieces.
const elements = 1200

// long returns n overrides with an indentation.
func long(indent string, n int) string {
	return many(n, indent+"- { key: customer-%06d, limits: [%d/s burst 200, 5000/24h] }\n")
}

// TestBlock checks long lists of overrides in the forms that a policy file can have. Each is the list
// of an included file.
func TestBlock(t *testing.T) {
	indent := func(n int) string { return strings.Repeat(" ", n) }
	budget := "policies:\n- name: a\n  budget:\n    unit: tokens\n    reserve: { max_input: 1, max_output: 1 }\n    levels:\n    - name: k\n      key: header:K\n      limits: 10/day\n" +
		"      overrides:\n" + strings.ReplaceAll(long(indent(6), elements), "5000/24h", "9000/24h") + "    - { name: o, key: const:a, limits: 20/day }\n"
	for name, text := range map[string]string{
		"one more":       inline(long(indent(6), elements)),
		"as the field":   inline(long(indent(4), elements)),
		"far right":      inline(long(indent(40), elements)),
		"with comments":  inline("\n# one\n" + long(indent(6), elements/2) + "# two\n\n      # three\n" + strings.TrimPrefix(long(indent(6), elements), long(indent(6), elements/2)) + "\n # four\n"),
		"CRLF":           strings.ReplaceAll(inline(long(indent(6), elements)), "\n", "\r\n"),
		"of a level":     budget,
		"several lines":  inline(lines(elements)),
		"with an anchor": strings.Replace(inline(strings.Replace(long(indent(6), elements), "customer-000007", "&seven customer-000007", 1)), "name: b", "name: *seven", 1),
		"a small indent": inline(strings.Replace(long(indent(6), elements), "customer-000007", "\"customer-\\\n 000007\"", 1)),
	} {
		f, err := weirfile.Parse("weir.yaml", []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		all := f.Policies.Policies()
		got := all[0].Config().Overrides
		if len(all) != 2 || len(got) != elements || all[0].Config().Mode == "shadow" == (name == "of a level") {
			t.Errorf("%s: %d policies, %d overrides, mode %q", name, len(all), len(got), all[0].Config().Mode)
		}
		for i, o := range got {
			want := fmt.Sprintf("[customer-%06d] [%d/s burst 200 ", i, 100+i%50)
			if !strings.HasPrefix(fmt.Sprint(o.Key, " ", o.Limits), want) {
				t.Errorf("%s: override %d is %v %v, want %s", name, i, o.Key, o.Limits, want)
				break
			}
		}
		if f.Text != text {
			t.Errorf("%s: Text is not that of the file", name)
		}
	}
}

// lines returns n overrides of several lines each.
func lines(n int) string {
	return many(n, "      - # a customer\n        key: customer-%06d\n        limits:\n        - %d/s burst 200\n        - 5000/24h\n")
}

// TestBlockInQuotes checks that text which only looks like overrides is left as it is.
func TestBlockInQuotes(t *testing.T) {
	body := "overrides:\n" + long("  ", elements)
	text := "policies:\n  - name: a\n    limits: 10/s\n    on_denied:\n      body: |\n        " + strings.ReplaceAll(strings.TrimSuffix(body, "\n"), "\n", "\n        ") + "\n"
	f, err := weirfile.Parse("weir.yaml", []byte(text))
	if err == nil {
		if got := f.Policies.Policy("a").Config().OnDenied.Body; got != body {
			t.Errorf("the body is %.100q… of %d bytes, want all of %d", got, len(got), len(body))
		}
	} else if !strings.Contains(err.Error(), "on_denied.body") {
		t.Error(err)
	}
	text = "functions:\n  rules:\n  - name: f\n    limits: 10/s\n    overrides:\n" + long("    ", elements)
	if f, err := weirfile.Parse("weir.yaml", []byte(text)); err != nil || len(f.Functions.Rules[0].Policy.Config().Overrides) != elements {
		t.Errorf("overrides of a function: %v, want %d", err, elements)
	}
	large := "policies:\n  - name: a\n    limits: 10/s\n    on_denied:\n      body: |\n        overrides:\n" + long("          ", 70_000)
	if _, err := weirfile.Parse("weir.yaml", []byte(large)); err == nil || !strings.Contains(err.Error(), "weir.yaml:7:1: more than 4194304 bytes: want at most 4194304 bytes outside of overrides") {
		t.Errorf("a large text that looks like overrides: %.300v", err)
	}
	large = inline("      - { key: &k k, limits: 10/s }\n" + long("      ", 70_000))
	if _, err := weirfile.Parse("weir.yaml", []byte(large)); err == nil || !strings.Contains(err.Error(), "weir.yaml:1:1: more than 4194304 bytes: want at most 4194304 bytes outside of overrides") {
		t.Errorf("a large list with an anchor: %.300v", err)
	}
}

// TestBlockErrors checks the positions of errors in and after a long list. They are those of a file
// that is read as one text, as it is with an anchor in the list.
func TestBlockErrors(t *testing.T) {
	list := long("      ", elements)
	for _, tt := range []struct{ name, last, want string }{
		{"a limit", "{ key: k, limits: 10/x }", `weir.yaml:1206:27: policies[0].overrides[1200].limits[0]: "10/x": `},
		{"a field", "{ kye: k, limits: 10/s }", `weir.yaml:1206:11: policies[0].overrides[1200].kye: unknown field, did you mean key?`},
		{"a number", "{ key: 7, limits: 10/s }", `weir.yaml:1206:16: policies[0].overrides[1200].key[0]: 7: `},
		{"a key twice", "{ limits: 10/s, key: customer-000007 }", `weir.yaml:1206:30: policies[0].overrides[1200].key: "customer-000007": want every key once: it is that of overrides[7] already`},
		{"two parts", "{ limits: 10/s, key: [k, k] }", `weir.yaml:1206:30: policies[0].overrides[1200].key: 2 values`},
		{"limits twice", "{ key: k, limits: [10/s, 10/s] }", `weir.yaml:1206:34: policies[0].overrides[1200].limits[1]: "10/s burst 10": want every limit once`},
		{"no YAML", "{ key: k", `weir.yaml:1207:`},
		{"a tag", "{ key: !x k, limits: 10/s }", `weir.yaml:1206:16: policies[0].overrides[1200].key[0]: "!x": want a plain value`},
		{"after it", "{ key: k, limits: 10/s }\n    modus: shadow", `weir.yaml:1207:5: policies[0].modus: unknown field`},
		{"a tab after it", "{ key: k, limits: 10/s }\n\tx: y", `weir.yaml:1207:`},
	} {
		small := strings.TrimSuffix(inline(list+"      - "+tt.last+"\n"), "\n")
		_, err := weirfile.Parse("weir.yaml", []byte(small))
		if !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: Parse = %.300v, want %s", tt.name, err, tt.want)
		}
		one := strings.Replace(small, "header:K", "&x header:K", 1)
		one = strings.Replace(one, "limits: [100/s", "limits: [&y 100/s", 1)
		if _, whole := weirfile.Parse("weir.yaml", []byte(one)); err == nil || whole == nil || err.Error() != whole.Error() {
			t.Errorf("%s:\n%.300v, as one text:\n%.300v", tt.name, err, whole)
		}
	}
	_, err := weirfile.Parse("weir.yaml", []byte(inline(strings.Repeat("      - { key: \"*\", limits: 1/s }\n", 100_001))))
	if err == nil || !strings.HasPrefix(err.Error(), `weir.yaml:6:7: policies[0].overrides: 100001 overrides: want at most 100000`) {
		t.Errorf("100,001 overrides: %.300v", err)
	}
	_, err = weirfile.Parse("weir.yaml", []byte(inline(strings.Replace(long("      ", 80_000), "customer-079999", "customer-000000", 1)+"      - { key: k, limits: 10/x }\n      - { key: \"k }\n")))
	if err == nil || !strings.Contains(err.Error(), "weir.yaml:80006:27: policies[0].overrides[80000].limits[0]") && !strings.Contains(err.Error(), "weir.yaml:8000") {
		t.Errorf("a large file: %.300v", err)
	}
	if _, err := weirfile.Parse("weir.yaml", []byte(inline(long("      ", 300_000)))); err == nil || !strings.Contains(err.Error(), "more than 16777216 bytes") {
		t.Errorf("a file above the maximum: %.300v", err)
	}
}

// TestBlockIncludes checks that names of included files are found beside a long list.
func TestBlockIncludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "weir.yaml")
	text := inline(long("      ", 70_000)) + "    overrides: { file: b.csv }\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := weirfile.Includes(path), []string{filepath.Join(filepath.Dir(path), "b.csv")}; !reflect.DeepEqual(got, want) {
		t.Errorf("Includes = %q, want %q", got, want)
	}
}
