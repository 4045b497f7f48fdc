package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/floodweir/weir/cmd/weir/internal/access"
)

// A Check is one condition of readiness.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`

	// Warn reports a problem that does not stop the program from working: a check that is
	// not OK but has Warn does not make the program unready.
	Warn bool `json:"warn,omitempty"`

	// Detail is the state, or the problem, for people.
	Detail string `json:"detail,omitempty"`
}

// healthz reports that the process is alive. It ignores the store, because a restart
// would not make the store available.
func (a *API) healthz(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write([]byte(`{"alive":true}` + "\n"))
}

// readyz answers 200 if every check is OK or a warning, and 503 otherwise.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	body := struct {
		Ready  bool    `json:"ready"`
		Checks []Check `json:"checks"`
	}{true, a.ready(r.Context())}
	for i, c := range body.Checks {
		body.Ready = body.Ready && (c.OK || c.Warn)
		if access.Anonymous(r.Context()) {
			body.Checks[i].Detail = "" // names of files and servers
		}
	}
	b, err := json.Marshal(body)
	if err != nil { // impossible for strings and bools
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !body.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	w.Write(append(b, '\n'))
}

func noChecks(context.Context) []Check { return []Check{} }
