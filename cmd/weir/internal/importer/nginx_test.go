package importer_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/importer"
	"github.com/floodweir/weir/policy"
)

func nginx(text string) (*importer.Result, error) {
	return importer.Nginx("nginx.conf", files(map[string]string{"nginx.conf": text}))
}

const zones = `limit_req_zone $binary_remote_addr zone=a:1m rate=10r/s;
limit_req_zone $http_x_key$arg_k zone=b:1m rate=6r/m;
limit_conn_zone $binary_remote_addr zone=c:1m;
`

// TestNginxLimits checks the policies of single limits.
func TestNginxLimits(t *testing.T) {
	for _, test := range []struct{ conf, want string }{
		{"limit_req zone=a;", `nginx: { rate: 10r/s }`},
		{"limit_req zone=a burst=5;", `nginx: { rate: 10r/s, burst: 5 }`},
		{"limit_req zone=a burst=5 nodelay;", `nginx: { rate: 10r/s, burst: 5, nodelay: true }`},
		{"limit_req burst=5 delay=3 zone=a;", `nginx: { rate: 10r/s, burst: 5, delay: 3 }`},
		{"limit_req zone=a burst=5 delay=7;", `nginx: { rate: 10r/s, burst: 5, delay: 7 }`},
		{"limit_req zone=a nodelay;", `nginx: { rate: 10r/s, nodelay: true }`},
		{"limit_req zone=b;", `nginx: { rate: 6r/m }`},
		{"limit_req zone=b;", `key: ["header:X-Key", "query:k"]`},
		{"limit_req zone=b;", `where: 'request.headers["x-key"] != "" || request.query["k"] != ""'`},
		{"limit_conn c 5;", `limits: ["5 concurrency"]`},
		{"limit_req zone=a; limit_req_status 503;", `nginx: { rate: 10r/s }`},
		{"limit_req zone=a; limit_req_status 444;", "nginx: { rate: 10r/s, status: 444 }"},
		{"limit_conn c 5; limit_conn_status 420; limit_req_status 444;", "on_denied: { status: 420 }"},
		{"limit_req zone=a; limit_req_dry_run on;", "nginx: { rate: 10r/s, dry_run: true }"},
		{"limit_req zone=a; server { limit_req_dry_run ON; }", "nginx: { rate: 10r/s, dry_run: true }"},
		{"limit_req zone=a; limit_req zone=b; limit_req_dry_run on;", "# differs: nginx decides the limits of a dry run together"},
		{"limit_req zone=a; server { location /x/ { limit_req zone=a burst=5; } }", "nginx: { zone: a, rate: 10r/s, burst: 5 }"},
		{"limit_req zone=a; server { location /x/ { limit_req zone=a burst=5; } }", "nginx: { zone: a, rate: 10r/s }"},
		{"limit_conn c 5; limit_conn_dry_run on;", "mode: shadow"},
		{"limit_conn c 5; server { location /x/ { limit_conn c 3; } location /y/ { limit_conn c 4; } }", "nginx: { zone: c, connections: 3 }"},
		{`limit_req_zone "x:${binary_remote_addr}:$request_method" zone=d:1m rate=1r/s; limit_req zone=d;`, "key: [client.ip/128, method]"},
		{`limit_req_zone all zone=d:1m rate=1r/s; limit_req zone=d;`, `key: ["const:all"]`},
		{`limit_req_zone $host zone=d:1m rate=1r/s; limit_req zone=d;`, `key: ["cel:request.host"]`},
		{`limit_req_zone $host zone=d:1m rate=1r/s; server { server_name x.example; limit_req zone=d; } server { listen 81; server_name y.example; }`, "except: { hosts: [y.example] }"},
		{"limit_conn c 5; server { } server { server_name .y.example z.example; return 404; }", `except: { hosts: [y.example, "*.y.example", z.example] }`},
		{"server { limit_conn c 5; location = /healthz { return 200; } location /static/ { return 204; } }", `except: { paths: ["/healthz", "/static/*"] }`},
		{"server { limit_conn c 5; location = /healthz { return 200; } location ~ x$ { return 204; } }", `where: '!(request.path == "/healthz" || request.path.endsWith("x"))'`},
		{"server { limit_conn c 5; location = /y { return 200; } } server { server_name y.example; return 404; }", "except:\n      - paths: [\"/y\"]\n      - hosts: [y.example]"},
		{`limit_req_zone $host zone=d:1m rate=1r/s; server { } server { server_name x.example; limit_req zone=d; }`, "key: [host]"},
		{`limit_req_zone $jwt_claim_sub zone=d:1m rate=1r/s; limit_req zone=d;`, `key: ["claim:sub"]`},
		{`limit_req_zone $cookie_s zone=d:1m rate=1r/s; limit_req zone=d;`, `where: 'request.cookies["s"] != ""'`},
		{"server { server_name a.example b.example; } server { server_name *.c.example .d.example; limit_req zone=a; }", `hosts: ["*.c.example", d.example, "*.d.example"]`},
		{"server { } server { server_name w.*; limit_req zone=a; }", `where: 'request.host.startsWith("w.")'`},
		{`server { } server { server_name ~^w\d+; limit_req zone=a; }`, `where: 'request.host.matches("(?i)^w\\d+")'`},
		{"server { } server { server_name *.c.example; limit_req zone=a; } server { server_name x.c.example; }", `where: 'request.host.endsWith(".c.example") && !(request.host == "x.c.example")'`},
	} {
		r, err := nginx("http { " + zones + test.conf + " }")
		if err != nil {
			t.Errorf("%s: %v", test.conf, err)
			continue
		}
		if accepted(t, r); !strings.Contains(r.Text, test.want) || len(r.Listed) > 0 {
			t.Errorf("%s: want %s, listed %v, got\n%s", test.conf, test.want, r.Listed, r.Text)
		}
	}
}

// TestNginxServers checks that a zone of many servers, each with other paths, becomes a policy for
// each server, which share the zone.
func TestNginxServers(t *testing.T) {
	var conf strings.Builder
	conf.WriteString("http { " + zones)
	for i := range 300 {
		fmt.Fprintf(&conf, "server { server_name h%d.example; location /e%d/ { limit_req zone=a burst=5; } }\n", i, i)
	}
	r, err := nginx(conf.String() + "}")
	if err != nil {
		t.Fatal(err)
	}
	set := accepted(t, r)
	if r.Policies != 300 || len(r.Listed) != 0 {
		t.Fatalf("%d policies, %d are listed, want 300 and 0: %.300v", r.Policies, len(r.Listed), r.Listed)
	}
	for _, test := range []struct {
		host, path string
		want       int
	}{
		{"h7.example", "/e7/x", 1}, {"h7.example", "/e8/x", 0}, {"h299.example", "/e299/", 1},
		{"h0.example", "/e0/", 1}, {"other.example", "/e0/", 1}, {"other.example", "/e1/", 0}, {"h1.example", "/e0/", 0},
	} {
		var q policy.Matches
		set.Match(&q, request{method: "GET", host: test.host, path: test.path, ip: "192.0.2.1"})
		if len(q.Requests) != test.want || test.want > 0 && q.Requests[0].Key != "a~zone|9:192.0.2.1" {
			t.Errorf("%s%s: %+v, want %d limits of the zone a", test.host, test.path, q.Requests, test.want)
		}
	}
}

// TestNginxZones checks that the scopes of a zone share one state, unless its key
// distinguishes them.
func TestNginxZones(t *testing.T) {
	r, err := nginx(`http {
		limit_req_zone $binary_remote_addr "zone=per ip:1m" rate=10r/s;
		limit_req_zone $binary_remote_addr zone=per-ip:1m rate=20r/s;
		limit_req_zone $server_name zone=server:1m rate=30r/s;
		limit_req_zone $host zone=host:1m rate=40r/s;
		server { server_name one.example; limit_req zone=server; limit_req zone=host; }
		server {
			server_name two.example;
			location /a/ { limit_req "zone=per ip" burst=5; limit_req zone=server burst=5; limit_req zone=host burst=5; }
			location /b/ { limit_req "zone=per ip" burst=9 nodelay; limit_req zone=server; }
			location /c/ { limit_req zone=per-ip; }
			location /d/ { limit_req zone=per-ip burst=3; }
		}
	}`)
	if err != nil {
		t.Fatal(err)
	}
	set := accepted(t, r)
	for _, test := range []struct{ host, path, want string }{
		{"one.example", "/", "server|11:one.example 30, host~zone|11:one.example 40"},
		{"two.example", "/a/", "per-ip~zone|9:192.0.2.1 10 burst 5 queue, server-2~zone|11:two.example 30 burst 5 queue, host~zone|11:two.example 40 burst 5 queue"},
		{"two.example", "/b/", "per-ip~zone|9:192.0.2.1 10 burst 9, server-2~zone|11:two.example 30"},
		{"two.example", "/c/", "per-ip-2~zone|9:192.0.2.1 20"},
		{"two.example", "/d/", "per-ip-2~zone|9:192.0.2.1 20 burst 3 queue"},
	} {
		var q policy.Matches
		set.Match(&q, request{method: "GET", host: test.host, path: test.path, ip: "192.0.2.1"})
		var all []string
		for _, one := range q.Requests {
			c := one.Limit.Config().(weir.LeakyBucket)
			text := fmt.Sprint(one.Key, " ", c.Count)
			if c.Burst > 0 {
				text += fmt.Sprint(" burst ", c.Burst)
			}
			if c.Queue {
				text += " queue"
			}
			all = append(all, text)
		}
		if got := strings.Join(all, ", "); got != test.want {
			t.Errorf("%s%s asks %s, want %s", test.host, test.path, got, test.want)
		}
	}
}

// TestNginxListed checks that everything that cannot be expressed is listed.
func TestNginxListed(t *testing.T) {
	for _, test := range []struct{ conf, want string }{
		{"limit_req_zone $request_uri zone=d:1m rate=1r/s;\nlimit_req zone=d;", "nginx.conf:3: limit_req zone=d: the key of its zone is $request_uri (nginx.conf:2): a client can spell it"},
		{"limit_req_zone $thing zone=d:1m rate=1r/s;\nlimit_req zone=d;", "nginx.conf:3: limit_req zone=d: the key of its zone is $thing (nginx.conf:2): $thing"},
		{"limit_rate 10k;", "nginx.conf:2: limit_rate 10k: Weir limits requests, not bandwidth"},
		{"limit_req_whitelist 10.0.0.0/8;", "nginx.conf:2: limit_req_whitelist 10.0.0.0/8: not a directive of nginx itself"},
		{"set_real_ip_from 10.0.0.0/8;", "nginx.conf:2: set_real_ip_from 10.0.0.0/8: set gateway.trusted_proxies"},
		{"include nowhere.conf;", "nginx.conf:2: include nowhere.conf: cannot be read, so its content is missing here: open nowhere.conf: no such file"},
		{"limit_req_zone $remote_addr zone=d:1m rate=1r/s;\nserver { location @back {\nlimit_req zone=d; } }", "nginx.conf:4: limit_req zone=d: location @back has no path"},
		{"limit_req_zone $remote_addr zone=d:1m rate=1r/s;\nserver { location ~ (?=x) {\nlimit_req zone=d; } }", "nginx.conf:3: limit_req zone=d: RE2 does not support the regular expression location ~ (?=x)"},
		{"limit_req_zone $remote_addr zone=d:1m rate=1r/s;\nserver { location / { if ($x) {\nlimit_req zone=d; } } }", "nginx.conf:4: limit_req zone=d: nginx does not allow it in an if block"},
		{"limit_req_zone $remote_addr zone=d:1m rate=1r/s;\nserver { location /\xff {\nlimit_req zone=d; } } # gr\xfcn\n", "nginx.conf:4: limit_req zone=d; of nginx.conf:2: limit_req_zone $remote_addr zone=d:1m rate=1r/s: it is not valid UTF-8"},
		{"limit_req_zone $http_ zone=d:1m rate=1r/s;\nlimit_req zone=d;", "nginx.conf:3: limit_req zone=d: the key of its zone is $http_ (nginx.conf:2): $http_"},
		{"limit_req_zone $remote_addr zone=d:1m rate=2000000000r/s;\nlimit_req zone=d burst=9000000000000;", "nginx.conf:3: limit_req zone=d burst=9000000000000; of nginx.conf:2: limit_req_zone $remote_addr zone=d:1m rate=2000000000r/s: not a valid policy"},
	} {
		r, err := nginx("http {\n" + test.conf + " }")
		if err != nil {
			t.Errorf("%s: %v", test.conf, err)
			continue
		}
		accepted(t, r)
		if len(r.Listed) != 1 || !strings.HasPrefix(r.Listed[0].String(), test.want) {
			t.Errorf("%s: listed %v, want %s", test.conf, r.Listed, test.want)
		}
	}
	r, err := nginx("stream {\nlimit_conn x 5;\nserver { limit_conn y 5; } }")
	if err != nil || len(r.Listed) != 2 || r.Policies != 0 {
		t.Errorf("a stream block: %+v, %v, want two listed", r, err)
	} else {
		accepted(t, r)
	}
}

// TestNginxBroken checks the errors of files that nginx refuses.
func TestNginxBroken(t *testing.T) {
	for text, want := range map[string]string{
		"http {":           `nginx.conf:1: unexpected end of file, want "}"`,
		"include [*.conf;": "nginx.conf:1: include [*.conf: syntax error in pattern",
		"http {\n" + zones + "limit_req zone=nowhere; }": `nginx.conf:5: limit_req zone=nowhere: there is no zone "nowhere"`,
		"http { server { location x y { } } }":           `nginx.conf:1: location x y: "x": want =, ~, ~* or ^~`,
	} {
		_, err := nginx(text)
		var e *importer.Error
		if !errors.As(err, &e) || !errors.Is(err, weir.ErrInvalid) || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := importer.Nginx("testdata/nowhere.conf", importer.Files{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// A place is one location of the model.
type place struct {
	modifier, pattern, zone string
}

// takes returns the location that nginx chooses for a path: an exact one, else the
// longest prefix. A regular expression that matches overrides a prefix without ^~.
func takes(places []place, path string) *place {
	var longest *place
	for i := range places {
		p := &places[i]
		switch {
		case p.modifier == "=" && p.pattern == path:
			return p
		case (p.modifier == "" || p.modifier == "^~") && strings.HasPrefix(path, p.pattern) && (longest == nil || len(p.pattern) > len(longest.pattern)):
			longest = p
		}
	}
	if longest != nil && longest.modifier == "^~" {
		return longest
	}
	for i := range places {
		if p := &places[i]; p.modifier == "~" && regexp.MustCompile(p.pattern).MatchString(path) {
			return p
		}
	}
	return longest
}

// TestNginxLocations checks that the limit of the location that nginx chooses applies to a
// request.
func TestNginxLocations(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	patterns := map[string][]string{
		"":   {"/", "/a", "/a/b", "/a/bc", "/a/b/c", "/b/", "/b/a/", "/c/a"},
		"^~": {"/a/x", "/b/x/", "/d"},
		"=":  {"/", "/a", "/a/b", "/b/a", "/d/e"},
		"~":  {`\.php$`, "^/b/[a-c]", "/c"},
	}
	var paths []string
	for _, a := range []string{"", "/a", "/b", "/c", "/d", "/ab"} {
		for _, b := range []string{"", "/a", "/b", "/bc", "/x", "/x/c", "/c/a", "/x.php", "/e"} {
			if a+b != "" {
				paths = append(paths, a+b)
			}
		}
	}
	paths = append(paths, "/")
	requests := 0
	for n := range 300 {
		var places []place
		var conf strings.Builder
		outer := []string{"", "a"}[r.IntN(2)]
		fmt.Fprintf(&conf, "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s; limit_req_zone $binary_remote_addr zone=b:1m rate=2r/s;\nserver {\n")
		if outer != "" {
			conf.WriteString("limit_req zone=a;\n")
		}
		for _, modifier := range []string{"", "^~", "=", "~"} {
			for _, pattern := range patterns[modifier] {
				if r.IntN(3) > 0 {
					continue
				}
				zone := []string{outer, "a", "b"}[r.IntN(3)]
				places = append(places, place{modifier, pattern, zone})
				fmt.Fprintf(&conf, "location %s %q {", modifier, pattern)
				if zone != outer {
					fmt.Fprintf(&conf, " limit_req zone=%s;", zone)
				}
				conf.WriteString(" }\n")
			}
		}
		conf.WriteString("}\n")
		result, err := nginx(conf.String())
		if err != nil {
			t.Fatalf("%v\n%s", err, &conf)
		}
		set := accepted(t, result)
		for _, path := range paths {
			want := outer
			if p := takes(places, path); p != nil {
				want = p.zone
			}
			// For a policy /x/ equals /x, so such paths match both locations and are skipped.
			got := limitsOf(set, request{method: "GET", host: "x", path: path, ip: "192.0.2.1"})
			if slash := takes(places, path+"/"); slash != nil && slash.zone != want || slash == nil && outer != want {
				continue
			}
			requests++
			rate := map[string]string{"": "[]", "a": "[a: 1/s leaky_bucket burst 0 nginx]", "b": "[b: 2/s leaky_bucket burst 0 nginx]"}[want]
			if fmt.Sprint(got) != rate {
				t.Fatalf("%d: %s falls under %v, want %s:\n%s\n%s", n, path, got, rate, &conf, result.Text)
			}
		}
	}
	t.Logf("%d requests", requests)
	if requests < 5000 {
		t.Errorf("%d requests: the test has lost its point", requests)
	}
}

// TestNginxReturn checks that return takes effect before limits.
func TestNginxReturn(t *testing.T) {
	r, err := nginx("http {\n" + zones + `limit_req zone=a;
		server { server_name a; return 301 https://b; }
		server { server_name b; location /x/ { limit_req zone=b; return 204; } location = /y { return 200; } location / { } }
	}`)
	if err != nil {
		t.Fatal(err)
	}
	set := accepted(t, r)
	for _, test := range []struct{ host, path, want string }{
		{"b", "/", "[a: 10/s leaky_bucket burst 0 nginx]"}, {"b", "/x/y", "[]"}, {"b", "/y", "[]"}, {"a", "/", "[]"},
	} {
		if got := fmt.Sprint(limitsOf(set, request{method: "GET", host: test.host, path: test.path, ip: "192.0.2.1"})); got != test.want {
			t.Errorf("%s%s falls under %s, want %s", test.host, test.path, got, test.want)
		}
	}
	if !strings.Contains(r.Text, "nginx evaluates return before limits") {
		t.Errorf("the file does not say it:\n%s", r.Text)
	}
}
