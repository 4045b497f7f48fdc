package edge_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/httplimit"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

// TestCompileFaults checks that a field that nginx does not support is refused with
// policy, field, value and advice.
func TestCompileFaults(t *testing.T) {
	const behind = "put this policy behind /v1/auth, see docs/nginx.md"
	for _, test := range []struct{ policy, want string }{
		{`cost: { json: usage.total_tokens }`, `edge: policy "p": cost.json: "usage.total_tokens": nginx does not read the cost from responses: put this policy into Weir's gateway`},
		{`cost: { header: X-Cost }`, `edge: policy "p": cost.header: "X-Cost": nginx does not read the cost from responses: put this policy into Weir's gateway`},
		{`match: 'request.path.matches("^/a")'`, `edge: policy "p": match.where: "request.path.matches(\"^/a\")": nginx cannot evaluate a regular expression (matches): rewrite the expression, or ` + behind},
		{`cost: 'size(request.path.split("/"))'`, `edge: policy "p": cost: "size(request.path.split(\"/\"))": nginx cannot evaluate split: `},
		{`key: 'cel:request.path.substring(1)'`, `edge: policy "p": key[0]: "cel:request.path.substring(1)": nginx does not evaluate expressions in keys: use a header, a cookie or another part of the request, or ` + behind},
		{`key: [client.ip, "form:email"]`, `edge: policy "p": key[1]: "form:email": nginx does not read the bodies of requests: put this policy into Weir's gateway, see docs/nginx.md`},
		{`key: [client.ip, "claim:sub"]`, `edge: policy "p": key[1]: "claim:sub": nginx does not read JSON Web Tokens: use a header that carries the claim, or ` + behind},
		{`count: all`, `edge: policy "p": count: all: nginx does not charge denied requests: use admitted, or ` + behind},
		{`on_denied: { wait: 2s }`, `edge: policy "p": on_denied.wait: 2s: nginx does not hold denied requests back: leave it out, or ` + behind},
		{`overrides: [{ key: "*", limits: unlimited }]`, `edge: policy "p": overrides[0].limits: unlimited: nginx needs limits: ` + behind},
		{`overrides: [{ key: "*", limits: 0 }]`, `edge: policy "p": overrides[0].limits: 0: nginx needs limits: ` + behind},
		{`limits: 500/s, shares: auto`, `edge: policy "p": shares: auto: nginx has no shares, and would decide by a state of its own: use off, or ` + behind},
		{`candidate: 5/s`, `edge: policy "p": candidate: "5/s burst 5": nginx does not try candidate limits: use a second policy with mode: shadow, or ` + behind},
		{`carry: as_is`, `edge: policy "p": carry: as_is: nginx keeps what was used or nothing: use usage or reset, or ` + behind},
		{`overrides: [{ key: "*", limits: { rate: 5/month, calendar: UTC } }]`, `edge: policy "p": overrides[0].limits: "5/month fixed_window calendar UTC": nginx has no time zones for calendar windows: use a period such as 24h, or ` + behind},
		{`except: { paths: /a }`, `edge: policy "p": except: 1 of them: nginx does not exempt requests from a policy: `},
		{`block: true`, `edge: policy "p": block: true: nginx does not block requests by policy: use deny or return in its configuration, or ` + behind},
		{`limits: unlimited`, `edge: policy "p": limits: unlimited: nginx needs limits: ` + behind},
	} {
		text := "policies:\n  - { name: p, " + test.policy
		if !strings.HasPrefix(test.policy, "limits") && !strings.HasPrefix(test.policy, "block") {
			text += ", limits: 10/s"
		}
		if !strings.HasPrefix(test.policy, "key") {
			text += ", key: client.ip"
		}
		_, err := edge.Compile(parse(t, text+" }\n").Policies, edge.Options{})
		var errs fault.Errors
		if !errors.As(err, &errs) || len(errs) != 1 || !errors.Is(err, weir.ErrInvalid) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.policy, err, test.want)
		}
	}
}

// TestCompileAllFaults checks that the faults of all policies are reported at once.
func TestCompileAllFaults(t *testing.T) {
	set := parse(t, `policies:
  - { name: a, key: client.ip, limits: 1/s, on_store_error: local, cost: { json: n }, match: 'request.path.matches("a")' }
  - { name: b, key: client.ip, limits: 1/s }
  - { name: c, key: client.ip, limits: 1/s, on_store_error: local }
  - { name: off, key: client.ip, limits: 1/s, on_store_error: local, mode: "off" }
`).Policies
	_, err := edge.Compile(set, edge.Options{Only: []string{"a", "b", "c", "absent"}, Local: "maybe"})
	var said []string
	var errs fault.Errors
	if errors.As(err, &errs) {
		for _, e := range errs {
			said = append(said, e.Policy+" "+e.Field)
		}
	}
	if got, want := fmt.Sprint(said), "[ local  only a cost.json a match.where]"; got != want {
		t.Errorf("the faults are %s, want %s", got, want)
	}
	for local, want := range map[policy.FailMode]string{"": "closed", policy.Closed: "closed", policy.Open: "open"} {
		p, err := edge.Compile(set, edge.Options{Only: []string{"b", "c"}, Local: local})
		if err != nil || len(p.Policies) != 2 || p.Policies[0].OnStoreError != want || p.Policies[1].OnStoreError != want {
			t.Errorf("Compile of b and c with Local %q = %+v, %v, want both %s", local, p, err, want)
		}
	}
}

// TestCompileZones checks that policies of one zone have one bucket and are compiled together.
func TestCompileZones(t *testing.T) {
	set := parse(t, `policies:
  - { name: login, match: /login, key: client.ip, nginx: { zone: perip, rate: 10r/s, burst: 5 } }
  - { name: rest, key: client.ip, nginx: { zone: perip, rate: 10r/s, burst: 20, nodelay: true } }
  - { name: alone, key: client.ip, limits: 1/s }
`).Policies
	p, err := edge.Compile(set, edge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if a, b, c := p.Policies[0].Bucket, p.Policies[1].Bucket, p.Policies[2].Bucket; a != b || a == "login" || c != "alone" || p.Rules[0].Suffix != p.Rules[1].Suffix {
		t.Errorf("the buckets are %s, %s and %s, the states %s and %s, want the first two to have one", a, b, c, p.Rules[0].Suffix, p.Rules[1].Suffix)
	}
	for only, want := range map[string]string{
		"rest":  `edge: only: "rest": want policy "login" too: they share a zone, in which a request counts once`,
		"other": `edge: only: "other": want the name of a policy of the file`,
	} {
		if _, err := edge.Compile(set, edge.Options{Only: []string{only}}); fmt.Sprint(err) != want {
			t.Errorf("Compile of %s alone = error %v, want %s", only, err, want)
		}
	}
	if p, err := edge.Compile(set, edge.Options{Only: []string{"rest", "login"}}); err != nil || len(p.Policies) != 2 {
		t.Errorf("Compile of a zone = %v, want both", err)
	}
}

// TestCompileMany says how large a plan may be.
func TestCompileMany(t *testing.T) {
	var overrides []policy.Override
	limits := []weir.Limit{weir.MustLimit("5/s")}
	for i := range 100_000 {
		overrides = append(overrides, policy.Override{Key: []string{fmt.Sprintf("%60d", i)[3:]}, Limits: limits})
	}
	for i := range overrides {
		overrides[i].Key[0] = strings.ReplaceAll(overrides[i].Key[0], " ", "x")
	}
	compile := func(n int) error {
		p, err := policy.New(policy.Config{Name: "p", Key: []policy.KeyPart{{Source: policy.Header, Name: "X"}}, Limits: limits, Overrides: overrides[:n]})
		if err != nil {
			t.Fatal(err)
		}
		set, err := policy.NewSet(p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = edge.Compile(set, edge.Options{})
		return err
	}
	if err := compile(40_000); err != nil {
		t.Errorf("40000 overrides: %v", err)
	}
	if err := compile(len(overrides)); err == nil || !strings.Contains(err.Error(), "edge: policies: a plan of ") || !strings.Contains(err.Error(), "want at most 4194304") {
		t.Errorf("100000 overrides: %v, want what a plan may have", err)
	}
}

// TestCompileBytes checks that a text that is not UTF-8 is refused.
func TestCompileBytes(t *testing.T) {
	limits := []weir.Limit{weir.MustLimit("5/s")}
	p, err := policy.New(policy.Config{
		Name: "p", Key: []policy.KeyPart{{Source: policy.Header, Name: "X"}}, Limits: limits,
		Match:     policy.Match{Headers: map[string][]string{"Y": {"a\xff"}}},
		OnDenied:  policy.OnDenied{Body: "b\xff", Headers: map[string]string{"Z": "\xfe"}},
		Overrides: []policy.Override{{Key: []string{"c\xff"}, Limits: limits}, {Key: []string{"*\xff*"}, Limits: limits}},
	})
	if err != nil {
		t.Fatal(err)
	}
	set, err := policy.NewSet(p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = edge.Compile(set, edge.Options{})
	var errs fault.Errors
	if !errors.As(err, &errs) || len(errs) != 5 || !strings.Contains(err.Error(), `match.headers.Y: "a\xff": want text in UTF-8`) {
		t.Errorf("Compile = error %v, want five texts that are none", err)
	}
}

// good is Input without a fault.
func good() edge.Input {
	return edge.Input{Store: "redis://127.0.0.1:6379", Deadline: 50 * time.Millisecond, File: "weir.yaml"}
}

func TestConfFaults(t *testing.T) {
	for want, change := range map[string]func(in *edge.Input){
		"edge: store: memory: nginx keeps state in Redis: want a URL":                                     func(in *edge.Input) { in.Store = "memory" },
		"edge: store: nginx keeps state in Redis":                                                         func(in *edge.Input) { in.Store = "" },
		"edge: store: redis+cluster: nginx does not support clusters: want redis:// or redis+sentinel://": func(in *edge.Input) { in.Store = "redis+cluster://a,b" },
		"edge: store: want one that begins with redis://":                                                 func(in *edge.Input) { in.Store = "nonsense" },
		"want both or none": func(in *edge.Input) { in.Store = "rediss://h?cert=x" },
		"edge: failover.deadline: 500µs: want at least 1ms":           func(in *edge.Input) { in.Deadline = 500 * time.Microsecond },
		"edge: lua: \"relative\": want the absolute path":             func(in *edge.Input) { in.Lua = "relative" },
		`edge: lua: "/a\";}": want the absolute path`:                 func(in *edge.Input) { in.Lua = "/a\";}" },
		`edge: lua: "/a;/b": want`:                                    func(in *edge.Input) { in.Lua = "/a;/b" },
		`edge: lua: "/a\nb": want`:                                    func(in *edge.Input) { in.Lua = "/a\nb" },
		`edge: init: "mine.lua": want the absolute path`:              func(in *edge.Input) { in.Init = "mine.lua" },
		`edge: init_worker: "/a\")os.exit()": want the absolute path`: func(in *edge.Input) { in.InitWorker = "/a\")os.exit()" },
		"edge: gateway.client_header: forwarded: nginx reads X-Forwarded-For: want": func(in *edge.Input) {
			in.Client = httplimit.ClientAddress{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Header: "Forwarded"}
		},
	} {
		in := good()
		change(&in)
		text, err := edge.Conf(new(policy.Set), edge.Options{}, in)
		if text != "" || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Conf = %.20q, %v, want an error with %q", text, err, want)
		}
	}
	in := good()
	in.Store, in.Lua = "memory", "x"
	_, err := edge.Conf(parse(t, "policies: [{ name: p, key: client.ip, limits: 1/s, count: all }]").Policies, edge.Options{}, in)
	var errs fault.Errors
	if !errors.As(err, &errs) || len(errs) != 3 {
		t.Errorf("Conf = error %v, want three", err)
	}
}
