package gateway

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// A router finds the route of a request: among the routes of its host, or else among
// those without host, the one with the longest path. It forwards paths unchanged; an
// http.ServeMux would redirect the client to a cleaned path.
type router struct {
	hosts map[string][]entry // "": routes without host

	connect, dotSegments, noRoute http.Handler
}

// newRouter returns a router without routes. The limits apply to requests without a route too.
func newRouter(limit func(http.Handler) http.Handler) *router {
	refuse := func(status int, detail string) http.Handler {
		return limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			problem.Write(w, problem.Problem{Status: status, Detail: detail})
		}))
	}
	return &router{
		hosts:       map[string][]entry{},
		connect:     refuse(http.StatusMethodNotAllowed, "CONNECT is not supported"),
		dotSegments: refuse(http.StatusBadRequest, "the path has . or .. segments"),
		noRoute:     refuse(http.StatusNotFound, "no route of this gateway matches the host and path"),
	}
}

type entry struct {
	path    string // "/", or a path without trailing slash
	handler http.Handler
}

func (t *router) add(host, path string, h http.Handler) error {
	switch {
	case !strings.HasPrefix(path, "/") || path != "/" && strings.HasSuffix(path, "/"):
		return fmt.Errorf("path %q: want a path that begins with a slash and does not end in one", path)
	case strings.Contains(path, "//") || hasDotSegments(path):
		return fmt.Errorf("path %q: want a path without empty, . and .. segments", path)
	case host != normalizeHost(host):
		return fmt.Errorf("host %q: want a host in lower case without port", host)
	}
	for _, e := range t.hosts[host] {
		if e.path == path {
			return fmt.Errorf("want one route per host and path, got two for %q", host+path)
		}
	}
	es := append(t.hosts[host], entry{path, h})
	slices.SortFunc(es, func(a, b entry) int { return cmp.Compare(len(b.path), len(a.path)) })
	t.hosts[host] = es
	return nil
}

// ServeHTTP implements [http.Handler].
func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) { t.find(r).ServeHTTP(w, r) }

func (t *router) find(r *http.Request) http.Handler {
	switch {
	case r.Method == http.MethodConnect:
		return t.connect
	case hasDotSegments(r.URL.Path):
		// Upstreams interpret these differently, and could leave the path prefix of the
		// route.
		return t.dotSegments
	}
	path := r.URL.Path
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if h := find(t.hosts[normalizeHost(r.Host)], path); h != nil {
		return h
	}
	if h := find(t.hosts[""], path); h != nil {
		return h
	}
	return t.noRoute
}

func find(es []entry, path string) http.Handler {
	for _, e := range es {
		rest, ok := strings.CutPrefix(path, e.path)
		if ok && (e.path == "/" || rest == "" || rest[0] == '/') {
			return e.handler
		}
	}
	return nil
}

// normalizeHost returns a host in the form of routes: in lower case, without port and
// without the trailing dot.
func normalizeHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// hasDotSegments reports whether a decoded path has a segment . or .., also for servers
// that treat a backslash as a slash, or first remove a parameter from a segment.
func hasDotSegments(path string) bool {
	if !strings.Contains(path, "/.") && !strings.Contains(path, `\.`) {
		return false
	}
	for s := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if s, _, _ = strings.Cut(s, ";"); s == "." || s == ".." {
			return true
		}
	}
	return false
}
