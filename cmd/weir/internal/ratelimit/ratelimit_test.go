package ratelimit_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/ratelimit"
)

func load(t *testing.T, name string) *ratelimit.Config {
	t.Helper()
	c, err := ratelimit.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// entriesOf reads "key=value key=value".
func entriesOf(text string) []ratelimit.Entry {
	var es []ratelimit.Entry
	for _, w := range strings.Fields(text) {
		k, v, _ := strings.Cut(w, "=")
		es = append(es, ratelimit.Entry{Key: k, Value: v})
	}
	return es
}

func TestMatch(t *testing.T) {
	d := load(t, "testdata/good/basic.yaml").Domain("test-domain")
	for _, test := range []struct{ entries, want string }{
		{"key1=value1 subkey1=x", "key1_value1.subkey1 5/s fixed_window anchor epoch"},
		{"key1=value1 subkey1=subvalue1", "key1_value1.subkey1_subvalue1 10/s fixed_window anchor epoch"},
		{"key1=value1", ""},
		{"key1=value1 subkey1=x more=y", ""},
		{"key2=any", "key2 20/m fixed_window anchor epoch"},
		{"key2=", "key2 20/m fixed_window anchor epoch"},
		{"key2=value3", ""},
		{"key5=value5", "key5_value5 15/24h fixed_window anchor epoch"},
		{"key5=value5 subkey5=subvalue5", "key5_value5.subkey5_subvalue5 25/24h fixed_window anchor epoch"},
		{"key5=value5 subkey5=other", ""},
		{"key6=x", "key6 "}, // unlimited
		{"holes=x", "hole* 4294967295/8760h fixed_window anchor epoch"},
		{"hole=", "hole* 4294967295/8760h fixed_window anchor epoch"},
		{"empty=", ""},
		{"other=", ""},
		{"", ""},
	} {
		m, ok := d.Match(entriesOf(test.entries))
		got := ""
		if ok {
			got = m.Label + " " + m.Limit.Limit.String()
		}
		if got != test.want {
			t.Errorf("Match(%s) = %q, want %q", test.entries, got, test.want)
		}
	}
	var none *ratelimit.Config
	if _, ok := none.Domain("x").Match(entriesOf("a=b")); ok || none.Domains() != nil || none.Files() != nil {
		t.Error("the nil Config has a domain")
	}
}

// TestYAML11 checks that files are read as YAML 1.1 where envoyproxy/ratelimit does so.
func TestYAML11(t *testing.T) {
	c := load(t, "testdata/good/merge.yaml")
	ds := c.Domain("merged").Descriptors
	if len(ds) != 3 {
		t.Fatalf("%d descriptors, want 3", len(ds))
	}
	for i, want := range []struct {
		value  string
		count  uint32
		shadow bool
	}{{"1", 1000, true}, {"2", 1000, false}, {"true", 16, true}} {
		d := ds[i]
		if d.Key != "a" || d.Value != want.value || d.Limit.RequestsPerUnit != want.count || d.Limit.Shadow != want.shadow || d.Limit.Window != time.Minute {
			t.Errorf("descriptors[%d] = %+v, %+v, want %+v", i, d, d.Limit, want)
		}
	}
	want := map[string]any{
		"1": "one", "n": 16.0, "f": 1.5, "on": "yes", "nothing": nil, "day": "2026-01-01", "list": []any{1.0, map[string]any{"a": "b"}},
	}
	if got := ds[2].Metadata; !reflect.DeepEqual(got, want) {
		t.Errorf("metadata = %v, want %v", got, want)
	}
}

// TestKeys checks that different descriptors have different keys.
func TestKeys(t *testing.T) {
	c, err := ratelimit.Parse("f", []byte(`
domain: d
descriptors:
  - {key: a, rate_limit: &l {unit: second, requests_per_unit: 1}, descriptors: [{key: a, rate_limit: *l}, {key: a_b, rate_limit: *l}]}
  - {key: a_b, rate_limit: *l, descriptors: [{key: a, rate_limit: *l}]}
  - {key: a, value: "s*", share_threshold: true, rate_limit: *l}
  - {key: b, value: "s*", rate_limit: *l}
`))
	if err != nil {
		t.Fatal(err)
	}
	d, seen := c.Domain("d"), map[string]string{}
	long := strings.Repeat("x", 100_000)
	for _, es := range [][]ratelimit.Entry{
		{{"a", "b_c"}}, {{"a_b", "c"}}, {{"a", "b"}}, {{"a", "b"}, {"a", "c"}}, {{"a", "b_a_c"}}, {{"a", "b"}, {"a_b", "c"}},
		{{"a_b", "a"}, {"a", "c"}}, {{"a", "b|1:a|1:c"}}, {{"a", ""}}, {{"a", "\x00"}}, {{"a", "1:b"}}, {{"a", "|"}},
		{{"a", "s1"}}, {{"b", "s1"}}, {{"b", "s*"}}, {{"a", long}}, {{"a", long + "y"}}, {{"a_b", long}}, {{"b", "s" + long}},
	} {
		m, ok := d.Match(es)
		if !ok {
			t.Errorf("no match of %.40q", es)
			continue
		}
		if other, known := seen[m.Key]; known {
			t.Errorf("%.40q and %s have the key %q", es, other, m.Key)
		}
		seen[m.Key] = fmt.Sprintf("%.40q", es)
		if len(m.Key) > 256 || len(m.Label) > 200 {
			t.Errorf("key of %d bytes, label of %d", len(m.Key), len(m.Label))
		}
	}
	one, _ := d.Match(entriesOf("a=s1"))
	two, _ := d.Match(entriesOf("a=s*"))
	if one.Key != two.Key {
		t.Errorf("keys %q and %q, want the same: the threshold is shared", one.Key, two.Key)
	}
	if got := d.Key([]ratelimit.Entry{{"b", "x"}}); got == "" {
		t.Error("Key() is empty")
	}
}

// TestLabels checks the labels of matches.
func TestLabels(t *testing.T) {
	c, err := ratelimit.Parse("f", []byte(`
domain: d
descriptors:
  - {key: a, detailed_metric: true, rate_limit: &l {unit: second, requests_per_unit: 1}}
  - key: route
    value: api/*
    share_threshold: true
    descriptors: [{key: m, detailed_metric: true, rate_limit: *l}]
  - key: w
    value: x*
    value_to_metric: true
    descriptors: [{key: m, rate_limit: *l}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ entries, label, path string }{
		{"a=1", "a_1", "a"},
		{"a=", "a", "a"},
		{"a=" + strings.Repeat("é", 200), "a_" + strings.Repeat("é", 97) + "…", "a"},
		{"route=api/v1 m=GET", "route_api/*.m_GET", "route_api/*.m"},
		{"w=xyz m=GET", "w_xyz.m", "w_x*.m"},
	} {
		m, _ := c.Domain("d").Match(entriesOf(test.entries))
		if m.Label != test.label || m.Path != test.path {
			t.Errorf("%.20s: label %q of %q, want %q of %q", test.entries, m.Label, m.Path, test.label, test.path)
		}
	}
}

// TestLoadDirectory checks which files of a directory are read.
func TestLoadDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"..data", "sub", ".git"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "..data/b.yaml", "domain: b")
	write(t, dir, ".git/c.yaml", "broken: [")
	write(t, dir, ".hidden.yaml", "broken: [")
	write(t, dir, "README.md", "broken: [")
	write(t, dir, "a.yml", "domain: a")
	write(t, dir, "sub/c.yaml", "domain: c")
	if err := os.Symlink(filepath.Join("..data", "b.yaml"), filepath.Join(dir, "b.yaml")); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "current")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		c := load(t, path)
		var names []string
		for _, d := range c.Domains() {
			names = append(names, d.Name+" "+strings.TrimPrefix(d.File, path))
		}
		if got, want := strings.Join(names, ", "), "a /a.yml, b /b.yaml, c /sub/c.yaml"; got != want || len(c.Files()) != 3 {
			t.Errorf("Load(%s) = %s of %v, want %s", path, got, c.Files(), want)
		}
	}
}

func TestLoadMerged(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "1.yaml", "domain: d\ndescriptors: [{key: a, rate_limit: {unit: second, requests_per_unit: 1}}]")
	write(t, dir, "2.yaml", "domain: d\ndescriptors: [{key: b, rate_limit: {unit: second, requests_per_unit: 2}}]")
	c, err := ratelimit.LoadMerged(dir)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]uint32{"a": 1, "b": 2} {
		if m, ok := c.Domain("d").Match([]ratelimit.Entry{{key, "x"}}); !ok || m.Limit.RequestsPerUnit != want {
			t.Errorf("Match(%s) = %+v", key, m.Limit)
		}
	}
	write(t, dir, "3.yaml", "domain: d\ndescriptors: [{key: a}]")
	if _, err = ratelimit.LoadMerged(dir); err == nil || !strings.HasSuffix(err.Error(), dir+"/1.yaml:2:15 has it already") {
		t.Errorf("LoadMerged with a key twice = %v", err)
	}
}

func TestEqual(t *testing.T) {
	parse := func(text string) *ratelimit.Config {
		c, err := ratelimit.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	a, again, b := parse("domain: a"), parse("domain: a"), parse("domain: b")
	if !a.Equal(again) || a.Equal(b) || a.Equal(nil) || !(*ratelimit.Config)(nil).Equal(nil) {
		t.Error("Equal does not distinguish texts")
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(files, err)
		}
		for _, name := range files {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, "a=b", "c*d")
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, key, value string) {
		c, err := ratelimit.Parse("f", data)
		if err != nil {
			checkErrors(t, "f", err)
			return
		}
		for _, d := range c.Domains() {
			es := []ratelimit.Entry{{key, value}}
			for _, one := range d.Descriptors {
				es = append(es, ratelimit.Entry{Key: one.Key, Value: one.Value})
				m, ok := d.Match(es[len(es)-1:])
				if ok && (m.Limit == nil || (m.Key == "") != m.Limit.Limit.IsZero() || len(m.Key) > 256) {
					t.Errorf("match %+v", m)
				}
			}
			d.Match(es)
			d.Match(es[:1])
		}
	})
}

func ExampleParse() {
	c, err := ratelimit.Parse("messaging.yaml", []byte(`
domain: messaging
descriptors:
  - key: to_number
    rate_limit: {unit: day, requests_per_unit: 100}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	m, ok := c.Domain("messaging").Match([]ratelimit.Entry{{Key: "to_number", Value: "2061111111"}})
	fmt.Println(ok, m.Limit.Limit, m.Key, m.Label)
	// Output: true 100/24h fixed_window anchor epoch |envoy|9:messaging|9:to_number|10:2061111111 to_number
}

func ExampleLoad() {
	_, err := ratelimit.Load("testdata/bad/share.yaml")
	fmt.Println(err)
	// Output:
	// testdata/bad/share.yaml:5:5: descriptors[0].share_threshold: true: want a value with *, such as files/*: "a_b" matches one value alone
	// testdata/bad/share.yaml:8:5: descriptors[1].share_threshold: true: want a value with *, such as files/*: "a" matches one value alone
}

// TestParseAll checks the errors of texts that a program wrote, and a set without domains.
func TestParseAll(t *testing.T) {
	c, err := ratelimit.ParseAll(nil, false)
	if err != nil || c == nil || len(c.Domains()) != 0 {
		t.Errorf("ParseAll(none) = %v, %v, want no domains", c, err)
	}
	same := []ratelimit.Text{{"one", []byte(`{"domain":"d","descriptors":[{"key":"a"}]}`)}, {"two", []byte(`{"domain":"d","descriptors":[{"key":"b"}]}`)}}
	if _, err := ratelimit.ParseAll(same, false); err == nil || err.Error() != `two: domain: "d": want every domain once: one has it already` {
		t.Errorf("ParseAll of one domain twice = %v", err)
	}
	if c, err := ratelimit.ParseAll(same, true); err != nil || len(c.Domains()) != 1 || len(c.Domain("d").Descriptors) != 2 {
		t.Errorf("ParseAll merged = %v, %v", c, err)
	}
}
