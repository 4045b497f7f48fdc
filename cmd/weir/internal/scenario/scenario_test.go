package scenario_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/scenario"
	"github.com/floodweir/weir/weirfile"
)

// parse reads a test file that names the policy files of policies.
func parse(text string, policies map[string]string) (*scenario.File, error) {
	return scenario.Parse("t.yaml", []byte(text), scenario.Config{Load: func(path string) (*weirfile.File, error) {
		p, ok := policies[path]
		if !ok {
			return nil, fmt.Errorf("open %s: no such file", path)
		}
		return weirfile.Parse(path, []byte(p))
	}})
}

// steps runs one test with the steps and returns its result.
func steps(t *testing.T, policies, steps string) scenario.Result {
	t.Helper()
	f, err := parse("policies: p.yaml\ntests:\n  - name: t\n    steps:\n"+steps, map[string]string{"p.yaml": policies, "next.yaml": strings.ReplaceAll(policies, "2/m", "5/m")})
	if err != nil {
		t.Fatal(err)
	}
	r := f.Run(nil)
	if len(r.Tests) != 1 {
		t.Fatalf("%d results, want 1", len(r.Tests))
	}
	return r.Tests[0]
}

const perClient = "policies:\n  - { name: p, key: client.ip, limits: 2/m }\n"

// TestPasses checks that scenarios of each feature hold, and that each detects the
// replacement of one word.
func TestPasses(t *testing.T) {
	for _, test := range []struct{ name, policies, steps, from, to string }{
		{"clients have buckets of their own", perClient, `
      - { times: 2, expect: allow }
      - { times: 3, every: 1s, expect: { decision: deny, policy: p, status: 429 } }
      - { request: { client: 192.0.2.2 }, expect: { decision: allow, remaining: 1 } }
      - { at: 30s, expect: allow }`, "at: 30s", "at: 29.9s"},
		{"a list of expectations", perClient, `
      - { times: 2, expect: allow }
      - { at: 15s, times: 6, every: 15s, expect: [deny, allow] }`, "[deny, allow]", "[allow, deny]"},
		{"retry after is rounded up to its unit", "policies:\n  - { name: p, key: client.ip, limits: 3/s burst 1 }\n", `
      - { expect: allow }
      - { expect: { decision: deny, retry_after: 334ms, headers: { Retry-After: 1 } } }
      - { expect: { decision: deny, retry_after: 1s } }
      - { expect: { decision: deny, retry_after: 333334us } }`, "334ms", "333ms"},
		{"never", "policies:\n  - { name: p, key: client.ip, limits: 2/m, cost: 'int(request.query[\"n\"])' }\n", `
      - { request: { path: "/?n=3" }, expect: { decision: deny, retry_after: never } }`, "never", "1s"},
		{"failures count", strings.Replace(perClient, "2/m", "2/m, count: failures", 1), `
      - { times: 9, expect: allow }
      - { times: 2, response: { status: 401 }, expect: { decision: allow, status: 401 } }
      - { expect: deny }`, "status: 401 }, expect", "status: 302 }, expect"},
		{"denied requests count", strings.Replace(perClient, "2/m", "2/m, count: all", 1), `
      - { times: 2, expect: allow }
      - { expect: { decision: deny, retry_after: 60s } }
      - { expect: { decision: deny, retry_after: 90s } }`, "90s", "60s"},
		{"a cost in a JSON body", "policies:\n  - { name: p, key: client.ip, limits: 100/h, cost: { json: usage.total } }\n", `
      - { response: { json: { usage: { total: 60 } } }, expect: allow }
      - { response: { json: { usage: { total: 40 } } }, expect: { decision: allow, remaining: 39 } }
      - { expect: { decision: deny, retry_after: 36s } }`, "total: 60", "total: 61"},
		{"a cost in a stream", "policies:\n  - { name: p, key: client.ip, limits: 100/h, cost: { json: usage.total } }\n", `
      - { response: { events: [ { delta: hello }, { usage: { total: 50 } } ] }, expect: allow }
      - { expect: { decision: allow, remaining: 49 } }`, "total: 50", "total: 49"},
		{"a cost in a header", "policies:\n  - { name: p, key: client.ip, limits: 100/h, cost: { header: X-Cost } }\n", `
      - { response: { headers: { X-Cost: 50 }, body: text }, expect: allow }
      - { expect: { decision: allow, remaining: 49 } }`, "X-Cost: 50", "X-Costs: 50"},
		{"slots are renewed while a response takes longer than their lease", "policies:\n  - { name: p, key: client.ip, limits: 1 concurrency }\n", `
      - { response: { takes: 2h }, expect: { decision: allow, delay: 0s } }
      - { at: 1h59m59s, expect: deny }
      - { at: 2h, expect: allow }`, "2h, expect", "119m59.999999s, expect"},
		{"waits", "policies:\n  - { name: p, key: client.ip, limits: 1/s, on_denied: { wait: 2s } }\n", `
      - { expect: { decision: allow, delay: 0s } }
      - { at: 0.5s, expect: { decision: allow, delay: 500ms } }
      - { at: 0.6s, expect: { decision: allow, delay: 1.4s } }
      - { at: 0.7s, expect: { decision: deny, retry_after: 1s, delay: 1.3s } }
      - { at: 2s, expect: { decision: allow, delay: 1s } }`, "1.4s", "1.3s"},
		{"a queue", "policies:\n  - { name: p, key: client.ip, limits: { rate: 1/s, algorithm: leaky_bucket, burst: 2, queue: true } }\n", `
      - { times: 3, expect: allow }
      - { expect: deny }
      - { at: 2s, expect: { decision: allow, delay: 1s } }`, "delay: 1s", "delay: 2s"},
		{"a reload carries over", perClient, `
      - { times: 2, expect: allow }
      - { expect: deny }
      - { at: 1s, policies: next.yaml }
      - { times: 3, expect: allow }
      - { expect: deny }`, "policies: next.yaml", "policies: p.yaml"},
		{"the store is down", "failover: { nodes: 2 }\n" + perClient + "  - { name: open, match: /open, key: client.ip, limits: 1/h, on_store_error: open }\n", `
      - { times: 2, expect: { decision: allow, degraded: none } }
      - { store: down }
      - { expect: { decision: allow, degraded: local } }
      - { expect: { decision: deny, degraded: local } }
      - { store: up }
      - { expect: { decision: deny, degraded: none } }
      - { at: 1m, store: down }
      - { expect: { decision: allow } }`, "store: up", "store: down"},
		{"shadow mode", perClient + "  - { name: trial, key: client.ip, limits: 1/m, mode: shadow }\n", `
      - { expect: { decision: allow, shadow_denied: [], matched: [p] } }
      - { expect: { decision: allow, shadow_denied: [trial] } }`, "limits: 1/m", "limits: 2/m"},
		{"a blocked request", perClient + "  - { name: old, match: /old, block: true, on_denied: { status: 410 } }\n", `
      - { request: { path: /old }, expect: { decision: deny, policy: old, status: 410, retry_after: never } }
      - { expect: { decision: allow, remaining: 1 } }`, "retry_after: never", "retry_after: 1s"},
		{"headers, cookies, claims and host", "policies:\n  - { name: p, match: { hosts: shop.example, methods: POST, paths: /a }, key: ['header:X-Key', 'cookie:c', 'claim:sub', 'query:q'], limits: 1/m }\n", `
      - { request: { method: POST, host: shop.example, path: /a?q=1, headers: { x-key: k }, cookies: { c: d }, claims: { sub: ada } }, expect: { decision: allow, matched: [p] } }
      - { request: { method: POST, host: shop.example, path: /a?q=1, headers: { x-key: k }, cookies: { c: d }, claims: { sub: ada } }, expect: deny }
      - { request: { method: POST, host: shop.example, path: /a?q=1, headers: { x-key: k }, cookies: { c: d }, claims: { sub: bob } }, expect: allow }
      - { request: { host: shop.example, path: /a }, expect: { decision: allow, matched: [] } }`, "sub: bob", "sub: ada"},
		{"a trusted proxy", "gateway: { trusted_proxies: [10.0.0.0/8], routes: [{ upstream: 'http://127.0.0.1:3000' }] }\n" + perClient, `
      - { times: 2, request: { client: 10.0.0.1, headers: { X-Forwarded-For: 203.0.113.7 } }, expect: allow }
      - { request: { client: 10.0.0.1, headers: { X-Forwarded-For: 203.0.113.7 } }, expect: deny }
      - { request: { client: 10.0.0.1, headers: { X-Forwarded-For: 203.0.113.8 } }, expect: allow }`, "203.0.113.8", "203.0.113.7"},
	} {
		if r := steps(t, test.policies, test.steps); r.Failure != nil {
			t.Errorf("%s: %s", test.name, r.Failure.Text())
		}
		if !strings.Contains(test.policies+test.steps, test.from) {
			t.Errorf("%s: no %q to replace", test.name, test.from)
		}
		if r := steps(t, strings.Replace(test.policies, test.from, test.to, 1), strings.Replace(test.steps, test.from, test.to, 1)); r.Failure == nil {
			t.Errorf("%s: passes also with %q", test.name, test.to)
		}
	}
}

// TestFirstDifference checks that the failure describes the first request that differs,
// in the order in which requests begin.
func TestFirstDifference(t *testing.T) {
	r := steps(t, perClient, `
      - { times: 4, every: 1s, request: { path: /x?y=z }, expect: allow }
      - { response: { takes: 1h }, request: { client: 192.0.2.2 }, expect: deny }
`)
	want := `t.yaml:6:9: tests[0].steps[0]: request 3 of 4 at 2s: GET localhost/x?y=z from 192.0.2.1
  decision: got deny, want allow
  policy p: denied, key "p|9:192.0.2.1", cost 1, 2/m burst 2, remaining 0, retry after 28s
`
	if r.Failure == nil || r.Failure.Text() != want || r.Requests != 5 || r.Different != 3 {
		t.Errorf("%d of %d differ, want 3 of 5:\n%v\nwant\n%s", r.Different, r.Requests, r.Failure.Text(), want)
	}
}

// TestRepeats checks that a file can run again: every test has an empty store.
func TestRepeats(t *testing.T) {
	f, err := parse("policies: p.yaml\ntests:\n"+
		"  - { name: a, steps: [{ times: 2, expect: allow }, { expect: deny }] }\n"+
		"  - { name: b, start: 2026-02-01T00:00:00+08:00, steps: [{ times: 2, expect: allow }, { expect: deny }] }\n", map[string]string{"p.yaml": perClient})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := f.Run(nil); r.Failed() > 0 || len(r.Tests) != 2 {
			t.Errorf("failed %d of %d, want 0 of 2", r.Failed(), len(r.Tests))
		}
	}
	if r := f.Run(func(name string) bool { return name == "b" }); len(r.Tests) != 1 || r.Tests[0].Name != "b" {
		t.Errorf("selected %+v, want b", r.Tests)
	}
}

// TestFaults checks that every fault has its position, field, value and expected form.
func TestFaults(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"", "t.yaml:1:1: want policies and tests, got an empty file"},
		{"policies: p.yaml", "t.yaml:1:1: tests: want a list of tests"},
		{"policies: p.yaml\ntests: []", "t.yaml:2:8: tests: an empty list: want a list of tests"},
		{"policies: nowhere.yaml\ntests: [{name: a, steps: [{store: up}]}]", `t.yaml:1:11: policies: "nowhere.yaml": want a valid policy file: open nowhere.yaml: no such file`},
		{"policies: bad.yaml\ntests: [{name: a, steps: [{store: up}]}]", `bad.yaml:1:14: policies[0].limits[0]:`},
		{"policies: empty.yaml\ntests: [{name: a, steps: [{store: up}]}]", `t.yaml:1:11: policies: "empty.yaml": want a file with policies`},
		{"policies: p.yaml\ntests: [{name: a, steps: [{expect: allow}]}, {name: a, steps: [{expect: allow}]}]", `t.yaml:2:46: tests[1].name: "a": want every name once: the test of line 2 has it already`},
		{"policies: p.yaml\ntests: [{name: a, start: today, steps: [{expect: allow}]}]", `t.yaml:2:26: tests[0].start: "today": want an instant such as 2026-01-31T23:59:00Z, from 1971 to 2200`},
		{"policies: p.yaml\ntests: [{name: a, steps: []}]", `t.yaml:2:26: tests[0].steps: an empty list: want a list of steps`},
		{"{at: 0s}", `tests[0].steps[0].expect: want allow, deny, or a map with what is expected`},
		{"{expext: allow}", `tests[0].steps[0].expext: unknown field, did you mean expect?`},
		{"{expect: yes}", `tests[0].steps[0].expect: "yes": want allow, deny, a map such as`},
		{"{expect: {status: 429}}", `tests[0].steps[0].expect.decision: want allow or deny`},
		{"{expect: {decision: allow, retry_after: 1s}}", `tests[0].steps[0].expect.retry_after: "1s": want decision: deny beside retry_after`},
		{"{expect: {decision: deny, retry_after: soon}}", `tests[0].steps[0].expect.retry_after: "soon": want a time such as 1.5s`},
		{"{expect: {decision: allow, remaining: -1}}", `tests[0].steps[0].expect.remaining: -1: want a whole number from 0 to 1099511627776`},
		{"{expect: {decision: allow, matched: api}}", `tests[0].steps[0].expect.matched: "api": want a list of policies; [] for none`},
		{"{expect: [allow, deny], times: 3}", `tests[0].steps[0].expect: want times to be a multiple of the 2 elements, got 3`},
		{"{expect: [], times: 3}", `tests[0].steps[0].expect: an empty list: want allow`},
		{"{expect: allow, at: -1s}", `tests[0].steps[0].at: "-1s": want a time such as 1.5s, from 0s to 87840h0m0s`},
		{"{expect: allow, times: 0}", `tests[0].steps[0].times: 0: want a whole number from 1 to 1000000`},
		{"{expect: allow, times: 1000, every: 1000h}", `want at most 1000000 requests in a test, and 87840h0m0s of time`},
		{"{policies: p.yaml, expect: allow}", `tests[0].steps[0].expect: want only at beside policies`},
		{"{store: gone}", `tests[0].steps[0].store: "gone": want up or down`},
		{"{expect: allow, request: {path: a}}", `tests[0].steps[0].request.path: "a": want a path as a server accepts it`},
		{"{expect: allow, request: {path: '/a b'}}", `tests[0].steps[0].request.path: "/a b": want a path`},
		{"{expect: allow, request: {method: 'A B'}}", `tests[0].steps[0].request.method: "A B": want a method such as GET`},
		{"{expect: allow, request: {host: 'a b'}}", `tests[0].steps[0].request.host: "a b": want a host such as example.com`},
		{"{expect: allow, request: {client: localhost}}", `tests[0].steps[0].request.client: "localhost": want an address`},
		{"{expect: allow, request: {headers: {Host: a}}}", `tests[0].steps[0].request.headers: "Host": want the name of a header`},
		{"{expect: allow, request: {claims: ada}}", `tests[0].steps[0].request.claims: "ada": want a map of claims`},
		{"{expect: allow, request: {claims: {sub: a}, headers: {authorization: b}}}", `tests[0].steps[0].request.claims: want claims or the header Authorization, not both`},
		{"{expect: allow, response: {json: 1, body: b}}", `tests[0].steps[0].response.body: want one of json, events and body`},
		{"{expect: allow, response: {json: &a [*a]}}", `want at most 32 levels`},
	} {
		if strings.HasPrefix(test.text, "{") {
			test.text = "policies: p.yaml\ntests: [{name: a, steps: [" + test.text + "]}]"
		}
		_, err := parse(test.text, map[string]string{"p.yaml": perClient, "bad.yaml": "policies: [{name: p, key: client.ip, limits: 0/s}]", "empty.yaml": "store: memory"})
		if err == nil || !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), test.want) && !strings.HasPrefix(test.want, "bad.yaml") {
			t.Errorf("%s:\n%v, want\n%s", test.text, err, test.want)
		}
		if strings.HasPrefix(test.want, "bad.yaml") && !strings.HasPrefix(err.Error(), "bad.yaml:1:") {
			t.Errorf("%v, want the error of the policy file", err)
		}
	}
}

// TestSchema checks that the JSON Schema has the fields that the reader accepts.
func TestSchema(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(scenario.Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	known := scenario.Fields()
	for name, want := range known {
		if got := slices.Sorted(maps.Keys(schema.Defs[name].Properties)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
	if len(known) != 6 {
		t.Errorf("%d maps, want 6", len(known))
	}
}

// FuzzParse checks that no input makes the reader panic.
func FuzzParse(f *testing.F) {
	f.Add("policies: p.yaml\ntests: [{name: a, request: {claims: {a: 1.5}}, steps: [{times: 2, expect: [allow, {decision: deny, remaining: {p: 1}}], response: {events: [1]}}]}]")
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parse(text, map[string]string{"p.yaml": perClient})
		if (file == nil) != (err != nil) && err == nil {
			t.Errorf("neither a file nor an error")
		}
	})
}
