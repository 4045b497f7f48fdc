package edge_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// dice makes random policies and requests, common ones and unusual ones.
type dice struct{ *rand.Rand }

func (d dice) one(of ...string) string { return of[d.IntN(len(of))] }

// in returns true once in n times.
func (d dice) in(n int) bool { return d.IntN(n) == 0 }

// some returns up to most of the values, each once.
func (d dice) some(most int, of ...string) []string {
	list := []string{}
	for _, i := range d.Perm(len(of))[:d.IntN(min(most, len(of))+1)] {
		list = append(list, of[i])
	}
	return list
}

func (d dice) number(of ...int) int { return of[d.IntN(len(of))] }

func (d dice) join(most int, between string, of ...string) string {
	var list []string
	for range d.IntN(most + 1) {
		list = append(list, d.one(of...))
	}
	return strings.Join(list, between)
}

var (
	diceLimits = []string{"10/s", "10/s burst 20", "5/m", "100/h", "7/m sliding_window", "7/m sliding_log", "9/m fixed_window", "3/m quota", "1000/24h", "50/s burst 51", "2/s", "11/m", "20 concurrency lease 30s", "10 concurrency", "3/s leaky_bucket burst 4 shared", "3/s leaky_bucket burst 9 shared"}

	diceMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE", "PROPFIND", "get", "Post", "X-Y", "BREW"}

	diceHosts = []string{"example.com", "*.example.com", "a.example.com", "127.0.0.1", "::1", "[2001:db8::]", "éxample.com", "xn--xample-9ua.com", "b"}

	dicePaths = []string{"/", "/*", "/api/*", "/api/users", "/api/users/{id}", "/users/{id}/orders", "/a/{x}/{y}", "/É/*", "/api/{rest...}", "/files/a.b", "/K/ß", "/x y/*", "/{a}/b", "/{$}"}

	diceValues = []string{"", " ", "a", "b", "free", "trial", " free\t", "\u00a0free\u2003", "Basic  abc", "basic abc", "BASIC\tabc", "Bearer x", "é", "É", "\xff", "\xc3\xa0\xa0",
		"\u0085x\u0085", "\xe2\x80", "x\xe2\x80\x80", "x\xe1\xe2\x80\x80", "\xa0x", "free-bob", "x-free", "axbxc", "a*b", "\U0001f600", "|5:abcde", "1", "1", "-1", "12", "-3", "+7", "007", "9007199254740993",
		"9223372036854775807", "-9223372036854775808", "9223372036854775808", "1_0", " 5 ", "0x1", "10.0.0.1", "::1", "fe80::1%eth0", "::ffff:10.0.0.1", "10.0.0.01", "2001:db8::7", "K", "\u212a", "İ", "ǅ", "\x00", "a\x00b", "\v\fz\r\n"}

	diceWhere = []string{
		`request.path.startsWith("/api/")`, `!(request.method in ["GET", "HEAD"])`, `request.headers["x-a"] == "a" || size(request.headers["x-b"]) > 3`, `size(request.headers["x-b"]) > 3 && request.headers["x-a"] == "a"`,
		`size(request.headers["x-a"]) > 3`, `"x-a" in request.headers`, `!("q" in request.query)`, `"c" in request.cookies`,
		`request.query["q"] == request.cookies["c"]`, `request.host.endsWith("example.com")`, `request.headers["x-a"].contains("X")`,
		`size(request.headers["x-a"]) <= size(request.headers["x-b"])`, `size(request.headers["x-a"]) < 2 == (request.method == "GET")`, `size(request.path) >= 7 && size(request.host) != 11`,
		`(request.method == "GET" ? request.path : request.host) != "/"`, `request.path == "/" || request.path.contains("..")`, `request.headers["x-a"] in ["a", "1", "c"]`, `client.ip == "10.0.0.1" || client.ip == ""`,
		`request.headers["authorization"] != ""`, `request.headers["x-a"] != request.headers["x-b"] || request.path.endsWith("s")`,
	}

	diceCosts = []string{`size(request.headers["x-a"])`, `request.path.startsWith("/api") ? 3 : size(request.query["q"])`, `size(request.path) > 4 ? 0 : 1`, `request.headers["x-b"] == "1" ? -1 : 2`}
)

// policy returns a policy in the form of a file. It may be invalid.
func (d dice) policy(name string) map[string]any {
	p := map[string]any{"name": name, "limits": append(d.some(2, diceLimits...), d.one(diceLimits...))}
	match := map[string]any{}
	if d.in(2) {
		match["paths"] = append(d.some(3, dicePaths...), d.one(dicePaths...))
	}
	if d.in(4) {
		match["methods"] = append(d.some(3, diceMethods...), d.one(diceMethods...))
	}
	if d.in(4) {
		match["hosts"] = append(d.some(3, diceHosts...), d.one(diceHosts...))
	}
	if d.in(4) {
		match["headers"] = map[string]any{d.one("X-A", "x-b"): append(d.some(2, "free", "a", "é", "trial"), d.one("*", "b"))}
	}
	if d.in(2) {
		match["where"] = d.one(diceWhere...)
	}
	if len(match) > 0 {
		p["match"] = match
	}
	parts := append(d.some(2, "client.ip/56", "client.ip/128", "client.ip/1", "client.ip/57", "header:X-A", "header:authorization", "query:q", "cookie:c", "method", "host", "path", "const:all"), d.one("client.ip", "header:x-b", "cookie:C", "query:é", "method", "path", "host", "header:Proxy-Authorization"))
	p["key"] = parts
	if d.in(3) {
		p["cost"] = d.one(diceCosts...)
	} else if d.in(4) {
		p["cost"] = 2
	}
	switch d.IntN(8) {
	case 0:
		p["mode"] = "shadow"
	case 1:
		p["percent"] = 1 + d.IntN(99)
	}
	if d.in(2) {
		p["overrides"] = d.overrides(parts)
	}
	if d.in(8) { // of one zone
		p["key"] = []string{"client.ip"}
		p["nginx"] = map[string]any{"zone": d.one("z", "y"), "rate": "10r/s", "burst": d.IntN(9), "delay": d.IntN(2)}
		delete(p, "limits")
		delete(p, "overrides")
	}
	return p
}

func (d dice) overrides(parts []string) []any {
	list, seen := []any{}, map[string]bool{}
	for range 1 + d.IntN(5) {
		key := make([]string, len(parts))
		for i, part := range parts {
			switch kind, _, _ := strings.Cut(part, ":"); {
			case d.in(4):
				key[i] = "*"
			case strings.HasPrefix(kind, "client.ip"):
				key[i] = d.one("10.0.0.1", "10.0.0.0/8", "2001:db8::/32", "2001:db8::/9", "::1", "0.0.0.0/0", "::/0", "10.0.0.1/31", "")
			case kind == "method":
				key[i] = d.one("GET", "P*", "", "POST")
			case kind == "host":
				key[i] = d.one("example.com", "*.example.com", "a*", "")
			case kind == "path":
				key[i] = d.one("/*", "/api/*", "*users*", "")
			case kind == "const":
				key[i] = d.one("all", "a*")
			default:
				key[i] = d.one("a", "free-*", "*-free", "a*b*c", "", "bob", "é*", "basic  a*", "1*", "b*b", strings.Repeat("y", 150), "y*y")
			}
		}
		if text := strings.Join(key, "\x00"); !seen[text] {
			seen[text] = true
			list = append(list, map[string]any{"key": key, "limits": append(d.some(1, "77/m", "78/m"), d.one("1000/s", "10/s", "5/m", "20/s"))})
		}
	}
	return list
}

// A plainRequest is a request in plain values. Header names are canonical.
type plainRequest struct {
	Method, Host, Path, IP string
	Headers, Queries       map[string][]string
	Cookies                map[string][]string
}

func (d dice) values() []string {
	list := []string{d.value()}
	for d.in(4) {
		if d.in(2) {
			list = append(list, " "+list[0]+" ")
		} else {
			list = append(list, d.value())
		}
	}
	if d.in(30) {
		return []string{}
	}
	return list
}

func (d dice) value() string {
	switch d.IntN(40) {
	case 0:
		return strings.Repeat("y", d.number(150, d.IntN(300)))
	case 1:
		if d.in(2) { // at the bounds of keys and of values that wildcards match
			return d.one("free-"+strings.Repeat("z", 8187+d.IntN(2)), strings.Repeat("y", 118+d.IntN(8)))
		}
		return d.one("a", "free-", "é") + strings.Repeat("z", 8180+d.IntN(20)) + d.one("", "c", "-free")
	case 2, 3:
		return d.join(4, "", diceValues...)
	}
	return d.one(diceValues...)
}

func (d dice) host() string {
	switch d.IntN(8) {
	case 0:
		return d.address()
	case 1:
		return "[" + d.address() + "]:80"
	}
	return d.one("example.com", "EXAMPLE.com:8080", "a.example.com.", "x.a.example.com", "[::1]:80", "[0:0::1]", "::1", "2001:db8:0::", "[2001:DB8::]:1", "127.0.0.1:1", "", ".", "..", ".example.com", "éxample.com", "ÉXAMPLE.com", "b:", "b:1:2",
		"::ffff:1.2.3.4", "fe80::1%ETH0", "[fe80::1%25x]", "::ffff:1.2.3.4%x", "[", "[]", "[x", "1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8:9", "1::2::3", ":::", "::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1.2.3.4::", "::01.2.3.4", "::12345", "b.\xff", "B", "1:0:0:2:0:0:0:3", "0:0:0:0:0:0:0:0", "1:0:2:0:3:0:4:0", strings.Repeat("h", 255+d.IntN(4)))
}

func (d dice) path() string {
	if d.in(60) {
		return "/" + strings.Repeat("p", 4090+d.IntN(10))
	}
	pieces := []string{"api", "API", "users", "users;x=1", "1", "..", ".", "", "%2e%2e", "%2E", "..;", "a.b", "files", "É", "é", "%C3%89", "%c3%a9", "k", "\u212a", "%E2%84%AA", "ß", "%zz", "%", "%4", "%25", "%252e", "x y", "x%20y", "\\", "%5c", "%2f", "%2F..%2fapi", "a\\b", "\xff", "%ff", "%00", "a;b/c", "*", "+", "orders", "%61pi", "a?b", "a#b", "%3f", "%23", "%3b", ";", "%e2%84", "b"}
	path := d.join(5, d.one("/", "/", "/", "//", "\\", "%2f"), pieces...)
	if !d.in(20) {
		path = "/" + path
	}
	path += d.one("", "", "/", "?x=/api", "#x")
	if d.in(6) {
		path = d.mutated(path)
	}
	return path
}

// mutated returns s with some of its bytes removed, changed or doubled.
func (d dice) mutated(s string) string {
	b := []byte(s)
	for range 1 + d.IntN(4) {
		i, n := d.IntN(len(b)+1), d.IntN(len(b)+1)
		c := d.one(`"`, `\`, "{", "}", "[", "]", ",", ":", "0", "-", "e", "E", ".", "+", "t", "u", "/", "%", ";", "?", " ", "\t", "\x00", "\x7f", "\x80", "\xc3", "\xed\xa0\x80", "\xff", "é", "ſ", "\u1e9e", "\U00010400", "A", "2f")
		switch d.IntN(4) {
		case 0:
			b = append(b[:i:i], append([]byte(c), b[i:]...)...)
		case 1:
			b = append(b[:i:i], b[min(len(b), i+1+n%4):]...)
		case 2:
			b = append(b[:i:i], append([]byte(c), b[min(len(b), i+len(c)):]...)...)
		default:
			b = append(b[:i:i], b[min(i, n):]...)
		}
	}
	return string(b[:min(len(b), 6000)])
}

// address returns a text like an IPv6 address.
func (d dice) address() string {
	groups := make([]string, 1+d.IntN(9))
	for i := range groups {
		groups[i] = d.one("0", "0", "0", "1", "ffff", "FFFF", "00ab", "", "12345", "g", "1.2.3.4", "0000")
		if !d.in(6) && (groups[i] == "" || len(groups[i]) > 4 || groups[i] == "g") {
			groups[i] = "0"
		}
	}
	text := strings.Join(groups, ":")
	switch d.IntN(4) {
	case 0:
		text = "::" + text
	case 1:
		text = strings.Replace(text, ":", "::", 1)
	case 2:
		text += d.one("::", "%zone", ":1.2.3.4")
	}
	return text
}

func (d dice) request() plainRequest {
	r := plainRequest{
		Method: d.one(diceMethods...), Host: d.host(), Path: d.path(), Headers: map[string][]string{}, Queries: map[string][]string{}, Cookies: map[string][]string{},
		IP: d.one("", "10.0.0.1", "10.255.0.1", "11.0.0.1", "::1", "2001:db8::1", "2001:db8:1:2:3:4:5:6", "2001:dbf:ffff:ffff:ffff::", "::ffff:10.0.0.1", "255.255.255.255", "0.0.0.0", "::", "64:ff9b::1.2.3.4", "fe80::1%eth0", d.address(), fmt.Sprintf("%x:%x::%x:%x", d.IntN(65536), d.IntN(3), d.IntN(3), d.IntN(65536))),
	}
	for _, name := range []string{"X-A", "X-B", "Authorization", "Proxy-Authorization"} {
		if !d.in(4) {
			r.Headers[name] = d.values()
		}
	}
	for _, name := range []string{"q", "é"} {
		if !d.in(3) {
			r.Queries[name] = d.values()
		}
	}
	for _, name := range []string{"c", "C"} {
		if !d.in(3) {
			r.Cookies[name] = d.values()
		}
	}
	return r
}
