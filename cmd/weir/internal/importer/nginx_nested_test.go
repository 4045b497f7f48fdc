package importer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
)

// TestNginxNested checks locations within locations against a model.
func TestNginxNested(t *testing.T) {
	result, err := nginx(`
limit_req_zone $binary_remote_addr zone=z1:1m rate=1r/s; limit_req_zone $binary_remote_addr zone=z2:1m rate=2r/s;
limit_req_zone $binary_remote_addr zone=z3:1m rate=3r/s; limit_req_zone $binary_remote_addr zone=z4:1m rate=4r/s;
limit_req_zone $binary_remote_addr zone=z5:1m rate=5r/s; limit_req_zone $binary_remote_addr zone=z6:1m rate=6r/s;
limit_req_zone $binary_remote_addr zone=z7:1m rate=7r/s; limit_req_zone $binary_remote_addr zone=z8:1m rate=8r/s;
limit_req_zone $binary_remote_addr zone=z9:1m rate=9r/s;
server {
	limit_req zone=z1;
	location /login/ {
		limit_req zone=z2;
		location /login/admin { limit_req zone=z3; }
		location ~ \.css$ { limit_req zone=z4; }
		location = /login/deep/x { limit_req zone=z9; }
	}
	location /login/deep/ { limit_req zone=z5; }
	location ^~ /static/ { limit_req zone=z6; location ~ \.css$ { limit_req zone=z7; } }
	location ~ \.(css|js)$ { limit_req zone=z8; }
}`)
	if err != nil {
		t.Fatal(err)
	}
	set := accepted(t, result)
	zonesOf(t, set, map[string]int{
		"/":                    1,
		"/x":                   1,
		"/x.css":               8,
		"/x.js":                8,
		"/login/x":             2,
		"/login/x.js":          8,
		"/login/x.css":         4,
		"/login/admin":         3,
		"/login/admin/x.css":   4,
		"/login/admin/x.js":    8,
		"/login/deep/a":        5,
		"/login/deep/x":        5,
		"/login/deep/x.css":    8,
		"/static/x":            6,
		"/static/x.css":        7,
		"/static/x.js":         6,
		"/static/login/x.css":  7,
		"/other/login/x.css":   8,
		"/other/static/x.html": 1,
	})
	if t.Failed() {
		t.Log(string(result.Text))
	}
}

// zonesOf checks by number which of the zones z1 to z9 limits a path; zone 3 has 3 requests per second.
func zonesOf(t *testing.T, set *policy.Set, zones map[string]int) {
	t.Helper()
	for path, want := range zones {
		got := fmt.Sprint(limitsOf(set, request{method: "GET", host: "x", path: path, ip: "192.0.2.1"}))
		if rate := fmt.Sprintf("[z%d: %d/s leaky_bucket burst 0 nginx]", want, want); got != rate {
			t.Errorf("%s falls under %s, want %s", path, got, rate)
		}
	}
}

// TestNginxExpressions checks that the usual lists of regular expressions become policies
// within the bounds of an expression.
func TestNginxExpressions(t *testing.T) {
	result, err := nginx(`
limit_req_zone $binary_remote_addr zone=z1:1m rate=1r/s; limit_req_zone $binary_remote_addr zone=z2:1m rate=2r/s;
limit_req_zone $binary_remote_addr zone=z3:1m rate=3r/s; limit_req_zone $binary_remote_addr zone=z4:1m rate=4r/s;
limit_req_zone $binary_remote_addr zone=z5:1m rate=5r/s; limit_req_zone $binary_remote_addr zone=z6:1m rate=6r/s;
server {
	limit_req zone=z1;
	location ~* \.(js|css|png|jpg|jpeg|gif|ico|svg|woff|woff2|ttf|eot|otf|mp4|webm|webp|avif|map|txt|xml|json|pdf|zip|gz)$ { limit_req zone=z2; }
	location ~* /(?:uploads|files)/.*\.php$ { limit_req zone=z3; }
	location ~* \.(engine|inc|install|make|module|profile|sh|sql|theme|twig|tpl|yml)(~|\.sw[op]|\.bak|\.save)?$ { limit_req zone=z4; }
	location ~ ^/wp-json/wp/v[0-9]+/users { limit_req zone=z5; }
	location ~ \.php(/|$) { limit_req zone=z6; }
}`)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Listed) > 0 {
		t.Errorf("listed %v, want none", result.Listed)
	}
	set := accepted(t, result)
	zonesOf(t, set, map[string]int{
		"/":                      1,
		"/js":                    1,
		"/a/x.JPEG":              2,
		"/uploads/x.php.css":     2,
		"/uploads/x.php":         3,
		"/uploads.php":           6,
		"/x.module.swp":          4,
		"/x.modules":             1,
		"/wp-json/wp/v2/users/7": 5,
		"/wp-json/wp/vx/users":   1,
		"/index.php":             6,
		"/index.php/x":           6,
		"/index.phpx":            1,
	})
}

// TestNginxConnections checks that the uses of a zone of limit_conn share one count, each with its
// own number, as in nginx.
func TestNginxConnections(t *testing.T) {
	result, err := nginx(`limit_conn_zone $binary_remote_addr zone=z:1m;
server {
	limit_conn z 5;
	location /x/ { limit_conn z 3; limit_conn_status 429; }
	location /y/ { limit_conn z 4; limit_conn_dry_run on; }
}`)
	if err != nil || len(result.Listed) > 0 {
		t.Fatalf("%v, listed %v", err, result.Listed)
	}
	set := accepted(t, result)
	store, err := memstore.New(memstore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for i, step := range []struct {
		path string
		ok   bool
	}{{"/", true}, {"/x/", true}, {"/x/a", true}, {"/x/", false}, {"/y/", true}, {"/x/", false}, {"/y/", false}, {"/", true}, {"/", false}} {
		var q policy.Matches
		set.Match(&q, request{method: "GET", host: "x", path: step.path, ip: "192.0.2.1"})
		if len(q.Requests) != 1 {
			t.Fatalf("step %d: %s has %d limits, want 1:\n%s", i+1, step.path, len(q.Requests), result.Text)
		}
		r := q.Requests[0]
		r.Verb, r.ID, r.TTL = weir.Reserve, fmt.Sprint(i), time.Minute
		if d, err := store.Do(t.Context(), r); err != nil || d.OK != step.ok {
			t.Errorf("step %d: %s: %t, %v, want %t", i+1, step.path, d.OK, err, step.ok)
		}
	}
}

// TestNginxAnswers checks that paths that nginx answers with return are limited too if a
// condition without them would be too large.
func TestNginxAnswers(t *testing.T) {
	text := "limit_conn_zone $binary_remote_addr zone=work:1m;\nserver {\n\tlimit_conn work 32;\n"
	for i := range 9 {
		text += fmt.Sprintf("\tlocation ~ ^/[a-z]+/%d/[a-z]+[0-9]+$ { return 404; }\n", i)
	}
	for count, want := range map[int]string{9: "limited too", 1: `where: '!request.path.matches`} {
		lines := strings.SplitAfter(text, "\n")
		result, err := nginx(strings.Join(lines[:3+count], "") + "}")
		if err != nil {
			t.Fatal(err)
		}
		set := accepted(t, result)
		if len(result.Listed) > 0 || !strings.Contains(result.Text, want) {
			t.Errorf("%d locations: listed %v, want a policy with %q:\n%s", count, result.Listed, want, result.Text)
		}
		if got := limitsOf(set, request{method: "GET", host: "x", path: "/x", ip: "192.0.2.1"}); len(got) != 1 {
			t.Errorf("%d locations: /x falls under %v, want the limit", count, got)
		}
	}
}

// TestNginxExemptions checks networks that a geo and a map block exempt from a limit.
func TestNginxExemptions(t *testing.T) {
	for _, test := range []struct {
		blocks string
		want   string // the condition; "" if it is listed
	}{
		{`geo $limit { default 1; 10.0.0.0/8 0; 192.168.0.1 0; 2001:db8::/32 0; } map $limit $key { 0 ""; 1 $binary_remote_addr; }`,
			`except: { ips: ["10.0.0.0/8", "192.168.0.1/32", "2001:db8::/32"] }`},
		{`geo $trusted { 10.1.2.3/8 yes; } map $trusted $key { yes ""; default $binary_remote_addr; }`, `except: { ips: ["10.0.0.0/8"] }`},
		{`geo $limit { default 1; ::ffff:10.0.0.0/104 0; } map $limit $key { 0 ""; 1 $binary_remote_addr; }`, `except: { ips: ["10.0.0.0/8"] }`},
		{`geo $bad { default 0; 10.0.0.0/8 1; } map $bad $key { 1 $remote_addr; }`, `where: 'cidr("10.0.0.0/8").containsIP(client.ip)'`},
		{`geo $limit { default 1; 10.0.0.0/8 0; 10.1.0.0/16 1; } map $limit $key { 0 ""; 1 $binary_remote_addr; }`, ""},
		{`geo $limit { ranges; default 1; 10.0.0.0-10.0.0.9 0; } map $limit $key { 0 ""; 1 $binary_remote_addr; }`, ""},
		{`geo $limit { default 1; 10.0.0.0/8 0; } map $limit $key { 0 ""; 1 $http_x; }`, ""},
		{`map $http_x $key { 0 ""; 1 $binary_remote_addr; }`, ""},
	} {
		result, err := nginx(test.blocks + `limit_req_zone $key zone=z:1m rate=1r/s; server { limit_req zone=z; }`)
		if err != nil {
			t.Fatal(err)
		}
		accepted(t, result)
		if (len(result.Listed) == 0) != (test.want != "") || !strings.Contains(result.Text, test.want) {
			t.Errorf("%s: listed %v, want %s:\n%s", test.blocks, result.Listed, test.want, result.Text)
		}
	}
}
