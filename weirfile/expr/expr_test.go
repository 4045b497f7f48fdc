package expr_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/expr"
)

// A request is the input of expressions. It records which values are read.
type request struct {
	method, host, path, ip  string
	headers, query, cookies map[string][]string
	asked                   []string
}

var _ policy.Attributes = (*request)(nil)

func (r *request) note(what string) { r.asked = append(r.asked, what) }
func (r *request) Method() string   { r.note("method"); return r.method }
func (r *request) Host() string     { r.note("host"); return r.host }
func (r *request) Path() string     { r.note("path"); return r.path }
func (r *request) ClientIP() netip.Addr {
	r.note("ip")
	a, _ := netip.ParseAddr(r.ip)
	return a
}
func (r *request) Header(name string) []string { r.note("header " + name); return r.headers[name] }
func (r *request) Query(name string) []string  { r.note("query " + name); return r.query[name] }
func (r *request) Cookie(name string) []string { r.note("cookie " + name); return r.cookies[name] }

func sample() *request {
	return &request{
		method: "POST", host: "api.example.com", path: "/api/users/7", ip: "10.1.2.3",
		headers: map[string][]string{
			"X-Plan": {" gold "}, "X-Cost": {"12"}, "X-Two": {"a", "b"}, "X-Same": {"a", " a"}, "X-Empty": {""}, "X-Long": {strings.Repeat("x", expr.MaxValue+1)},
		},
		query:   map[string][]string{"q": {"shoes"}, "Q": {"hats"}, "two": {"1", "2"}, "a b": {"c"}},
		cookies: map[string][]string{"session": {"s1"}},
	}
}

func TestCondition(t *testing.T) {
	for text, want := range map[string]bool{
		`request.path.startsWith("/api/")`:                                          true,
		`request.method == "GET"`:                                                   false,
		`request.host == "api.example.com" && request.path.endsWith("/7")`:          true,
		`request.headers["x-plan"] == "gold"`:                                       true,
		`request.headers["X-PLAN"] == "gold"`:                                       true,
		`request.headers.Accept == ""`:                                              true,
		`request.headers["x-absent"] == ""`:                                         true,
		`"x-absent" in request.headers`:                                             false,
		`"x-empty" in request.headers && request.headers["x-empty"] == ""`:          true,
		`request.headers["x-same"] == "a"`:                                          true,
		`request.headers["x-" + request.query["q"]] == ""`:                          true,
		`request.headers["x-plan"] in ["gold", "silver"]`:                           true,
		`request.query["q"] == "shoes" && request.query.Q == "hats"`:                true,
		`request.query["a b"] == "c"`:                                               true,
		`request.cookies["session"] == "s1" && request.cookies["SESSION"] == ""`:    true,
		`client.ip == "10.1.2.3"`:                                                   true,
		`cidr("10.0.0.0/8").containsIP(client.ip)`:                                  true,
		`["192.168.0.0/16", "10.0.0.0/8"].exists(c, cidr(c).containsIP(client.ip))`: true,
		`!cidr("10.0.0.0/8").containsIP(client.ip)`:                                 false,
		`request.path.matches("^/api/users/[0-9]+$")`:                               true,
		`request.path.matches("(?i)^/API/[A-Za-z]+/\\S")`:                           true,
		`request.path.split("/")[2] == "users"`:                                     true,
		`request.headers["x-plan"].upperAscii() == "GOLD"`:                          true,
		`int(request.headers["x-cost"]) > 10`:                                       true,
		`request.method == "POST" || request.headers["x-two"] == "a"`:               true,
		`request.method == "GET" && request.headers["x-two"] == "a"`:                false,
		"\n  request.method == 'POST' // a comment\n":                               true,
	} {
		c, err := expr.Condition(text)
		if err != nil {
			t.Errorf("Condition(%s): %v", text, err)
			continue
		}
		if got, err := c.Eval(sample()); got != want || err != nil {
			t.Errorf("%s = %v, %v, want %v", text, got, err, want)
		}
		if c.String() != text {
			t.Errorf("String = %q, want the text %q", c.String(), text)
		}
	}
}

func TestMeasure(t *testing.T) {
	for text, want := range map[string]int64{
		`int(request.headers["x-cost"])`:    12,
		`request.method == "POST" ? 10 : 1`: 10,
		`size(request.path)`:                12,
		`{"gold": 1, "free": 5}[request.headers.x_plan == "" ? "free" : "gold"]`: 5,
		`request.path.startsWith("/api/") ? -3 : 1`:                              -3,
	} {
		m, err := expr.Measure(text)
		if err != nil {
			t.Errorf("Measure(%s): %v", text, err)
			continue
		}
		if got, err := m.Eval(sample()); got != want || err != nil {
			t.Errorf("%s = %v, %v, want %v", text, got, err, want)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		`request.path.split("/")[2]`:                        "users",
		`request.headers["x-plan"] + ":" + request.method`:  "gold:POST",
		`"cost-" + string(int(request.headers["x-cost"]))`:  "cost-12",
		`request.host.split(".")[0].upperAscii()`:           "API",
		`client.ip.lastIndexOf(".") > 0 ? "four" : "six"`:   "four",
		`"%s/%d".format([request.method, size(client.ip)])`: "POST/8",
	} {
		x, err := expr.Text(text)
		if err != nil {
			t.Errorf("Text(%s): %v", text, err)
			continue
		}
		if got, err := x.Eval(sample()); got != want || err != nil {
			t.Errorf("%s = %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestFaultsOfARequest checks the errors of evaluation.
func TestFaultsOfARequest(t *testing.T) {
	for text, want := range map[string]string{
		`request.headers["x-two"] == "a"`:          `request.headers has different values for "x-two"`,
		`request.query.two == "1"`:                 `request.query has different values for "two"`,
		`request.headers["x-long"] == "a"`:         `request.headers["x-long"] has 8193 bytes, more than the 8192 that are read`,
		`int(request.headers["x-plan"]) > 3`:       `type conversion error from 'string' to 'int'`,
		`1 / (size(request.query["none"])) > 3`:    `division by zero`,
		`request.path.split("/")[7] == "x"`:        `index`,
		`cidr(request.path).containsIP(client.ip)`: `parse error`,
	} {
		c, err := expr.Condition(text)
		if err != nil {
			t.Errorf("Condition(%s): %v", text, err)
			continue
		}
		holds, err := c.Eval(sample())
		if err == nil || holds || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "expr: ") || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s = %v, %v, want an error of %s", text, holds, err, want)
		}
	}
	for name, r := range map[string]*request{
		"a long path":   {path: strings.Repeat("/", 4097)},
		"a long host":   {path: "/a", host: strings.Repeat("h", 257)},
		"a long method": {path: "/a", method: strings.Repeat("M", 257)},
		"no address":    {path: "/a"},
	} {
		c, err := expr.Condition(`request.path == "/b" || request.host == "b" || request.method == "B" || cidr("10.0.0.0/8").containsIP(client.ip)`)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Eval(r); err == nil {
			t.Errorf("%s: no error, want one", name)
		}
	}
}

// TestOnlyWhatIsMentionedIsRead checks that an expression reads only the values that it
// mentions.
func TestOnlyWhatIsMentionedIsRead(t *testing.T) {
	for text, want := range map[string][]string{
		`request.method == "POST"`:                                       {"method"},
		`request.path == "/b" && request.cookies["a"] == "b"`:            {"path"},
		`request.headers["x-plan"] == "a"`:                               {"header X-Plan"},
		`request.method == "GET" ? client.ip == "" : request.host == ""`: {"method", "host"},
		`"a" in request.cookies || request.query["b"] == "c"`:            {"cookie a", "query b"},
	} {
		c, err := expr.Condition(text)
		if err != nil {
			t.Fatal(err)
		}
		r := sample()
		c.Eval(r)
		if !slices.Equal(r.asked, want) {
			t.Errorf("%s asked for %v, want %v", text, r.asked, want)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	x, err := expr.Text(`request.headers["x-plan"] + request.path + request.query["q"]`)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			r := sample()
			r.path = fmt.Sprint(i)
			for range 500 {
				if got, err := x.Eval(r); err != nil || got != "gold"+r.path+"shoes" {
					t.Errorf("Text = %q, %v, want that of request %d", got, err, i)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestPanicsOfARequest checks that a panic of the request's attributes becomes an
// error.
func TestPanicsOfARequest(t *testing.T) {
	c, err := expr.Condition(`request.path == "/a"`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Eval(nil); err == nil {
		t.Error("a request that panics: no error, want one")
	}
	if ok, err := c.Eval(&request{path: "/a"}); !ok || err != nil {
		t.Errorf("the request after it = %v, %v, want true", ok, err)
	}
}

// TestWorstRequests checks that accepted expressions stay within their cost for the
// longest values.
func TestWorstRequests(t *testing.T) {
	for _, text := range []string{
		`request.path.split("/").exists(s, s == "admin")`,
		`request.path.split("").exists(s, s == "ab")`,
		`request.headers["x"].split(",").exists(x, x == "gold")`,
		`request.headers["x"].matches("(x+x+)+y")`,
		`request.headers["x"].lowerAscii().reverse() + request.headers["x"].trim() == "a"`,
		`request.headers["x"].replace("x", "yyyyyyyy").size() == 3`,
		`request.cookies["x"].contains("needle") || request.host.contains(request.method)`,
	} {
		c, err := expr.Condition(text)
		if err != nil {
			t.Errorf("Condition(%s): %v", text, err)
			continue
		}
		for _, s := range []string{"x", ",", "/", "é", "\xff"} {
			long := map[string][]string{"X": {strings.Repeat(s, expr.MaxValue/len(s))}, "x": {strings.Repeat(s, expr.MaxValue/len(s))}}
			r := &request{path: strings.Repeat(s, 4096/len(s)), headers: long, cookies: long, query: long}
			if _, err := c.Eval(r); err != nil {
				t.Errorf("%s with many %q: %v", text, s, err)
			}
		}
	}
}

func TestErrors(t *testing.T) {
	_, err := expr.Condition(`request.header["a"] == 1 || request.meth == "GET"`)
	var errs expr.Errors
	if !errors.As(err, &errs) || len(errs) != 2 || !errors.Is(err, weir.ErrInvalid) || errs[1].Column != 29 {
		t.Errorf("Condition = %v, want two errors that wrap weir.ErrInvalid", err)
	}
}
