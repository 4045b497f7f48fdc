package top

import (
	"cmp"
	"slices"
	"strings"
	"unicode"
)

// An overview is the response of /v1/overview.
type overview struct {
	At       string    `json:"at"`
	Version  int64     `json:"version"`
	Totals   totals    `json:"totals"`
	Latency  quantiles `json:"latency_ms"`
	Policies []*row    `json:"policies"`
	Nodes    []node    `json:"nodes"`
	Live     int       `json:"nodes_live"`
	Programs []program `json:"programs"`
	Problem  string    `json:"problem"`
}

type totals struct{ Admitted, Denied, Delayed, Shadow, Overloaded float64 }

func (t totals) requests() float64 { return t.Admitted + t.Denied + t.Shadow + t.Overloaded }

type quantiles struct{ P50, P99 float64 }

// A row is a policy.
type row struct {
	Name         string
	Mode         string
	Percent      int
	Limits       []string
	Rate, Denied float64
	Trend        []*float64

	rates []float64 // requests/s of the last seconds, at most averageOver
}

type node struct {
	Name    string
	PID     int
	Self    bool
	Version int64
	Store   struct {
		State string
		MS    float64
	}
	Mode    string
	SeenMS  int64 `json:"seen_ms"`
	Shares  int
	Stale   bool
	Problem string
}

type program struct {
	Service, Host string
	PID           int
	Version       int64
	SeenMS        int64 `json:"seen_ms"`
	Stale         bool
	Problem       string
}

// A tick is the data of the event tick.
type tick struct {
	T        int64
	All      [6]float64
	Policies map[string][6]float64
	Latency  [2]float64
}

// The columns of a tick.
const (
	admitted = iota
	denied
	delayed
	shadow
	overloaded
)

// A keyList is the response of /v1/policies/{name}/keys.
type keyList struct {
	Policy   string
	Window   float64 `json:"window_s"`
	Coverage float64
	Bound    uint64
	Requests []key
	Denied   []key
	Problem  string
}

type key struct {
	ID           string
	Key          []string
	Count, Error uint64
}

// name returns the parts of the key, or its ID if the token may not see them.
func (k key) name() string {
	if len(k.Key) == 0 {
		return "#" + plain(k.ID)
	}
	return plain(strings.Join(k.Key, " "))
}

const (
	averageOver = 10 // seconds of a rate
	trendLength = 60
)

// add applies the counts of one second.
func (o *overview) add(t tick) {
	o.Totals = totals{t.All[admitted], t.All[denied], t.All[delayed], t.All[shadow], t.All[overloaded]}
	o.Latency = quantiles{t.Latency[0], t.Latency[1]}
	known := map[string]bool{}
	for _, r := range o.Policies {
		known[r.Name] = true
		r.add(t.Policies[r.Name])
	}
	for name, counts := range t.Policies {
		if !known[name] {
			r := &row{Name: name, Trend: make([]*float64, trendLength)}
			r.add(counts)
			o.Policies = append(o.Policies, r)
		}
	}
	o.sort()
}

// add applies the counts of one second.
func (r *row) add(counts [6]float64) {
	if len(r.rates) == 0 && r.Rate > 0 {
		r.rates = slices.Repeat([]float64{r.Rate}, averageOver-1)
	}
	r.rates = append(r.rates, counts[admitted]+counts[denied]+counts[shadow]+counts[overloaded])
	r.rates = r.rates[max(0, len(r.rates)-averageOver):]
	r.Trend = append(r.Trend, &counts[denied])
	r.Trend = r.Trend[max(0, len(r.Trend)-trendLength):]
	r.Rate = mean(r.rates)
	var last []float64
	for _, v := range r.Trend[max(0, len(r.Trend)-averageOver):] {
		if v != nil {
			last = append(last, *v)
		}
	}
	r.Denied = mean(last)
}

func mean(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += v
	}
	return sum / float64(max(1, len(all)))
}

// sort puts policies with most denials first.
func (o *overview) sort() {
	slices.SortStableFunc(o.Policies, func(a, b *row) int {
		return cmp.Or(cmp.Compare(b.Denied, a.Denied), cmp.Compare(b.Rate, a.Rate), cmp.Compare(a.Name, b.Name))
	})
}

// plain replaces runes that could control a terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}
