package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// maxProfile is the maximum duration of a profile in seconds.
const maxProfile = 60

// routeProfiles adds a path for each profile. Importing net/http/pprof adds them to
// http.DefaultServeMux as well, which is not served.
func routeProfiles(route func(path, what string, h http.Handler)) {
	const seconds = "?seconds=10, at most 60"
	route("/debug/pprof/profile", "CPU profile; "+seconds, readOnly(bounded(http.HandlerFunc(pprof.Profile))))
	route("/debug/pprof/trace", "execution trace; "+seconds, readOnly(bounded(http.HandlerFunc(pprof.Trace))))
	for _, p := range []struct{ name, what string }{
		{"allocs", "allocated memory"},
		{"block", "goroutines that wait"},
		{"goroutine", "stacks of goroutines; ?debug=2 for text"},
		{"heap", "memory in use"},
		{"mutex", "contended locks"},
		{"threadcreate", "creation of threads"},
	} {
		route("/debug/pprof/"+p.name, p.what, readOnly(bounded(pprof.Handler(p.name))))
	}
	route("/debug/pprof/symbol", "names of program counters", readOnly(http.HandlerFunc(pprof.Symbol)))
}

// bounded refuses a profile that would last too long, and unknown parameters.
func bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.URL.Query() {
			var err error
			switch name {
			case "seconds":
				err = within(values, 1, maxProfile)
			case "debug":
				err = within(values, 0, 2)
			case "gc":
				err = within(values, 0, 1)
			default:
				err = errors.New("seconds, debug or gc")
			}
			if err != nil {
				problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: "invalid parameter",
					Field: problem.Shorten(name), Value: problem.Shorten(fmt.Sprint(values)), Expected: err.Error()})
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func within(values []string, least, most int64) error {
	if len(values) == 1 {
		if n, err := strconv.ParseInt(values[0], 10, 64); err == nil && n >= least && n <= most {
			return nil
		}
	}
	return fmt.Errorf("one whole number from %d to %d", least, most)
}
