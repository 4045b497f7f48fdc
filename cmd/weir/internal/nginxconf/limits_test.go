package nginxconf_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/floodweir/weir/cmd/weir/internal/nginxconf"
)

func limits(text string) (*nginxconf.HTTP, error) {
	root, err := read(text)
	if err != nil {
		return nil, err
	}
	return nginxconf.Limits(root)
}

const zones = `limit_req_zone $binary_remote_addr zone=a:1m rate=10r/s;
limit_req_zone $http_x_key$arg_k zone=b:1m rate=6r/m sync;
limit_conn_zone $binary_remote_addr zone=c:1m;
`

// TestLimitsBroken checks the errors of directives that nginx refuses.
func TestLimitsBroken(t *testing.T) {
	for text, want := range map[string]string{
		"http { limit_req_zone $a; }":                                         "nginx.conf:1: limit_req_zone $a: want a key, and zone=NAME:SIZE",
		"http { limit_req_zone $a zone=x rate=1r/s; }":                        `want zone=NAME:SIZE, such as zone=one:10m`,
		"http { limit_req_zone $a zone=x:1z rate=1r/s; }":                     `want zone=NAME:SIZE`,
		"http { limit_req_zone $a zone=x:1m; }":                               "want a rate such as rate=10r/s",
		"http { limit_req_zone $a zone=x:1m rate=0r/s; }":                     "want a rate such as 10r/s or 30r/m",
		"http { limit_req_zone $a zone=x:1m rate=1.5r/s; }":                   "want a rate such as 10r/s or 30r/m",
		"http { limit_req_zone $a zone=x:1m rate=1r/h; }":                     "want a rate such as 10r/s or 30r/m",
		"http { limit_req_zone $a zone=x:1m rate=1r/s odd; }":                 `"odd": no such parameter`,
		"http { limit_req_zone $a rate=1r/s rate=2r/s; }":                     "want zone=NAME:SIZE",
		"http {\n" + zones + "limit_req_zone $a zone=a:1m rate=1r/s; }":       `zone "a" is there already, at nginx.conf:2`,
		"http {\n" + zones + "limit_req zone=nowhere; }":                      `nginx.conf:5: limit_req zone=nowhere: there is no zone "nowhere"`,
		"http {\n" + zones + "limit_req zone=c; }":                            `zone "c", at nginx.conf:4, is of another kind`,
		"http {\n" + zones + "limit_req; }":                                   "want the name of a zone",
		"http {\n" + zones + "limit_req zone=a burst=0; }":                    "want burst=N with N from 1 on",
		"http {\n" + zones + "limit_req zone=a burst=-1; }":                   "want burst=N with N from 1 on",
		"http {\n" + zones + "limit_req zone=a delay=x; }":                    "want delay=N with N from 1 on",
		"http {\n" + zones + "limit_req zone=a burst=99999999999999999999; }": "want burst=N with N from 1 on",
		"http {\n" + zones + "limit_req zone=a; limit_req zone=a burst=2; }":  `zone "a" is named twice at one level`,
		"http {\n" + zones + "limit_req zone=a odd; }":                        `"odd": no such parameter`,
		"http {\n" + zones + "limit_conn c; }":                                "want a number of connections",
		"http {\n" + zones + "limit_conn c 0; }":                              "want a number of connections from 1 to 65535",
		"http {\n" + zones + "limit_conn c 5 6; }":                            `"6": no such parameter`,
		"http { limit_req_status 200; }":                                      "want a status from 400 to 599",
		"http { limit_req_dry_run maybe; }":                                   "want on or off",
		"http { server { location { } } }":                                    "want location [= | ~ | ~* | ^~] PATTERN",
		"http { server { location # / { } } }":                                `want ";" or "}"`,
		"http { server { location x y { } } }":                                `"x": want =, ~, ~* or ^~`,
	} {
		_, err := limits(text)
		var e *nginxconf.Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), "nginxconf: nginx.conf:") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// inForce is the limits of each scope, in the order of the file.
func inForce(h *nginxconf.HTTP) string {
	var all []string
	for _, s := range h.Servers {
		if s.Answers {
			all = append(all, s.Name()+" answers")
		}
		for _, o := range s.Scopes {
			one := s.Name() + o.Pattern + ":"
			for _, u := range o.Uses {
				one += fmt.Sprint(" ", u.Zone.Name)
				if u.N+u.Burst+u.Delay != 0 {
					one += fmt.Sprint(u.N, u.Burst, u.Delay)
				}
			}
			if set := o.Setting; set != (nginxconf.Setting{Status: 503, ConnStatus: 503}) {
				one += fmt.Sprint(" ", set)
			}
			if o.Answers {
				one += " answers"
			}
			if o.Unmatched {
				one += " unmatched"
			}
			all = append(all, one)
		}
	}
	return strings.Join(all, "; ")
}

// TestLimitsInherited checks that a level inherits limits unless it has its own.
func TestLimitsInherited(t *testing.T) {
	for _, test := range []struct{ conf, want string }{
		{"", ":"},
		{"limit_req zone=a burst=5 delay=3; limit_conn c 7;", ": a0 5 3 c7 0 0"},
		{"limit_req zone=a nodelay;", ": a0 0 -1"},
		{"limit_req zone=a; server { } server { server_name x; limit_req zone=b; }", ": a; x: b"},
		{"limit_req zone=a; server { limit_conn c 5; location /x { limit_req zone=b; } }", ": a c5 0 0; /x: b c5 0 0"},
		{"limit_req zone=a; limit_req zone=b; server { location /x { location /x/y { limit_req zone=b; } } location /z { } }", ": a b; /x: a b; /x/y: b; /z: a b"},
		{"limit_req_status 429; server { limit_conn_status 420; location /x { limit_req_dry_run on; } location /y { limit_conn_dry_run On; limit_req_status 444; } }", ": {429 420 false false}; /x: {429 420 true false}; /y: {444 420 false true}"},
		{"limit_req_dry_run on; server { limit_req_dry_run off; }", ":"},
		{"limit_req zone=a; server { server_name x; return 301 y; location / { } } server { location /x { return 204; location /x/y { } } }", "x answers; : a; /x: answers; /x/y:"},
		{"limit_req zone=a; server { location / { } location @back { } }", ": a unmatched; /: a; @back: a unmatched"},
		{"server { server_name x Y; } server {} server z;", "x:; :"},
		{"} http { limit_req zone=b; server { }", ": b"}, // two blocks are one
	} {
		h, err := limits("http { " + zones + test.conf + " }")
		if err != nil {
			t.Errorf("%s: %v", test.conf, err)
		} else if got := inForce(h); got != test.want {
			t.Errorf("%s: %s, want %s", test.conf, got, test.want)
		}
	}
	h, err := limits(zones + "limit_req zone=b; server { location /x { } }")
	if want := ": b; /x: b"; err != nil || inForce(h) != want {
		t.Errorf("without an http block: %v, %v, want %s", h, err, want)
	}
}

// TestZones checks how zones are read.
func TestZones(t *testing.T) {
	h, err := limits(zones + "limit_req zone=a; limit_req zone=b; limit_conn c 5;" +
		"limit_req_zone \"x:${HOST}-$arg_k.$\" zone=d:1m rate=1r/s; server { limit_req zone=d; } server { }")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range h.Servers {
		for _, u := range s.Scopes[0].Uses {
			names, literal := u.Zone.Variables()
			got = append(got, fmt.Sprintf("%d %s %v %q %d/%s %v %v", u.Zone.Directive.Line, u.Zone.Name, names, literal, u.Zone.Count, u.Zone.Per, u.Zone.Conn, u.Zone.Sync))
		}
	}
	want := `4 d [host arg_k] "x:-.$" 1/s false false|3 c [binary_remote_addr] "" 0/ true false|` +
		`1 a [binary_remote_addr] "" 10/s false false|2 b [http_x_key arg_k] "" 6/m false true|3 c [binary_remote_addr] "" 0/ true false`
	if strings.Join(got, "|") != want {
		t.Errorf("zones are\n%s, want\n%s", strings.Join(got, "|"), want)
	}
}

// TestServers checks which hosts a server receives.
func TestServers(t *testing.T) {
	const names = "server { server_name *.x.example w.* ~^W .y.example; } server { server_name a.X.example y.example wa ~. *.a.x.example; }"
	for _, test := range []struct{ conf, first, taken string }{
		{"", "[true]", "[]"},
		{names, "[true false]", "[*.x.example: a.x.example, ~^w: wa, .y.example: y.example]"},
		{"server { } server { }", "[true false]", "[]"},
		{"server { listen 81; } server { listen 80; listen 81; } server { }", "[true true false]", "[]"},
		{"server { } server { listen 80 default_server; }", "[false true]", "[]"},
		{"server { listen 81; listen 80; } server { listen 80 default; }", "[true true]", "[]"},
		{"server { server_name w.*; } server { server_name w.x; server_name .w.y; }", "[true false]", "[w.*: w.x]"},
		{"server { server_name w.* w.x; } server { server_name w.x; }", "[true false]", "[]"},
		{"server { server_name ~(?=w); } server { server_name w; }", "[true false]", "[]"},
	} {
		h, err := limits(test.conf)
		if err != nil {
			t.Errorf("%s: %v", test.conf, err)
			continue
		}
		var first []bool
		var taken []string
		for _, s := range h.Servers {
			first = append(first, h.IsFirst(s))
			for _, name := range s.Names {
				if hosts := h.Taken(s, name); hosts != nil {
					taken = append(taken, name+": "+strings.Join(hosts, " "))
				}
			}
		}
		if got := "[" + strings.Join(taken, ", ") + "]"; fmt.Sprint(first) != test.first || got != test.taken {
			t.Errorf("%s: first are %v, taken %s, want %s, %s", test.conf, first, got, test.first, test.taken)
		}
	}
}
