package weirfile_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile"
)

func parse(t *testing.T, text string) *weirfile.File {
	t.Helper()
	f, err := weirfile.Parse("f.yaml", []byte(text))
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	return f
}

// TestExampleFile checks that the example file of the documentation is valid and that
// its comments are true.
func TestExampleFile(t *testing.T) {
	f, err := weirfile.Load("../weir.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "store %s, failover %+v\ngateway %s, fields %s, jitter %v, client %v %v\n", f.Store, f.Failover, f.Gateway.Listen, f.Gateway.Fields, f.Gateway.RetryJitter,
		f.Gateway.Client.Trusted, f.Gateway.Client.Header)
	fmt.Fprintf(&b, "http %s, client %v %v\ngrpc %+v\nresp %s, admin %s\n", f.HTTP.Listen, f.HTTP.Client.Trusted, f.HTTP.Client.Header, f.GRPC, f.RESP.Listen, f.Admin.Listen)
	for _, r := range f.Gateway.Routes {
		fmt.Fprintf(&b, "route %q%s to %s, timeout %v\n", r.Host, r.Path, r.Upstream, r.Timeout)
	}
	for _, p := range f.Policies.Policies() {
		c := p.Config()
		fmt.Fprintf(&b, "policy %s %s %d%%: %v by %v, carry %d, candidate %v, overrides %v\n", c.Name, c.Mode, c.Percent, c.Limits, c.Key, c.Carry, c.Candidate, c.Overrides)
		fmt.Fprintf(&b, "  match %v\n  cost %d or %v, settled by %+v, count %s of %v\n  denied %+v, %s on store errors\n",
			c.Match, c.Cost, c.CostOf, c.Settle, c.Count, c.Failures, c.OnDenied, c.OnStoreError)
	}
	fmt.Fprintf(&b, "functions %s, system %v\n", f.Functions.Mode, f.Functions.System.Policy.Config().Limits)
	for _, r := range f.Functions.Rules {
		fmt.Fprintf(&b, "function %s, limits %v, breaker %t, bulkhead %t\n", r.Name, r.Policy != nil, r.Settings.Breaker != nil, r.Settings.Bulkhead != nil)
	}
	golden(t, "testdata/example.golden", b.String())
}

func TestLimitForms(t *testing.T) {
	for yaml, want := range map[string]string{
		`10/s`:                      "10/s burst 10",
		`"10/s burst 20"`:           "10/s burst 20",
		`[10/s burst 20]`:           "10/s burst 20",
		`{ rate: 10/s }`:            "10/s burst 10",
		`{ rate: 10/s, burst: 20 }`: "10/s burst 20",
		`{ rate: 1_000/s, burst: 2_000, algorithm: gcra }`:                                  "1000/s burst 2000",
		`{ rate: 100/m, refill: interval }`:                                                 "100/m burst 100 interval",
		`{ rate: 100/m, refill: smooth }`:                                                   "100/m burst 100",
		`{ rate: 100/m, refill: interval, anchor: epoch }`:                                  "100/m burst 100 interval anchor epoch",
		`{ rate: 100/m, interval: true, anchor: epoch }`:                                    "100/m burst 100 interval anchor epoch",
		`{ rate: 100/m, interval: false }`:                                                  "100/m burst 100",
		`{ rate: 10/s, initial: 0 }`:                                                        "10/s burst 10 initial 0",
		`{ rate: 50/s, warmup: 30s }`:                                                       "50/s burst 50 warmup 30s",
		`{ rate: 10/s, algorithm: leaky_bucket, burst: 20, queue: true }`:                   "10/s leaky_bucket burst 20 queue",
		`{ rate: 10/s, algorithm: leaky_bucket, burst: 20, delay: 8 }`:                      "10/s leaky_bucket burst 20 queue delay 8",
		`{ rate: 10/s, algorithm: leaky_bucket, nginx: true, nodelay: true, queue: false }`: "10/s leaky_bucket burst 0 nginx",
		`{ rate: 100000/month, calendar: Asia/Shanghai }`:                                   "100000/month fixed_window calendar Asia/Shanghai",
		`{ rate: 100/m, algorithm: sliding_window, segments: 6, weighted: true }`:           "100/m sliding_window segments 6 weighted",
		`{ rate: 20, algorithm: concurrency, lease: 30s }`:                                  "20 concurrency lease 30s",
		`20 concurrency`: "20 concurrency lease 1m",
	} {
		f := parse(t, "policies: [{ name: a, key: client.ip, limits: "+yaml+" }]")
		if got := f.Policies.Policy("a").Config().Limits; len(got) != 1 || got[0].String() != want {
			t.Errorf("limits: %s = %v, want %s", yaml, got, want)
		}
	}
}

func TestMatchForms(t *testing.T) {
	for yaml, want := range map[string]string{
		`/api/*`:                             `{[] [] [/api/*] map[] <nil>}`,
		`"/users/{id}"`:                      `{[] [] [/users/{id}] map[] <nil>}`,
		`{ paths: /a, methods: [GET, PUT] }`: `{[GET PUT] [] [/a] map[] <nil>}`,
		`{ hosts: a.example, headers: { X-A: a, X-B: [b, c] } }`:          `{[] [a.example] [] map[X-A:[a] X-B:[b c]] <nil>}`,
		`request.path.startsWith("/api/")`:                                `{[] [] [] map[] request.path.startsWith("/api/")}`,
		`'client.ip != "::1" || request.method == "PUT"'`:                 `{[] [] [] map[] client.ip != "::1" || request.method == "PUT"}`,
		`{ paths: /a, where: 'request.headers["x-plan"] != "gold"' }`:     `{[] [] [/a] map[] request.headers["x-plan"] != "gold"}`,
		"{ where: 'request.query.q.size() > 100' }":                       `{[] [] [] map[] request.query.q.size() > 100}`,
		"|\n      request.method == 'PUT' &&\n      request.path != '/a'": "{[] [] [] map[] request.method == 'PUT' &&\nrequest.path != '/a'}",
	} {
		f := parse(t, "policies:\n  - name: a\n    key: client.ip\n    limits: 1/s\n    match: "+yaml)
		if got := fmt.Sprint(f.Policies.Policy("a").Config().Match); got != want {
			t.Errorf("match: %s = %s, want %s", yaml, got, want)
		}
	}
}

func TestKeyForms(t *testing.T) {
	for yaml, want := range map[string]string{
		`client.ip/56`:                   `[client.ip/56]`,
		`claim:sub`:                      `[claim:sub]`,
		`claim:org.id@X-Jwt-Payload`:     `[claim:org.id@X-Jwt-Payload]`,
		`cel:request.host.split(".")[0]`: `[cel:request.host.split(".")[0]]`,
		`["const:a: b", 'cel: request.method + ":" + client.ip']`: `[const:a: b cel: request.method + ":" + client.ip]`,
	} {
		f := parse(t, "policies:\n  - name: a\n    limits: 1/s\n    key: "+yaml)
		if got := fmt.Sprint(f.Policies.Policy("a").Config().Key); got != want {
			t.Errorf("key: %s = %s, want %s", yaml, got, want)
		}
	}
}

func TestCostForms(t *testing.T) {
	for yaml, want := range map[string]string{
		`5`:                                  `5 <nil> {}`,
		`1_000`:                              `1000 <nil> {}`,
		`int(request.headers["x-cost"])`:     `1 int(request.headers["x-cost"]) {}`,
		`{ header: X-Tokens-Used }`:          `1 <nil> {X-Tokens-Used }`,
		`{ estimate: 5, header: X-Cost }`:    `5 <nil> {X-Cost }`,
		`{ estimate: 5, json: usage.total }`: `5 <nil> { usage.total}`,
		`{ estimate: "size(request.query.q)", json: n }`: `1 size(request.query.q) { n}`,
	} {
		f := parse(t, "policies:\n  - name: a\n    key: client.ip\n    limits: 1000/s\n    cost: "+yaml)
		c := f.Policies.Policy("a").Config()
		if got := fmt.Sprintf("%d %v {%s %s}", c.Cost, c.CostOf, c.Settle.Header, c.Settle.JSON); got != strings.Replace(want, "{}", "{ }", 1) {
			t.Errorf("cost: %s = %s, want %s", yaml, got, want)
		}
	}
}

// TestPolicyForms checks the other forms of a policy.
func TestPolicyForms(t *testing.T) {
	f := parse(t, `
policies:
  - name: a
    key: [client.ip, "header:X-User"]
    limits: 10/s
    count: failures
    failures: [401, 403, 5XX, "407-499", 404-406]
    on_denied: { redirect: /busy, headers: { X-A: b }, wait: 300ms }
    on_store_error: local
    percent: 10
    candidate: [20/s, 1000/h]
    carry: as_is
    overrides: [{ key: [10.0.0.0/8, "*"], limits: 100/s }, { key: ["*", "team-*"], limits: [50/s] }]
  - { name: b, key: client.ip, limits: 1/s, count: all, carry: reset, on_store_error: closed }
  - { name: c, key: client.ip, limits: 1/s, count: successes, failures: 500, carry: additive, mode: off }
  - { name: d, key: client.ip, limits: 1/s, carry: proportional, on_denied: { wait: "0" } }
`)
	c := f.Policies.Policy("a").Config()
	if got, want := fmt.Sprint(c.Count, " ", c.Failures), "failures [[401 401] [403 403] [500 599] [407 499] [404 406]]"; got != want {
		t.Errorf("count and failures = %s, want %s", got, want)
	}
	if d := c.OnDenied; d.Redirect != "/busy" || d.Status != 303 || d.Wait != 300*time.Millisecond || d.Headers["X-A"] != "b" {
		t.Errorf("on_denied = %+v", d)
	}
	if c.OnStoreError != policy.Local || c.Percent != 10 || fmt.Sprint(c.Candidate) != "[20/s burst 20 1000/h burst 1000]" || c.Carry != weir.CarryAsIs {
		t.Errorf("policy = %+v", c)
	}
	if got, want := fmt.Sprint(c.Overrides), "[{[10.0.0.0/8 *] [100/s burst 100] false false} {[* team-*] [50/s burst 50] false false}]"; got != want {
		t.Errorf("overrides = %s, want %s", got, want)
	}
	b, d := f.Policies.Policy("b").Config(), f.Policies.Policy("d").Config()
	if b.Count != policy.CountAll || b.Carry != weir.CarryReset || b.OnStoreError != policy.Closed || d.Carry != weir.CarryProportional || d.OnStoreError != policy.Local {
		t.Errorf("b = %+v, d = %+v", b, d)
	}
	if c := f.Policies.Policy("c").Config(); c.Count != policy.CountSuccesses || c.Carry != weir.CarryAdditive || c.Mode != policy.Off {
		t.Errorf("c = %+v", c)
	}
}

func TestListenerForms(t *testing.T) {
	const text = `
failover: { deadline: 20ms, nodes: 3, start_degraded: true }
http: { listen: ":8080", trusted_proxies: [10.0.0.0/8, unix], client_header: X-FORWARDED-FOR, serve: auth, hosts: [Weir.Internal, b] }
grpc: { listen: 127.0.0.1:8081, config: limits/config, on_store_error: closed, response_headers: true, shadow_mode: true }
resp: { listen: 127.0.0.1:6380 }
admin: { listen: off }
`
	f, err := weirfile.Parse("/etc/weir/weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if f.Failover != (weirfile.Failover{Deadline: 20 * time.Millisecond, Nodes: 3, StartDegraded: true}) || f.RESP.Listen != "127.0.0.1:6380" || f.Admin.Listen != "off" {
		t.Errorf("file = %+v", f)
	}
	if h := f.HTTP; h.Listen != ":8080" || fmt.Sprint(h.Client.Trusted) != "[10.0.0.0/8]" || !h.Client.TrustUnix || h.Client.Header != "X-Forwarded-For" || h.Serve != "auth" || fmt.Sprint(h.Hosts) != "[weir.internal b]" {
		t.Errorf("http = %+v", h)
	}
	want := weirfile.GRPC{Listener: weirfile.Listener{Listen: "127.0.0.1:8081"}, Config: "/etc/weir/limits/config", OnStoreError: policy.Closed, ResponseHeaders: true, Shadow: true}
	if !reflect.DeepEqual(f.GRPC, want) {
		t.Errorf("grpc = %+v, want %+v", f.GRPC, want)
	}
	for config, want := range map[string]string{"/abs/c": "/abs/c", "../c": "/etc/c", ".": "/etc/weir"} {
		f, err := weirfile.Parse("/etc/weir/weir.yaml", []byte("grpc: { config: "+config+" }"))
		if err != nil || f.GRPC.Config != want {
			t.Errorf("config %s = %v, %v, want %s", config, f, err, want)
		}
	}
	if f, err := weirfile.Parse("stdin", []byte("grpc: { config: c }")); err != nil || f.GRPC.Config != "c" {
		t.Errorf("config of stdin = %v, %v, want c", f, err)
	}
}

func TestGatewayForms(t *testing.T) {
	f := parse(t, `
gateway:
  listen: off
  trusted_proxies: [10.0.0.1, "::1", fd00::/8, "::ffff:192.0.2.1", unix]
  client_header: Forwarded
  headers: off
  routes:
    - { upstream: "h2c://[::1]:3000/base" }
    - { path: /a/b/, host: A.example., upstream: "https://a.example", timeout: 1m30s }
http: { listen: ":8080" }
store: rediss://user:secret@host:6379/0
`)
	g := f.Gateway
	want := []netip.Prefix{
		netip.MustParsePrefix("10.0.0.1/32"), netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.1/32"),
	}
	if g.Listen != "off" || fmt.Sprint(g.Client.Trusted) != fmt.Sprint(want) || !g.Client.TrustUnix || g.Client.Header != "Forwarded" || g.Fields != httplimit.NoFields {
		t.Errorf("gateway = %+v, want off, %v and unix, Forwarded, no fields", g, want)
	}
	if r := g.Routes[0]; r.Path != "/" || r.Host != "" || r.Upstream.String() != "h2c://[::1]:3000/base" || r.Timeout != 0 {
		t.Errorf("first route = %+v", r)
	}
	if r := g.Routes[1]; r.Path != "/a/b" || r.Host != "a.example" || r.Timeout != 90*time.Second {
		t.Errorf("second route = %+v", r)
	}
	if f.HTTP.Listen != ":8080" || f.Store != "rediss://user:secret@host:6379/0" || len(f.Policies.Policies()) != 0 {
		t.Errorf("file = %+v", f)
	}
	if f := parse(t, "store: memory"); f.Gateway.Fields != 0 || f.HTTP.Listen != "" || f.Policies == nil {
		t.Errorf("what is not said = %+v, want zero", f)
	}
}

// TestAliases checks that aliases repeat values.
func TestAliases(t *testing.T) {
	f := parse(t, `
policies:
  - { name: a, key: &who [client.ip], limits: &fast [10/s, &slow 5000/24h] }
  - { name: b, key: *who, limits: *fast, mode: shadow }
  - { name: c, key: *who, limits: [*slow], overrides: [{ key: ["203.0.113.7"], limits: *fast }] }
`)
	b, c := f.Policies.Policy("b").Config(), f.Policies.Policy("c").Config()
	if len(b.Limits) != 2 || b.Mode != policy.Shadow || len(c.Limits) != 1 || len(c.Overrides[0].Limits) != 2 {
		t.Errorf("b = %+v, c = %+v", b, c)
	}
}

func TestByteOrderMarkAndLineEnds(t *testing.T) {
	parse(t, "\ufeffstore: memory\r\npolicies:\r\n  - name: a\r\n    key: [client.ip]\r\n    limits: [1/s]\r\n")
}

func TestLoadNamesTheFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "weir.yaml")
	if err := os.WriteFile(name, []byte("stor: memory\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := weirfile.Load(name)
	if want := name + ":1:1: stor: unknown field, did you mean store?"; err == nil || err.Error() != want {
		t.Errorf("Load = %v, want %s", err, want)
	}
}

// TestNotes checks that the old form of a field is read with a note, and the new one
// without.
func TestNotes(t *testing.T) {
	for limit, want := range map[string]string{
		"{ rate: 5/m, interval: true }":   "[f.yaml:1:70: note: policies[0].limits[0].interval: interval is the old form of this field: use refill: interval]",
		"{ rate: 5/m, refill: interval }": "[]",
	} {
		f := parse(t, "policies: [{ name: a, key: client.ip, limits: "+limit+" }]")
		if got := fmt.Sprint(f.Notes); got != want {
			t.Errorf("%s: notes %s, want %s", limit, got, want)
		}
	}
	const old = "functions: { rules: [{ name: a, bulkhead: { max: 1, max_waiting: 7, wait: 1s } }] }"
	f := parse(t, old)
	if got, want := fmt.Sprint(f.Notes), "[f.yaml:1:66: note: functions.rules[0].bulkhead.max_waiting: max_waiting is the old form of this field: use max_waiters]"; got != want {
		t.Errorf("notes %s, want %s", got, want)
	}
	if got := f.Functions.Rules[0].Settings.Bulkhead.MaxWaiters; got != 7 {
		t.Errorf("max_waiting: 7 is %d waiters", got)
	}
	if _, err := weirfile.Parse("weir.yaml", []byte(strings.Replace(old, "max: 1,", "max: 1, max_waiters: 7,", 1))); err == nil || !strings.Contains(err.Error(), "want max_waiters or max_waiting, not both") {
		t.Errorf("both forms: %v", err)
	}
	for limit, want := range map[string]string{
		"{ rate: 5/m, refill: interval, interval: true }":         "interval: true: want refill or interval, not both",
		"{ rate: 5/m, algorithm: sliding_log, refill: interval }": `limits[0].refill: "interval": sliding_log has none`,
		"{ rate: 5/m, refill: hourly }":                           "limits[0].refill: ",
	} {
		if _, err := weirfile.Parse("weir.yaml", []byte("policies: [{ name: a, key: client.ip, limits: "+limit+" }]")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %s", limit, err, want)
		}
	}
}

// TestUnmatchedPolicies checks the notes about policies that apply to no request.
func TestUnmatchedPolicies(t *testing.T) {
	const note = ": note: policies[%d]: it applies to no request: except covers all that it matches"
	f := parse(t, `except: { paths: [/a, /b] }
policies:
  - { name: global, match: /a, key: client.ip, limits: 1/s }
  - { name: wider, match: { paths: [/a, /c] }, key: client.ip, limits: 1/s }
  - { name: own, match: { methods: [GET] }, except: { methods: [GET, POST] }, key: client.ip, limits: 1/s }
  - { name: some, match: { methods: [GET] }, except: { methods: GET, ips: 10.0.0.0/8 }, key: client.ip, limits: 1/s }
  - { name: every, key: client.ip, limits: 1/s }
  - { name: below, match: /c/d, except: { paths: "/c/*" }, key: client.ip, limits: 1/s }
  - { name: above, match: "/c/*", except: { paths: [/c, "/c/{id}"] }, key: client.ip, limits: 1/s }
  - { name: segment, match: /c/d/e, except: { paths: "/c/{id}/e", methods: GET }, key: client.ip, limits: 1/s }
  - { name: all, except: { paths: "/*" }, key: client.ip, limits: 1/s }
  - { name: host, match: { hosts: [x.example.com, "*.a.example.com"], methods: HEAD }, except: { hosts: "*.example.com", methods: GET }, key: client.ip, limits: 1/s }
  - { name: hosts, match: { hosts: [example.com, a.example.com] }, except: { hosts: "*.example.com" }, key: client.ip, limits: 1/s }
`)
	var want []string
	for _, at := range [][2]int{{3, 0}, {5, 2}, {8, 5}, {11, 8}, {12, 9}} {
		want = append(want, fmt.Sprintf("f.yaml:%d:5"+note, at[0], at[1]))
	}
	if got, want := fmt.Sprint(f.Notes), fmt.Sprint(want); got != want {
		t.Errorf("notes %s, want %s", got, want)
	}
}
