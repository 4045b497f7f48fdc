package guard

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy"
)

// A Status is what a Registry tells of a guard or a resource.
type Status struct {
	Name        string
	Function    string
	File        string
	Line        int
	BuiltBy     BuiltBy
	Limits      []weir.Limit // in force; none of a resource without a rule
	Rule        bool         // that they come from Config.Functions
	Mode        policy.Mode
	Protections map[string]string // their states by name; those of the system as "system breaker"

	// Passed are the calls that went through, of which Failed returned an error and
	// Running are under way. Denied were refused by a limit or a Ward. Undecided are those
	// of which no decision was made, whether they went through or not.
	Passed, Denied, Undecided, Failed, Running int64
	Busy                                       time.Duration // the time of all calls that are done
}

// Live are the guards, and the resources that Enter was asked for, by name. One of which
// Limits are empty limits nobody. Rules that nothing asks about have Function "" and a
// Passed and Denied of 0.
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
	for _, p := range r.places {
		if !p.used {
			all = append(all, p.status())
		}
	}
	slices.SortFunc(all, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Function, b.Function), cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return all
}

func (p *place) status() Status {
	now := p.ruling.Load()
	s := Status{Name: p.name, Limits: slices.Clone(now.limits), Rule: now.rule, Mode: now.mode}
	for _, w := range now.told {
		if s.Protections == nil {
			s.Protections = map[string]string{}
		}
		s.Protections[w.name] = w.State()
	}
	return s
}

func (g *Guard) status() Status {
	s, c := g.place.status(), &g.count
	s.Function, s.File, s.Line, s.BuiltBy = g.point.Function, g.point.File, g.point.Line, g.point.BuiltBy
	s.Passed, s.Denied, s.Undecided = c.passed.Load(), c.denied.Load(), c.undecided.Load()
	s.Failed, s.Running, s.Busy = c.failed.Load(), c.running.Load(), time.Duration(c.busy.Load())
	return s
}

// statusJSON is a Status as ServeHTTP tells it.
type statusJSON struct {
	Name      string            `json:"name"`
	Function  string            `json:"function,omitempty"`
	File      string            `json:"file,omitempty"`
	Line      int               `json:"line,omitempty"`
	Made      BuiltBy           `json:"made,omitempty"`
	Limits    []string          `json:"limits"`
	Rule      bool              `json:"rule"`
	Mode      policy.Mode       `json:"mode"`
	Wards     map[string]string `json:"wards,omitempty"`
	Passed    int64             `json:"passed"`
	Denied    int64             `json:"denied"`
	Undecided int64             `json:"undecided"`
	Failed    int64             `json:"failed"`
	Running   int64             `json:"running"`
	Busy      float64           `json:"busy_seconds"`
}

// MarshalJSON is s as ServeHTTP tells it: limits as text, and times in seconds.
func (s Status) MarshalJSON() ([]byte, error) {
	limits := make([]string, len(s.Limits))
	for i, l := range s.Limits {
		limits[i] = l.String()
	}
	return json.Marshal(statusJSON{
		Name: s.Name, Function: s.Function, File: s.File, Line: s.Line, Made: s.BuiltBy,
		Limits: limits, Rule: s.Rule, Mode: s.Mode, Wards: s.Protections,
		Passed: s.Passed, Denied: s.Denied, Undecided: s.Undecided, Failed: s.Failed, Running: s.Running,
		Busy: s.Busy.Seconds(),
	})
}

// ServeHTTP answers with Live as JSON: {"functions": […]}, in the order of Live, with
// times in seconds. What it tells is for operators: mount it where only they come.
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
	_ = enc.Encode(map[string][]Status{"functions": append([]Status{}, r.Live()...)}) // an error is of a client that has gone away
}
