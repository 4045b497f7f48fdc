package httpapi

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// A route is a path of the API and the method that it takes.
type route struct {
	method, path string
	handler      http.HandlerFunc
}

// verbs are those that have a path of their own, in the order of the document.
var verbs = [...]weir.Verb{
	weir.Take, weir.TakeUpTo, weir.Peek, weir.Charge, weir.Return, weir.Reset, weir.Reserve, weir.Commit, weir.Cancel,
}

func (a *API) routes() []route {
	var all []route
	for _, v := range verbs {
		all = append(all, route{http.MethodPost, "/v1/" + v.String(), a.verb(v)})
	}
	return append(all,
		route{http.MethodPost, "/v1/batch", a.batch},
		route{http.MethodGet, "/openapi.json", serveOpenAPI},
		route{http.MethodGet, "/healthz", a.healthz},
		route{http.MethodGet, "/readyz", a.readyz},
	)
}

// authPath is the one path that takes every method and the headers of a page.
const authPath = "/v1/auth"

// mux is the handler of all routes.
func (a *API) mux(c Config) (http.Handler, error) {
	routes := a.routes()
	mux, known := http.NewServeMux(), map[string][]string{}
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, r.handler)
		mux.HandleFunc(r.path, methodNotAllowed(r.method))
		known[r.method] = append(known[r.method], r.path)
	}
	if c.Auth != nil {
		mux.Handle(authPath, c.Auth)
		known["any method at"] = []string{authPath}
	}
	for _, pattern := range slices.Sorted(maps.Keys(c.Extra)) {
		if err := mount(mux, pattern, c.Extra[pattern]); err != nil {
			return nil, err
		}
		method, path, found := strings.Cut(pattern, " ")
		if !found {
			method, path = "any method at", method
		}
		known[method] = append(known[method], path)
	}
	mux.HandleFunc("/", notFound(known))
	// A page in a browser could otherwise spend the limits of whoever looks at it.
	protect := http.NewCrossOriginProtection()
	protect.SetDenyHandler(http.HandlerFunc(crossOrigin))
	protected := rejectRebinding(protect.Handler(mux))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.Auth != nil && r.URL.Path == authPath {
			c.Auth.ServeHTTP(w, r)
			return
		}
		protected.ServeHTTP(w, r)
	}), nil
}

// mount adds a handler to mux, which panics at a pattern that is none or is taken.
func mount(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("httpapi: extra %q: want a pattern of http.ServeMux that is not taken: %v", pattern, p)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// noPages refuses pages whose own host this is said to be: nobody serves pages here,
// so the name is one that was pointed at this address after the page was read (DNS
// rebinding). An address and localhost cannot be pointed elsewhere.
func rejectRebinding(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && (r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil) && !isAddress(r.Host) {
			crossOrigin(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// fixed reports whether a host is an address or localhost.
func isAddress(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || strings.EqualFold(strings.TrimSuffix(host, "."), "localhost")
}

// unknown says which paths there are.
func notFound(known map[string][]string) http.HandlerFunc {
	var lists []string
	for _, method := range slices.Sorted(maps.Keys(known)) {
		lists = append(lists, method+" "+strings.Join(known[method], ", "))
	}
	detail := "known are " + strings.Join(lists, "; ")
	return func(w http.ResponseWriter, r *http.Request) {
		problem.Write(w, problem.Problem{Status: http.StatusNotFound, Detail: detail})
	}
}

func methodNotAllowed(method string) http.HandlerFunc {
	allow, detail := method, "want POST with a JSON object"
	if method == http.MethodGet {
		allow, detail = "GET, HEAD", "want GET"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		problem.Write(w, problem.Problem{Status: http.StatusMethodNotAllowed, Detail: detail})
	}
}

func crossOrigin(w http.ResponseWriter, r *http.Request) {
	problem.Write(w, problem.Problem{Status: http.StatusForbidden, Detail: "a web page may not ask"})
}
