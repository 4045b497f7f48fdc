package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// maxProfile is how long a profile may last, in seconds.
const maxProfile = 60

// routeProfiles names every profile: an unknown one is not found. Importing the package
// of the handlers adds them to http.DefaultServeMux as well, which nobody serves.
func routeProfiles(route func(path, what string, h http.Handler)) {
	const seconds = "?seconds=10, at most 60"
	route("/debug/pprof/profile", "CPU for so many "+seconds, readOnly(bounded(http.HandlerFunc(pprof.Profile))))
	route("/debug/pprof/trace", "an execution trace of "+seconds, readOnly(bounded(http.HandlerFunc(pprof.Trace))))
	for _, p := range []struct{ name, what string }{
		{"allocs", "memory that was allocated"},
		{"block", "where goroutines wait"},
		{"goroutine", "what goroutines do; ?debug=2 to read"},
		{"heap", "memory that is in use"},
		{"mutex", "where locks are waited for"},
		{"threadcreate", "where threads came from"},
	} {
		route("/debug/pprof/"+p.name, p.what, readOnly(bounded(pprof.Handler(p.name))))
	}
	route("/debug/pprof/symbol", "names of program counters", readOnly(http.HandlerFunc(pprof.Symbol)))
}

// bounded refuses a profile that would last too long, and parameters that say nothing.
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
				problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: "this profile cannot be taken",
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
