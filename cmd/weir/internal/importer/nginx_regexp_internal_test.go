package importer

import (
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	"github.com/floodweir/weir/weirfile/expr"
)

// A pathRequest is a request with a path alone.
type pathRequest string

func (pathRequest) Method() string         { return "GET" }
func (pathRequest) Host() string           { return "" }
func (p pathRequest) Path() string         { return string(p) }
func (pathRequest) Header(string) []string { return nil }
func (pathRequest) Query(string) []string  { return nil }
func (pathRequest) Cookie(string) []string { return nil }
func (pathRequest) ClientIP() netip.Addr   { return netip.Addr{} }

// TestTextConditions compares the expressions for regular expressions with the regular
// expressions themselves, for paths near their texts and random ones.
func TestTextConditions(t *testing.T) {
	for _, test := range []struct{ pattern, want string }{
		{`\.(css|js)$`, `request.path.endsWith(".css") || request.path.endsWith(".js")`},
		{`\.(?:jpe?g|mp[34])$`, `[".jpg", ".jpeg", ".mp3", ".mp4"].exists(x, request.path.endsWith(x))`},
		{`\.(css|js|map|png)$`, `[".css", ".js", ".map", ".png"].exists(x, request.path.endsWith(x))`},
		{`/(a|b|cd|ef|\.x)/`, `["/a/", "/b/", "/cd/", "/ef/", "/.x/"].exists(x, (request.path + "/").contains(x))`},
		{`/(?:uploads|files)/.*\.php$`, `(request.path.contains("/uploads/") && request.path.endsWith(".php")) || (request.path.contains("/files/") && request.path.endsWith(".php"))`},
		{`/a.*ab$`, ""},
		{`^/(login|signup)$`, `request.path in ["/login", "/signup"]`},
		{`^/login/?$`, `request.path == "/login"`},
		{`^/api/.*$`, `(request.path + "/").startsWith("/api/")`},
		{`^/API(/|$)`, `request.path == "/api" || (request.path + "/").startsWith("/api/")`},
		{`^/x/.+`, `request.path.startsWith("/x/")`},
		{`/wp-admin/`, `(request.path + "/").contains("/wp-admin/")`},
		{`/\.git`, `request.path.contains("/.git")`},
		{`^/users/[^/]+/edit$`, `request.path.startsWith("/users/") && request.path.endsWith("/edit") && request.path.split("/").size() == 4 && request.path.size() >= 13`},
		{`^/a-.+-b$`, `request.path.startsWith("/a-") && request.path.endsWith("-b") && request.path.size() >= 6`},
		{`^/a-.*-b$`, `request.path.startsWith("/a-") && request.path.endsWith("-b") && request.path.size() >= 5`},
		{`.*\.php$`, `request.path.endsWith(".php")`},
		{`^/[a-z]+$`, ""},
		{`^/(?!new)`, ""},
		{`\w+`, ""},
		{`(`, ""},
		{`^a`, ""},
		{`/$`, ""},
		{`(a|b|c|d|e|f)(a|b|c|d|e|f)(a|b|c|d|e|f)`, ""},
	} {
		got, ok := textConditions(test.pattern)
		if got != test.want || ok != (test.want != "") {
			t.Errorf("%s: %s, want %s", test.pattern, got, test.want)
		}
		if !ok {
			continue
		}
		c, err := expr.Condition(got)
		if err != nil {
			t.Errorf("%s: %v", test.pattern, err)
			continue
		}
		re := regexp.MustCompile("(?i)" + test.pattern)
		for range 2000 {
			path := randomPath(test.pattern)
			// The file normalizes /x/ to /x, so a location of either matches both.
			want := re.MatchString(path) || re.MatchString(path+"/")
			if got, err := c.Eval(pathRequest(path)); err != nil || got != want {
				t.Fatalf("%s: %s is %v for %s, %v, want %v", test.pattern, c, got, path, err, want)
			}
		}
	}
}

// randomPath returns a normalized path from pieces of a pattern.
func randomPath(pattern string) string {
	pieces := regexp.MustCompile(`[a-z0-9.-]+|/`).FindAllString(strings.ToLower(pattern), -1)
	pieces = append(pieces, "/", "/", "x", "jpeg", "mp3", ".", "-")
	path := "/"
	for range 1 + rand.IntN(6) {
		path += pieces[rand.IntN(len(pieces))]
	}
	path = regexp.MustCompile(`/+`).ReplaceAllString(path, "/")
	for strings.Contains(path, "/./") || strings.Contains(path, "/../") || strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..") {
		path = strings.NewReplacer("/./", "/x/", "/../", "/x/").Replace(path + "y")
	}
	if path != "/" {
		path = strings.TrimSuffix(path, "/")
	}
	return path
}

// TestPathPatterns checks the regular expressions that become a list of paths.
func TestPathPatterns(t *testing.T) {
	for pattern, want := range map[string]string{
		`^/(a|b)$`:               "/a /b",
		`^/a/$`:                  "/a",
		`^/users/[^/]+/edit$`:    "/users/{any1}/edit",
		`^/users/[^/]+/x/[^/]+$`: "/users/{any1}/x/{any3}",
		`^/api/.*`:               "/api/*",
		`^/api`:                  "",
		`/a$`:                    "",
		`^/a[^/]+$`:              "",
		`^/a.+$`:                 "",
		`^/{x}$`:                 "",
	} {
		all, ok := alternatives(pattern)
		var got []string
		for i := range all {
			p, fits := all[i].pathPattern()
			if ok = ok && fits; ok {
				got = append(got, p)
			}
		}
		if ok != (want != "") || ok && strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
}
