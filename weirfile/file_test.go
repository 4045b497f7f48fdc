package weirfile_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestExampleFile: the file that the documentation shows is good, and says what its
// comments say.
func TestExampleFile(t *testing.T) {
	f, err := weirfile.Load("../weir.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "store %s\ngateway %s, fields %s, jitter %v, client %v %v\nhttp %s\n", f.Store, f.Gateway.Listen, f.Gateway.Fields, f.Gateway.RetryJitter,
		f.Gateway.Client.Trusted, f.Gateway.Client.Header, f.HTTP.Listen)
	for _, r := range f.Gateway.Routes {
		fmt.Fprintf(&b, "route %q%s to %s, timeout %v\n", r.Host, r.Path, r.Upstream, r.Timeout)
	}
	for _, p := range f.Policies.Policies() {
		c := p.Config()
		fmt.Fprintf(&b, "policy %s %s: %v by %v, cost %d, %s on store errors, denied %+v, match %v, overrides %v\n",
			c.Name, c.Mode, c.Limits, c.Key, c.Cost, c.OnStoreError, c.OnDenied, c.Match, c.Overrides)
	}
	golden(t, "testdata/example.golden", b.String())
}

// TestExampleFileHasEveryField: what can be said is said there.
func TestExampleFileHasEveryField(t *testing.T) {
	data, err := os.ReadFile("../weir.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range strings.Fields(`store gateway listen routes path host upstream timeout trusted_proxies client_header headers retry_jitter http
		policies name match paths methods hosts key limits cost on_denied status body content_type on_store_error mode overrides rate calendar algorithm
		lease burst queue`) {
		if !strings.Contains(string(data), field+":") {
			t.Errorf("weir.example.yaml does not show %s", field)
		}
	}
}

func TestLimitForms(t *testing.T) {
	for yaml, want := range map[string]string{
		`10/s`:                      "10/s burst 10",
		`"10/s burst 20"`:           "10/s burst 20",
		`[10/s burst 20]`:           "10/s burst 20",
		`{ rate: 10/s }`:            "10/s burst 10",
		`{ rate: 10/s, burst: 20 }`: "10/s burst 20",
		`{ rate: 1_000/s, burst: 2_000, algorithm: gcra }`:                                  "1000/s burst 2000",
		`{ rate: 100/m, interval: true }`:                                                   "100/m burst 100 interval",
		`{ rate: 100/m, interval: true, anchor: epoch }`:                                    "100/m burst 100 interval anchor epoch",
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
		`/api/*`:                             `{[] [] [/api/*] map[]}`,
		`"/users/{id}"`:                      `{[] [] [/users/{id}] map[]}`,
		`{ paths: /a, methods: [GET, PUT] }`: `{[GET PUT] [] [/a] map[]}`,
		`{ hosts: a.example, headers: { X-A: a, X-B: [b, c] } }`: `{[] [a.example] [] map[X-A:[a] X-B:[b c]]}`,
	} {
		f := parse(t, "policies: [{ name: a, key: client.ip, limits: 1/s, match: "+yaml+" }]")
		if got := fmt.Sprint(f.Policies.Policy("a").Config().Match); got != want {
			t.Errorf("match: %s = %s, want %s", yaml, got, want)
		}
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

// TestAliases: what stands in a file twice can be written once.
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
