package guard

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/protect"
)

// A Status describes a guard or a resource.
type Status struct {
	Name        string
	Function    string
	File        string
	Line        int
	BuiltBy     BuiltBy
	Limits      []weir.Limit // in force; none for a resource without a rule
	Rule        bool         // Limits come from Config.Functions
	Mode        policy.Mode
	Protections map[string]string // their states by name, such as "breaker" or "system breaker"
	BreakerOpen time.Duration     // the time until an open breaker admits a trial, the longest if there are several

	// Passed counts admitted calls; Failed of them returned an error, and Running are in
	// flight. Denied counts calls that a limit or a Protection refused. Undecided counts
	// calls without a decision of the store, admitted or not. KeyFaults counts calls whose key
	// is empty because the function that returns it panicked.
	Passed, Denied, Undecided, Failed, KeyFaults, Running int64
	Busy                                                  time.Duration // the total duration of finished calls
}

// Live returns the guards, and the resources that Enter was called with, by name. One with empty
// Limits has no limit. Rules that no guard or resource uses have an empty Function and zero
// counters.
func (r *Registry) Live() []Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []Status
	for _, g := range r.guards {
		all = append(all, g.status())
	}
	r.resources.Range(func(_, g any) bool {
		all = append(all, g.(*Guard).status())
		return true
	})
	for _, p := range r.groups {
		if !p.used {
			all = append(all, p.status())
		}
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Function, b.Function), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return all
}

func (p *group) status() Status {
	now := p.resolved.Load()
	s := Status{Name: p.name, Limits: slices.Clone(now.limits), Rule: now.fromRule, Mode: now.mode}
	for _, w := range now.reported {
		if s.Protections == nil {
			s.Protections = map[string]string{}
		}
		s.Protections[w.name] = w.State()
		if m, ok := w.Protection.(protect.Measured); ok {
			s.BreakerOpen = max(s.BreakerOpen, m.Read().Open)
		}
	}
	return s
}

func (g *Guard) status() Status {
	s, c := g.group.status(), &g.count
	s.Function, s.File, s.Line, s.BuiltBy = g.resource.Function, g.resource.File, g.resource.Line, g.resource.BuiltBy
	finished := c.finished.Load() // before Passed, so that Running is not negative
	s.Passed, s.Denied, s.Undecided = c.passed.Load(), c.denied.Load(), c.undecided.Load()
	s.KeyFaults = c.keyFaults.Load()
	s.Failed, s.Running, s.Busy = c.failed.Load(), s.Passed-finished, time.Duration(c.busy.Load())
	return s
}

// statusJSON is the JSON form of a Status.
type statusJSON struct {
	Name        string            `json:"name"`
	Function    string            `json:"function,omitempty"`
	File        string            `json:"file,omitempty"`
	Line        int               `json:"line,omitempty"`
	BuiltBy     BuiltBy           `json:"built_by,omitempty"`
	Limits      []string          `json:"limits"`
	Rule        bool              `json:"rule"`
	Mode        policy.Mode       `json:"mode"`
	Protections map[string]string `json:"protections,omitempty"`
	BreakerOpen float64           `json:"breaker_open_seconds,omitempty"`
	Passed      int64             `json:"passed"`
	Denied      int64             `json:"denied"`
	Undecided   int64             `json:"undecided"`
	Failed      int64             `json:"failed"`
	KeyFaults   int64             `json:"key_faults"`
	Running     int64             `json:"running"`
	Busy        float64           `json:"busy_seconds"`
}

// MarshalJSON returns s with limits as text and times in seconds.
func (s Status) MarshalJSON() ([]byte, error) {
	limits := make([]string, len(s.Limits))
	for i, l := range s.Limits {
		limits[i] = l.String()
	}
	return json.Marshal(statusJSON{
		Name: s.Name, Function: s.Function, File: s.File, Line: s.Line, BuiltBy: s.BuiltBy,
		Limits: limits, Rule: s.Rule, Mode: s.Mode, Protections: s.Protections, BreakerOpen: s.BreakerOpen.Seconds(),
		Passed: s.Passed, Denied: s.Denied, Undecided: s.Undecided, Failed: s.Failed, KeyFaults: s.KeyFaults, Running: s.Running,
		Busy: s.Busy.Seconds(),
	})
}

// ServeHTTP responds with the list of Live as JSON: {"functions": […]}. It is for operators:
// restrict access to it.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "want GET or HEAD", http.StatusMethodNotAllowed)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	_ = enc.Encode(map[string][]Status{"functions": append([]Status{}, r.Live()...)}) // an error means that the client disconnected
}
