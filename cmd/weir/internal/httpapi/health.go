package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
)

// A Check is one thing that has to work for the program to be ready.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`

	// Warn says that something is wrong with which the program can do its work: with
	// it, a check that is not OK does not make the program unready.
	Warn bool `json:"warn,omitempty"`

	// Detail is what there is, or what is wrong, in words.
	Detail string `json:"detail,omitempty"`
}

// healthz says that the process is alive, and nothing else: a store that is gone
// is no reason to restart it.
func (a *API) healthz(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Write([]byte(`{"alive":true}` + "\n"))
}

// readyz answers 200 if every check is OK or a warning, and 503 otherwise.
func (a *API) readyz(w http.ResponseWriter, r *http.Request) {
	answer := struct {
		Ready  bool    `json:"ready"`
		Checks []Check `json:"checks"`
	}{true, a.ready(r.Context())}
	for _, c := range answer.Checks {
		answer.Ready = answer.Ready && (c.OK || c.Warn)
	}
	b, err := json.Marshal(answer)
	if err != nil { // texts and bools always marshal
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	if !answer.Ready {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	w.Write(append(b, '\n'))
}

func noChecks(context.Context) []Check { return []Check{} }
