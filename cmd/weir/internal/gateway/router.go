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

// A router finds the route of a request: of the routes of its host, or else of
// any host, the one with the longest path. It passes paths on as they are and
// redirects nobody, so it is not an http.ServeMux.
type router struct {
	hosts map[string][]entry // the routes without a host stand under ""
}

type entry struct {
	path    string // "/", or a path without a slash at its end
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
	if t.hosts == nil {
		t.hosts = map[string][]entry{}
	}
	es := append(t.hosts[host], entry{path, h})
	slices.SortFunc(es, func(a, b entry) int { return cmp.Compare(len(b.path), len(a.path)) })
	t.hosts[host] = es
	return nil
}

// ServeHTTP implements [http.Handler].
func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		problem.Write(w, problem.Problem{Status: http.StatusMethodNotAllowed, Detail: "this gateway is not a tunnel"})
		return
	case hasDotSegments(r.URL.Path):
		// Upstreams differ in what they make of these, and one could be led out of the
		// path that a route puts in front.
		problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: "the path has . or .. segments"})
		return
	}
	path := r.URL.Path
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	if h := find(t.hosts[normalizeHost(r.Host)], path); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	if h := find(t.hosts[""], path); h != nil {
		h.ServeHTTP(w, r)
		return
	}
	problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: "no route of this gateway matches the host and path"})
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

// plainHost is a host as routes are named by it: in lower case, without port and
// without the dot of the root.
func normalizeHost(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// dotted reports whether a segment of a decoded path is . or .., also for servers
// that take a backslash for a slash, or cut a parameter off a segment first.
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
