package admin

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"strconv"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
)

// maxProfile is the maximum duration of a profile in seconds.
const maxProfile = 60

// profiles returns a route for each profile. Importing net/http/pprof adds them to
// http.DefaultServeMux as well, which is not served.
func profiles() (all []Route) {
	add := func(name, summary string, h http.Handler) {
		all = append(all, Route{"GET /debug/pprof/" + name, summary, access.Operate, h})
	}
	const seconds = "?seconds=10, at most 60"
	add("profile", "CPU profile; "+seconds, bounded(http.HandlerFunc(pprof.Profile)))
	add("trace", "execution trace; "+seconds, bounded(http.HandlerFunc(pprof.Trace)))
	for _, p := range []struct{ name, what string }{
		{"allocs", "allocated memory"},
		{"block", "goroutines that wait"},
		{"goroutine", "stacks of goroutines; ?debug=2 for text"},
		{"heap", "memory in use"},
		{"mutex", "contended locks"},
		{"threadcreate", "creation of threads"},
	} {
		add(p.name, p.what, bounded(pprof.Handler(p.name)))
	}
	add("symbol", "names of program counters", http.HandlerFunc(pprof.Symbol))
	return all
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
