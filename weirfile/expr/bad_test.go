package expr_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/weirfile/expr"
)

// TestBadTexts checks that faults of a text are reported with their positions.
func TestBadTexts(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{``, "1:1: want an expression that is true or false, got an empty text"},
		{" \n ", "1:1: want an expression that is true or false, got an empty text"},
		{`request.metod == "GET"`, "1:1: undeclared reference to 'request.metod' (did you mean 'request.method'?)"},
		{`request.path.startWith("/api")`, "1:14: undeclared reference to 'startWith' (did you mean 'startsWith'?)"},
		{"request.method == 'GET' &&\n  request.pth == 'é'", "2:3: undeclared reference to 'request.pth' (did you mean 'request.path'?)"},
		{`"é" == reqest.path`, "1:8: undeclared reference to 'reqest.path' (did you mean 'request.path'?)"},
		{`foo == "1"`, "1:1: undeclared reference to 'foo'"},
		{`request.path ==`, "1:16: syntax error: unexpected end"},
		{`request.path = "a"`, "1:14: syntax error: token recognition error at: '= '; == compares"},
		{`request.path`, "1:1: want an expression that is true or false, got one of type string"},
		{`  int(request.path)`, "1:3: want an expression that is true or false, got one of type int"},
		{`request.path + 1 == "a"`, "1:14: found no matching overload for '+' applied to '(string, int)'"},
		{`request.headers.x == 3`, "1:19: found no matching overload for '==' applied to '(string, int)'"},
		{`client.ip in cidr("10.0.0.0/8")`, `1:11: found no matching overload for 'in' applied to '(string, net.CIDR)'; want cidr("10.0.0.0/8").containsIP(client.ip)`},
		{`cidr("10.0.0.0/99").containsIP(client.ip)`, "1:6: invalid cidr argument: "},
		{`duration("1y") > duration("1s") || request.path == "a"`, "1:10: invalid duration argument"},
		{`request.path == "/Admin"`, "1:17: want lower case: request.path is"},
		{`"/a/" != request.path`, "1:1: want it without the slash at its end: request.path has none"},
		{`request.path in ["/a", "b"]`, "1:24: want a slash first: request.path begins with one"},
		{`request.host.endsWith(".Example.com")`, "1:23: want lower case: request.host is"},
		{`request.path.matches("^/(a|API)")`, "1:22: want lower case: request.path is"},
		{`request.path.startsWith("api")`, "1:25: want a slash first: request.path begins with one"},
		{`request.host == "example.com:80"`, "1:17: want a name without port, brackets, slash and final dot: request.host has none"},
		{`request.host.endsWith("*.example.com")`, "1:23: want no *: request.host has a whole name"},
		{`request.host == "münchen.de"`, "1:17: want ASCII (Punycode), such as"},
		{`request.method in ["GET", "post"]`, "1:27: want upper case: request.method is as the client sent it"},
		{`client.ip == "10.0.0.0/8"`, `1:14: want an address; cidr("10.0.0.0/8").containsIP(client.ip) is true`},
		{`client.ip == "2001:DB8::1"`, `1:14: want 2001:db8::1, the spelling of client.ip`},
		{`true`, "1:1: always holds: leave it out"},
		{`false`, "1:1: never holds: the policy would limit nothing"},
		{`1 < 2 && "a" != "b"`, "1:1: always holds: leave it out"},
		{`request.path == "/a" && false`, "1:1: never holds: the policy would limit nothing"},
		{`1/0 == 1`, "1:1: cannot be evaluated: division by zero"},
		{`has(request.headers.x)`, `1:5: want "x" in request.headers, or request.headers["x"] != ""`},
		{`request.headers.exists(h, h == "a")`, `1:1: want one value such as request.headers["x"]: they are not listed, counted or compared`},
		{`size(request.query) > 3`, `1:6: want one value such as request.query["x"]: they are not listed, counted or compared`},
		{`request.headers == request.query`, `1:1: want one value such as request.headers["x"]: they are not listed, counted or compared`},
		{`dyn(request.cookies)["x"] == "a"`, `1:5: want one value such as request.cookies["x"]: they are not listed, counted or compared`},
		{`request.headers["Host"] == "a"`, "1:17: want request.host, which knows case and ports"},
		{`request.cookies["a b"] == ""`, `1:17: want a name as HTTP has them, got "a b"`},
		{`request.path.matches("(")`, "1:22: want a regular expression (RE2): missing closing ): `(`"},
		{`request.path.matches("(a{1000}){1000}")`, "1:22: want a regular expression (RE2): invalid repeat count: `{1000}`"},
		{`request.path.matches(request.query["p"])`, "1:35: want the pattern itself in quotes: one that is computed could be of any size"},
		{`request.path.format([1]) == ""`, "1:1: want the format itself in quotes: one that is computed could be of any size"},
		{`request.path.matches("a{1000}")`, "1:1: want an expression that costs at most 100000 for any request, got one of 1026300"},
		{`request.path.split("").exists(s, request.path.split("").exists(t, s == t))`, "1:1: want an expression that costs at most 100000 for any request, got one of 7001269492"},
		{`request.path.replace("", request.path) == ""`, "1:1: want an expression that costs at most 100000 for any request, got one of 16785823"},
		{`request.path.contains(request.query["x"])`, "1:1: want an expression that costs at most 100000 for any request, got one of 335548"},
		{`[1].all(a, [1].all(b, [1].all(c, request.path == "a")))`, "1:30: want at most 2 loops in one another: comprehension exceeds nesting limit"},
		{strings.Repeat("(", 2000), "1:1: expression recursion limit exceeded: 40"},
		{strings.Repeat("a", 5000), "1:1: want an expression of at most 4096 bytes, got 5000"},
		{"request.path == '\xff'", "1:1: want text in UTF-8"},
	} {
		_, err := expr.Condition(test.text)
		if err == nil || !strings.HasPrefix(err.Error(), "expr:"+test.want) || !errors.Is(err, weir.ErrInvalid) {
			t.Errorf("Condition(%.60q) = %v, want %s", test.text, err, test.want)
		}
	}
	for text, want := range map[string]string{
		`5`:                               "1:1: is always 5: want that number itself, not as text",
		`-5`:                              "1:1: is always -5, want a number of tokens",
		`0`:                               "1:1: is always 0, want a number of tokens",
		`2*512`:                           "1:1: is always 1024: want that number itself, not as text",
		`1.5`:                             "1:1: want an expression that is a whole number, got one of type double",
		`request.path`:                    "1:1: want an expression that is a whole number, got one of type string",
		`request.path == "a" ? 2 : "two"`: "1:21: found no matching overload",
	} {
		if _, err := expr.Measure(text); err == nil || !strings.HasPrefix(err.Error(), "expr:"+want) {
			t.Errorf("Measure(%q) = %v, want %s", text, err, want)
		}
	}
	for text, want := range map[string]string{
		`"a" + "b"`:       `1:1: is always "ab": want const:TEXT for a key that all share`,
		`5`:               "1:1: want an expression that is a text, got one of type int",
		`request.headers`: "1:1: want an expression that is a text, got one of type map(string, string)",
	} {
		if _, err := expr.Text(text); err == nil || !strings.HasPrefix(err.Error(), "expr:"+want) {
			t.Errorf("Text(%q) = %v, want %s", text, err, want)
		}
	}
}

// FuzzCompile checks that no text makes the compiler panic or hang, and that no request
// makes an accepted expression panic.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		`request.path.startsWith("/api/") && request.headers["x-plan"] in ["gold", "free"]`,
		`cidr("10.0.0.0/8").containsIP(client.ip)`, `["a", "b"].exists(s, request.path.split("/").exists(t, s == t))`,
		`request.path.matches("^/(a|b)+$") ? 1 : int(request.query.n)`, `"%s:%d".format([request.method, 1])`,
		`request.cookies["a"] + string(timestamp("2020-01-01T00:00:00Z")) + strings.quote(request.host)`,
		`[1].map(x, [x].map(y, {"a": y}))`, `((((`, `b"\xff"`, `1/0`, `has(request.headers.a)`, `-9223372036854775808 - 1 == 1`, "request.path ==\n 'a' && foo",
	} {
		f.Add(text)
	}
	r := sample()
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := expr.Condition(text); err != nil {
			faults(t, text, err)
		} else {
			c.Eval(r)
		}
		if m, err := expr.Measure(text); err != nil {
			faults(t, text, err)
		} else {
			m.Eval(r)
		}
		if x, err := expr.Text(text); err != nil {
			faults(t, text, err)
		} else {
			x.Eval(r)
		}
	})
}

// faults checks the properties of the errors of every text.
func faults(t *testing.T, text string, err error) {
	t.Helper()
	var errs expr.Errors
	if !errors.As(err, &errs) || len(errs) == 0 || !errors.Is(err, weir.ErrInvalid) {
		t.Fatalf("error %T, want Errors that wrap weir.ErrInvalid: %v", err, err)
	}
	for _, e := range errs {
		if e.Line < 1 || e.Line > 1+strings.Count(text, "\n") || e.Column < 1 || e.Column > len(text)+1 || strings.ContainsAny(e.Want, "\n\r\x00") || len(e.Want) > 1000 {
			t.Errorf("%q: error %+v, want a place in the text and one line", text, e)
		}
	}
}
