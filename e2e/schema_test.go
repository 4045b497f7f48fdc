//go:build !onlyredis

package e2e_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"

	"github.com/floodweir/weir/weirfile"
)

// policySchema compiles the JSON Schema of policy files with another library.
func policySchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(weirfile.Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("weir.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("weir.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// validate returns the errors of the schema for a policy file.
func validate(t testing.TB, s *jsonschema.Schema, text string) error {
	t.Helper()
	var v any
	if err := yaml.Load([]byte(text), &v); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(doc)
}

// testFile matches a block that is a file of weir test, which has a schema of its own.
var testFile = regexp.MustCompile(`\A# \S+_test\.yaml\n`)

// TestSchemaAcceptsGoodFiles checks that the schema accepts every policy file of the tree and
// of its pages.
func TestSchemaAcceptsGoodFiles(t *testing.T) {
	s, good := policySchema(t), map[string]string{}
	gallery, err := filepath.Glob("../docs/gallery/*.yaml")
	if err != nil || len(gallery) < 30 {
		t.Fatalf("%d files in the gallery, %v", len(gallery), err)
	}
	gallery = slices.DeleteFunc(gallery, func(name string) bool { return strings.HasSuffix(name, "_test.yaml") })
	for _, name := range append(gallery, "../weir.example.yaml", "../cmd/weir/internal/config/demo.yaml") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		good[name] = string(text)
	}
	var pages []string
	for _, g := range []string{"../*.md", "../docs/*.md", "../docs/coming-from/*.md"} {
		found, err := filepath.Glob(g)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	for _, p := range pages {
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		bs, err := blocks(string(text))
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range bs {
			if b.kind == "yaml" && !testFile.MatchString(b.text) {
				good[p+strings.Repeat("'", i)] = b.text
			}
		}
	}
	for i, text := range schemaForms {
		good["form "+strings.Repeat("'", i)] = text
	}
	for name, text := range good {
		if _, err := weirfile.Parse(name, []byte(text)); err != nil {
			t.Errorf("%s is not valid: %v", name, err)
		}
		if err := validate(t, s, text); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if len(good) < 30 {
		t.Errorf("%d files, want all of the tree and of its pages", len(good))
	}
}

const schemaPolicy = "policies:\n  - name: a\n    key: client.ip\n    limits: 10/s\n    "

// schemaForms lists fields that can be written in more than one way.
var schemaForms = []string{
	"store: rediss://user:pw@host:6379/0?ca=/x",
	"store: redis+cluster://a:7000,b:7000",
	"gateway: { listen: off, trusted_proxies: unix, client_header: X-FORWARDED-FOR, headers: off, retry_jitter: '0' }",
	"gateway: { trusted_proxies: [10.0.0.1, '::ffff:192.0.2.1', 'fd00::/8', 0.0.0.0/0], headers: legacy, routes: [{ upstream: 'H2C://[::1]:3000' }] }",
	"http: { listen: ':0' }\nresp: { listen: '[::1]:6380' }\nadmin: {}\nfailover: { deadline: 1m, nodes: 100_000 }",
	"grpc: { config: ., on_store_error: local, response_headers: false, shadow_mode: true }",
	schemaPolicy + "match: request.path == '/a'",
	schemaPolicy + "match: { paths: /a, methods: GET, hosts: [a.example], headers: { X-A: '*', X-B: [b, c] }, where: client.ip != '' }",
	schemaPolicy + "cost: 10",
	schemaPolicy + "cost: int(request.headers['x-cost'])",
	schemaPolicy + "cost: { header: X-Cost }",
	schemaPolicy + "cost: { estimate: size(request.path), json: a.b }",
	schemaPolicy + "count: failures\n    failures: 5XX",
	schemaPolicy + "count: successes\n    failures: [401, 4xx, 500-504, '404']",
	schemaPolicy + "on_denied: { status: 503, body: '{}', content_type: application/json, headers: { X-A: a }, wait: 1m }",
	schemaPolicy + "on_denied: { redirect: 'https://example.com/busy', wait: 1.5s }",
	schemaPolicy + "on_denied: {}\n    mode: shadow\n    carry: additive\n    on_store_error: closed",
	schemaPolicy + "percent: 1\n    candidate: { rate: 5/s }",
	schemaPolicy + "overrides: [{ key: '', limits: 1/s }, { key: ['*'], limits: [{ rate: 2/s }] }]",
	"policies: [{ name: a, key: [client.ip/56, 'header:a', 'query:b', 'cookie:c', 'claim:d.e@F', method, 'const: x', 'cel:request.path'], limits: [1/s] }]",
	"policies: [{ name: a, key: client.ip, limits: { rate: 20, algorithm: concurrency, lease: 30s } }]",
	"policies: [{ name: a, key: client.ip, limits: { rate: 1_000/s, burst: '2_000', initial: 0, algorithm: gcra } }]",
	"policies: [{ name: a, key: client.ip, limits: [{ rate: 10/s, algorithm: leaky_bucket, burst: 20, delay: 8 }, 20 concurrency, 100000/month calendar UTC] }]",
	"policies:\n  - { name: a, key: &who [client.ip], limits: &fast [10/s] }\n  - { name: b, key: *who, limits: *fast }",
}

// TestSchemaRefusesBadFiles checks that the schema rejects the same malformed files as Parse.
func TestSchemaRefusesBadFiles(t *testing.T) {
	s := policySchema(t)
	for _, text := range []string{
		"hello", "[a]", "stor: memory", "store: sqlite://x", "store: [memory]", "store: 7", "store:", "gateway: on", "policies: []", "policies: {}",
		"http: { port: 8080 }", "http: { listen: 8080 }", "http: { listen: localhost }", "http: { trusted_proxies: [localhost] }", "http: { trusted_proxies: [] }",
		"http: { client_header: x-real-ip, trusted_proxies: [unix] }",
		"gateway: { routes: [{ path: / }] }", "gateway: { routes: [{ upstream: 'ftp://a' }] }", "gateway: { routes: [{ upstream: 'http://a', path: a }] }",
		"gateway: { headers: [draft-99] }", "gateway: { retry_jitter: 2 }", "gateway: { retry_jitter: two seconds }",
		"failover: { deadline: 50 }", "failover: { nodes: 0 }", "failover: { nodes: 2.5 }",
		"grpc: { config: '' }", "grpc: { on_store_error: fail }", "grpc: { response_headers: yes }", "resp: { password: x }", "admin: off",
		"policies: [{ name: a, key: client.ip }]", "policies: [{ name: a, limits: 1/s }]", "policies: [{ key: client.ip, limits: 1/s }]",
		"policies: [{ name: 'a b', key: client.ip, limits: 1/s }]", "policies: [{ name: 7, key: client.ip, limits: 1/s }]",
		"policies: [{ name: a, key: ip, limits: 1/s }]", "policies: [{ name: a, key: 'header:', limits: 1/s }]", "policies: [{ name: a, key: [], limits: 1/s }]",
		"policies: [{ name: a, key: client.ip, limits: fast }]", "policies: [{ name: a, key: client.ip, limits: { burst: 2 } }]",
		"policies: [{ name: a, key: client.ip, limits: { rate: 1/s, algorithm: magic } }]", "policies: [{ name: a, key: client.ip, limits: { rate: 1/s, interval: 1 } }]",
		"policies: [{ name: a, key: client.ip, limits: { rate: 1/s, brust: 2 } }]", "policies: [{ name: a, key: client.ip, limits: { rate: [1] } }]",
		schemaPolicy + "match: {}", schemaPolicy + "match: [/a]", schemaPolicy + "match: ''", schemaPolicy + "match: { path: /a }", schemaPolicy + "match: { methods: [7] }",
		schemaPolicy + "match: { headers: [a] }", schemaPolicy + "match: { headers: { X-A: [] } }", schemaPolicy + "match: { where: true }",
		schemaPolicy + "cost: 0", schemaPolicy + "cost: 1.5", schemaPolicy + "cost: { estimate: 5 }", schemaPolicy + "cost: { header: a, json: b }", schemaPolicy + "cost: { header: a, body: b }",
		schemaPolicy + "count: denied", schemaPolicy + "count: [all]", schemaPolicy + "count: failures\n    failures: [600]", schemaPolicy + "count: failures\n    failures: [6xx]",
		schemaPolicy + "on_denied: 429", schemaPolicy + "on_denied: { code: 429 }", schemaPolicy + "on_denied: { status: 600 }", schemaPolicy + "on_denied: { wait: 5 }", schemaPolicy + "on_denied: { headers: { X-A: 1 } }",
		schemaPolicy + "on_store_error: retry", schemaPolicy + "mode: dry-run", schemaPolicy + "percent: 0", schemaPolicy + "percent: 101", schemaPolicy + "percent: '10'",
		schemaPolicy + "candidate: []", schemaPolicy + "carry: keep", schemaPolicy + "overrides: []", schemaPolicy + "overrides: [{ key: a }]", schemaPolicy + "overrides: [{ key: 7, limits: 1/s }]",
	} {
		if err := validate(t, s, text); err == nil {
			t.Errorf("the schema accepts\n%s", text)
		}
		if _, err := weirfile.Parse("f.yaml", []byte(text)); err == nil {
			t.Errorf("Parse accepts\n%s", text)
		}
	}
}

// TestExampleNamesItsSchema checks that an editor finds the schema from the example file.
func TestExampleNamesItsSchema(t *testing.T) {
	text, err := os.ReadFile("../weir.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`\A# yaml-language-server: \$schema=(\S+)\n`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the first line names no schema")
	}
	schema, err := os.ReadFile(filepath.Join("..", string(m[1])))
	if err != nil || !bytes.Equal(schema, weirfile.Schema()) {
		t.Errorf("%s: %v, want the schema that the program has", m[1], err)
	}
}

// FuzzSchemaIsNoNarrower checks that the schema accepts every file that Parse accepts.
func FuzzSchemaIsNoNarrower(f *testing.F) {
	s := policySchema(f)
	for _, text := range schemaForms {
		f.Add(text)
	}
	for _, name := range []string{"../weir.example.yaml", "../cmd/weir/internal/config/demo.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := weirfile.Parse("fuzz.yaml", []byte(text)); err != nil {
			return
		}
		if err := validate(t, s, text); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	})
}
