package live

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/policy"
)

// maxName is the largest name of a policy in a request, in bytes.
const maxName = 200

// An overview is the response of /v1/overview. Counters are means per second of the last ten
// seconds.
type overview struct {
	At        string      `json:"at"`
	Version   int64       `json:"version"`
	Nginx     string      `json:"nginx_problem,omitempty"`
	Totals    totals      `json:"totals"`
	Latency   quantiles   `json:"latency_ms"`
	Policies  []policyRow `json:"policies"`
	Nodes     []node      `json:"nodes"`
	NodesLive int         `json:"nodes_live"` // of len(Nodes)
	Programs  []Program   `json:"programs"`
	Problem   string      `json:"problem"`
}

type totals struct {
	Admitted   float64 `json:"admitted"`
	Denied     float64 `json:"denied"`
	Delayed    float64 `json:"delayed"`
	Shadow     float64 `json:"shadow"`
	Overloaded float64 `json:"overloaded"`
}

type quantiles struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// A policyRow has a policy in force, or one of the counters without a configuration: an
// interface without policies, or a removed policy.
type policyRow struct {
	Name        string     `json:"name"`
	Mode        string     `json:"mode,omitempty"`
	Percent     int        `json:"percent,omitempty"`
	Key         []string   `json:"key"`
	Limits      []string   `json:"limits"`
	Candidate   []string   `json:"candidate"`
	Rate        float64    `json:"rate"`
	Denied      float64    `json:"denied"`
	DeniedShare float64    `json:"denied_share"`
	Shadow      float64    `json:"shadow"`
	Trend       []*float64 `json:"trend"`

	// Programs is the part of Go programs, which the other numbers lack; nil without one.
	Programs *programRates `json:"programs,omitempty"`
}

// programRates are the decisions per second of Go programs.
type programRates struct {
	Rate   float64 `json:"rate"`
	Denied float64 `json:"denied"`
	Shadow float64 `json:"shadow"`
}

// inPrograms returns the decisions of the Go programs by policy.
func (s *state) inPrograms() map[string]*programRates {
	all := map[string]*programRates{}
	for i := range s.programs {
		if s.programs[i].Stale {
			continue
		}
		for _, p := range s.programs[i].Policies {
			sum := all[p.Name]
			if sum == nil {
				sum = &programRates{}
				all[p.Name] = sum
			}
			sum.Rate += p.Admitted + p.Denied + p.Shadow + p.Overloaded
			sum.Denied += p.Denied
			sum.Shadow += p.Shadow
		}
	}
	for _, sum := range all {
		*sum = programRates{round(sum.Rate), round(sum.Denied), round(sum.Shadow)}
	}
	return all
}

// Overview serves GET /v1/overview.
func (l *Live) Overview(w http.ResponseWriter, r *http.Request) {
	s := l.current(r.Context())
	problem.WriteJSON(w, s.overview(l.c.Policies()))
}

func (s *state) overview(set *policy.Set) overview {
	all := s.recent("")
	o := overview{
		At: s.at.UTC().Format("2006-01-02T15:04:05.000Z07:00"), Version: s.version.Number, Nginx: s.version.Nginx,
		Totals: totals{all[traffic.Admitted], all[traffic.Denied], all[traffic.Delayed], all[traffic.Shadow], all[traffic.Overloaded]},
		Nodes:  s.nodes, NodesLive: s.live(), Programs: s.programs, Problem: s.problem, Policies: []policyRow{},
	}
	o.Latency.P50, o.Latency.P99 = s.latency()
	known, programs := map[string]bool{}, s.inPrograms()
	for _, p := range set.Policies() {
		known[p.Name()] = true
		o.Policies = append(o.Policies, s.policyRow(p.Name(), p))
	}
	for _, name := range s.history.Policies() {
		if !known[name] {
			o.Policies = append(o.Policies, s.policyRow(name, nil))
		}
	}
	for i := range o.Policies {
		o.Policies[i].Programs = programs[o.Policies[i].Name]
	}
	slices.SortStableFunc(o.Policies, func(a, b policyRow) int {
		return cmp.Or(cmp.Compare(b.denied(), a.denied()), cmp.Compare(b.Rate, a.Rate))
	})
	return o
}

// denied returns the denials per second of nodes and Go programs.
func (r *policyRow) denied() float64 {
	if r.Programs == nil {
		return r.Denied
	}
	return r.Denied + r.Programs.Denied
}

// policyRow returns the row of a policy; p may be nil.
func (s *state) policyRow(name string, p *policy.Policy) policyRow {
	mean := s.recent(name)
	row := policyRow{
		Name: name, Key: []string{}, Limits: []string{}, Candidate: []string{}, Rate: round(mean.requests()), Denied: mean[traffic.Denied],
		Shadow: mean[traffic.Shadow], Trend: s.trend(name),
	}
	if rate := mean.requests(); rate > 0 {
		row.DeniedShare = round(row.Denied/rate*100) / 100
	}
	if p == nil {
		return row
	}
	c := p.Config()
	row.Mode, row.Percent = string(c.Mode), c.Percent
	for _, k := range c.Key {
		row.Key = append(row.Key, k.String())
	}
	texts := func(limits []weir.Limit) []string {
		all := []string{}
		for _, limit := range limits {
			all = append(all, limit.String())
		}
		return all
	}
	row.Limits, row.Candidate = texts(c.Limits), texts(c.Candidate)
	return row
}

// knows reports whether a policy is in force or has counters.
func (l *Live) knows(name string) bool {
	if p := l.c.Policies().Policy(name); p != nil && p.Name() == name {
		return true
	}
	return slices.Contains(l.c.Recorder.History().Policies(), name) || slices.Contains(l.merged.Policies(), name)
}

func unknownPolicy(w http.ResponseWriter, field, name string) {
	e := problem.Invalid(field, name, "the name of a policy; GET /v1/overview lists them")
	e.Write(w, http.StatusNotFound)
}

// A series is the response of /v1/series. Counters are per second; a step without data is null.
type series struct {
	Step    int          `json:"step"`
	From    int64        `json:"from"`
	Columns []string     `json:"columns"`
	Rows    [][]*float64 `json:"rows"`
	Problem string       `json:"problem"`
}

// seriesTime is the time of a series by second.
const seriesTime = 10 * time.Minute

var columns = []string{"admitted", "denied", "delayed", "shadow", "overloaded", "candidate", "p50", "p99"}

// Series serves GET /v1/series.
func (l *Live) Series(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("policy")
	if name != "" && !l.knows(name) {
		unknownPolicy(w, "policy", name)
		return
	}
	s := l.current(r.Context())
	since := s.second + 1 - int64(seriesTime.Seconds())
	if text := q.Get("since"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > 1<<40 {
			problem.Invalid("since", text, "Unix time in seconds").Write(w, http.StatusBadRequest)
			return
		}
		since = n
	}
	problem.WriteJSON(w, s.series(name, since))
}

func (s *state) series(name string, since int64) series {
	rows, from, step := s.rows(name, since)
	out := series{Step: max(1, step), From: from, Columns: columns, Rows: [][]*float64{}, Problem: s.problem}
	for _, row := range rows {
		if row == nil {
			out.Rows = append(out.Rows, nil)
			continue
		}
		values := make([]*float64, 0, len(columns))
		for _, n := range row.Counts {
			v := round(float64(n) / float64(out.Step))
			values = append(values, &v)
		}
		for _, d := range []time.Duration{row.P50, row.P99} {
			if v := toMS(d); v > 0 {
				values = append(values, &v)
			} else {
				values = append(values, nil)
			}
		}
		out.Rows = append(out.Rows, values)
	}
	return out
}
