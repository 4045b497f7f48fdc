package programs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/guard/instances"
	"github.com/floodweir/weir/redisstore"
)

// storeTimeout bounds the commands of one request.
const storeTimeout = time.Second

// Reports returns the handler of POST /v1/programs, which puts the report of a program that has
// no connection to Redis into that of conn.
func Reports(conn func() redisstore.Conn, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := problem.ReadBody(w, r, instances.MaxSize)
		if err != nil {
			problem.WriteBodyError(w, err)
			return
		}
		var p instances.Process
		if err := json.Unmarshal(body, &p); err != nil {
			var field *json.UnmarshalTypeError
			if errors.As(err, &field) {
				problem.Invalid(field.Field, field.Value, "a "+field.Type.String()).Write(w, http.StatusBadRequest)
				return
			}
			problem.Invalid("body", problem.Shorten(string(body)), "the report of a process in JSON").Write(w, http.StatusBadRequest)
			return
		}
		c := conn()
		if c == nil {
			problem.Write(w, noRedis)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		err = instances.Post(ctx, c, p)
		var invalid *instances.FieldError
		switch {
		case errors.As(err, &invalid):
			problem.Invalid(invalid.Field, invalid.Value, invalid.Expected).Write(w, http.StatusBadRequest)
		case err != nil:
			unavailable(w, log, "report of a program not stored", err)
		default:
			w.WriteHeader(http.StatusNoContent)
		}
	})
}

var noRedis = problem.Problem{Status: http.StatusNotFound, Detail: "want a Redis, where programs report: weir serve --store redis://…, and instances.Publisher in the programs"}

func unavailable(w http.ResponseWriter, log *slog.Logger, what string, err error) {
	log.Error(what, "error", err)
	problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "store unavailable"})
}

// Functions returns the handler of GET /v1/functions, which lists the functions that programs
// limit, and the processes, as they report them in the Redis of conn.
func Functions(conn func() redisstore.Conn, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := conn()
		if c == nil {
			problem.Write(w, noRedis)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
		defer cancel()
		all, err := instances.Read(ctx, c)
		if err != nil {
			unavailable(w, log, "list of limited functions unavailable", err)
			return
		}
		processes := make([]process, len(all))
		for i, p := range all {
			processes[i] = process{p, p.Seen.Milliseconds(), p.Stale()}
		}
		problem.WriteJSON(w, map[string]any{"functions": summarize(all), "processes": processes})
	})
}

// A process is a report with its age.
type process struct {
	instances.Process
	SeenMS int64 `json:"seen_ms"`
	Stale  bool  `json:"stale"`
}

// A function has the functions of one name of all processes. Stale processes are in Programs
// alone.
type function struct {
	Name     string    `json:"name"`
	Programs []program `json:"programs"`

	// Limits, Source and Mode are those of the processes with the newest Version, and of most
	// of them if they differ.
	Limits  []string `json:"limits"`
	Source  string   `json:"source"` // "code" or "rule"
	Mode    string   `json:"mode"`
	Version int64    `json:"version"`

	Calls       float64 `json:"calls"` // per second
	DeniedShare float64 `json:"denied_share"`
	FailedShare float64 `json:"failed_share"` // of admitted calls

	// Breaker is the state of the breaker that hinders the most: "open", "half-open",
	// "closed" or "". If it is open, BreakerOpen is the time until it admits a trial.
	Breaker     string  `json:"breaker"`
	BreakerOpen float64 `json:"breaker_open_ms,omitempty"`
}

// A program counts the processes of one service that have a function.
type program struct {
	Service   string `json:"service"`
	Processes int    `json:"processes"` // that report
	Outdated  int    `json:"outdated"`  // of them, with other limits or an older version
	Stale     int    `json:"stale"`
}

// A use is a function of one process.
type use struct {
	*instances.Process
	*instances.Function
}

// unused reports whether u is a rule for a name that the process does not use.
func (u use) unused() bool { return u.Function.Function == "" && u.Total == instances.Counts{} }

// summarize returns the functions by name.
func summarize(all []instances.Process) []function {
	byName := map[string][]use{}
	for i := range all {
		p := &all[i]
		for j := range p.Functions {
			u := use{p, &p.Functions[j]}
			byName[u.Name] = append(byName[u.Name], u)
		}
	}
	functions := make([]function, 0, len(byName))
	for name, uses := range byName {
		functions = append(functions, newFunction(name, uses))
	}
	slices.SortFunc(functions, func(a, b function) int { return cmp.Compare(a.Name, b.Name) })
	return functions
}

func newFunction(name string, uses []use) function {
	f := function{Name: name, Programs: []program{}, Limits: []string{}}
	model := modelOf(uses)
	if model.Limits != nil {
		f.Limits = model.Limits
	}
	f.Source, f.Mode, f.Version = "code", string(model.Mode), model.Version
	if model.Rule {
		f.Source = "rule"
	}
	var denied, failed float64
	counted := map[string]bool{} // processes: one may have several guards of a name
	for _, u := range uses {
		if u.unused() {
			continue
		}
		at := slices.IndexFunc(f.Programs, func(p program) bool { return p.Service == u.Service })
		if at < 0 {
			at = len(f.Programs)
			f.Programs = append(f.Programs, program{Service: u.Service})
		}
		again, p := counted[u.ID], &f.Programs[at]
		counted[u.ID] = true
		switch {
		case u.Stale() && !again:
			p.Stale++
		case u.Stale():
		default:
			f.Calls, denied, failed = f.Calls+u.Function.Calls, denied+u.Denied, failed+u.Failed
			if state := u.Protections["breaker"]; severity(state) > severity(f.Breaker) {
				f.Breaker = state
			}
			if u.Protections["breaker"] == "open" {
				f.BreakerOpen = max(f.BreakerOpen, 1000*u.BreakerOpen-float64(u.Seen.Milliseconds()))
			}
			if again {
				break
			}
			p.Processes++
			if u.Version < f.Version || !slices.Equal(u.Limits, model.Limits) {
				p.Outdated++
			}
		}
	}
	slices.SortFunc(f.Programs, func(a, b program) int { return cmp.Compare(a.Service, b.Service) })
	if f.Calls > 0 {
		f.DeniedShare = denied / f.Calls
	}
	if admitted := f.Calls - denied; admitted > 0 {
		f.FailedShare = min(failed/admitted, 1) // calls that began earlier may fail now
	}
	return f
}

// modelOf returns the use whose limits are shown.
func modelOf(uses []use) use {
	newest, count := int64(-1), map[string]int{}
	live := slices.DeleteFunc(slices.Clone(uses), func(u use) bool { return u.Stale() })
	if len(live) == 0 {
		live = uses
	}
	for _, u := range live {
		newest = max(newest, u.Version)
	}
	limits := func(u use) string {
		text, _ := json.Marshal(u.Limits) // strings have an encoding
		return string(text)
	}
	for _, u := range live {
		if u.Version == newest {
			count[limits(u)]++
		}
	}
	return slices.MaxFunc(live, func(a, b use) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(count[limits(a)], count[limits(b)]), cmp.Compare(limits(b), limits(a)))
	})
}

// severity orders the states of a breaker.
func severity(state string) int {
	return slices.Index([]string{"", "closed", "half-open", "open"}, state)
}
