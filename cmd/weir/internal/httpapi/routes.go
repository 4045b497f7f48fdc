package httpapi

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// A route is a path of the API and its method.
type route struct {
	method, path string
	handler      http.HandlerFunc
}

// verbs have a path each, in the order of the document.
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

// authPath accepts every method, and the header fields of a page: a proxy copies them from
// its client's request.
const authPath = "/v1/auth"

const anyMethod = "any method"

// newMux returns the handler of all routes.
func (a *API) newMux(c Config) (*http.ServeMux, error) {
	routes := a.routes()
	mux, known := http.NewServeMux(), map[string][]string{}
	for _, r := range routes {
		mux.HandleFunc(r.method+" "+r.path, r.handler)
		mux.HandleFunc(r.path, methodNotAllowed(r.method))
		known[r.method] = append(known[r.method], r.path)
	}
	if c.Auth != nil {
		mux.Handle(authPath, c.Auth)
		known[anyMethod] = []string{authPath}
	}
	for _, pattern := range slices.Sorted(maps.Keys(c.Extra)) {
		if err := mount(mux, pattern, c.Extra[pattern]); err != nil {
			return nil, err
		}
		method, path, found := strings.Cut(pattern, " ")
		if !found {
			method, path = anyMethod, method
		}
		known[method] = append(known[method], path)
	}
	mux.HandleFunc("/", notFound(known))
	return mux, nil
}

// mount adds a handler to mux. It returns an error where mux panics: for an invalid
// pattern, or one that conflicts with another.
func mount(mux *http.ServeMux, pattern string, h http.Handler) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("httpapi: extra %q: want a pattern of http.ServeMux without conflict: %v", pattern, p)
		}
	}()
	mux.Handle(pattern, h)
	return nil
}

// fromPage reports whether a browser sent r for a page of another origin, which could
// consume the limits of its reader. A POST whose origin is a name of this host counts
// too. Nothing here is a page, so the name was pointed at this address after its page was
// loaded (DNS rebinding).
func (a *API) fromPage(r *http.Request) bool {
	if r.Method == http.MethodPost && (r.Header["Origin"] != nil || r.Header["Sec-Fetch-Site"] != nil) && !problem.IsAddress(r.Host) {
		return true
	}
	return a.origins.Check(r) != nil
}

// notFound lists the known paths.
func notFound(known map[string][]string) http.HandlerFunc {
	var lists []string
	for _, method := range slices.Sorted(maps.Keys(known)) {
		lists = append(lists, method+" "+strings.Join(known[method], ", "))
	}
	detail := "known paths: " + strings.Join(lists, "; ")
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
