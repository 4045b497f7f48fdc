package compare

import (
	"os/exec"
	"slices"
	"time"
)

// Options are the settings of [Run].
type Options struct {
	Rounds int
	Time   time.Duration // of a contender in a round

	// Command returns the command that calls [Serve] with a contender of a row.
	Command func(row, contender string) *exec.Cmd

	// Logf reports progress and failures.
	Logf func(format string, args ...any)
}

// patience bounds the opening of a contender, which may compile a server, and what a sample
// takes beyond its time.
const patience = 5 * time.Minute

// An Outcome holds the figures of a contender. A failed round is nil.
type Outcome struct {
	Name    string
	Rounds  []Sample
	Failure string // why it has no figures, or not in all rounds
}

// A Result holds the figures of a row.
type Result struct {
	Row
	Outcomes []Outcome
}

// Run measures rows.
func Run(rows []Row, o Options) (results []Result) {
	for i, r := range rows {
		began := time.Now()
		result := o.row(r)
		results = append(results, result)
		o.Logf("%d/%d %s: %.0f s", i+1, len(rows), r.Name, time.Since(began).Seconds())
	}
	return results
}

func (o Options) row(r Row) Result {
	result := Result{Row: r}
	running := make([]*process, len(r.Contenders))
	for i, c := range r.Contenders {
		out := Outcome{Name: c.Name, Rounds: make([]Sample, o.Rounds)}
		p, err := start(o.Command(r.Name, c.Name), patience)
		if err != nil {
			out.Failure = err.Error()
			o.Logf("%s: %s: not measured: %v", r.Name, c.Name, err)
		} else {
			running[i] = p
		}
		result.Outcomes = append(result.Outcomes, out)
	}
	defer func() {
		for _, p := range running {
			if p != nil {
				p.stop()
			}
		}
	}()
	d := max(o.Time, r.Shortest)
	for round := range o.Rounds {
		for i, p := range running {
			if p == nil {
				continue
			}
			out := &result.Outcomes[i]
			s, err := p.measure(d, d+patience)
			if err != nil {
				out.Failure = err.Error()
				o.Logf("%s: %s: round %d failed: %v", r.Name, out.Name, round+1, err)
				p.stop()
				running[i] = nil
				continue
			}
			out.Rounds[round] = s
		}
	}
	return result
}

// Value returns the median of a figure of a contender, and false if it has none.
func (r Result) Value(contender, column string) (float64, bool) {
	var vs []float64
	for _, s := range r.rounds(contender) {
		if v, ok := s[column]; ok {
			vs = append(vs, v)
		}
	}
	return median(vs)
}

// Ratio returns the median of the ratios of a figure to that of the base in the same round,
// and false if there is none.
func (r Result) Ratio(contender, column string) (float64, bool) {
	base := r.rounds(r.Base)
	var vs []float64
	for i, s := range r.rounds(contender) {
		if v, ok := s[column]; ok && i < len(base) && base[i][column] > 0 {
			vs = append(vs, v/base[i][column])
		}
	}
	return median(vs)
}

func (r Result) rounds(contender string) []Sample {
	i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.Name == contender })
	if i < 0 {
		return nil
	}
	return r.Outcomes[i].Rounds
}

// median returns the middle value, or the mean of the two in the middle.
func median(vs []float64) (float64, bool) {
	if len(vs) == 0 {
		return 0, false
	}
	slices.Sort(vs)
	return (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2, true
}
