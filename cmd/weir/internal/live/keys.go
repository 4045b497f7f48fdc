package live

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/cmd/weir/internal/traffic"
	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
)

const (
	// MaxSamples bounds the policies whose merged sample is kept.
	MaxSamples = 16

	// sampleAge is the time that a merged sample is used.
	sampleAge = 2 * time.Second

	defaultKeys = 20
	maxKeys     = 100

	// topicPrefix begins the topics of samples in the exchange.
	topicPrefix = "policy:"
)

// Details returns the sample of a topic on this node, for nodes.Config.
func Details(r *traffic.Recorder) func(topic string) []byte {
	return func(topic string) []byte {
		name := topic[min(len(topic), len(topicPrefix)):]
		r.View(name)
		if s := r.Sample(name); s != nil {
			return s.Encode()
		}
		return nil
	}
}

// samples are the merged samples by policy.
type samples struct {
	mu  sync.Mutex
	all map[string]*sample
}

// A sample is the merged sample of one policy.
type sample struct {
	mu      sync.Mutex // held while it is merged
	at      time.Time
	value   *keystats.Sample // nil: none
	nodes   int              // in it
	total   int
	problem string
	used    time.Time // guarded by samples.mu
}

// get returns the place of a policy. If there are MaxSamples already, it replaces the one that
// was used least recently.
func (s *samples) get(name string) *sample {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]*sample{}
	}
	one := s.all[name]
	if one == nil {
		if len(s.all) >= MaxSamples {
			oldest := ""
			for other, o := range s.all {
				if oldest == "" || o.used.Before(s.all[oldest].used) {
					oldest = other
				}
			}
			delete(s.all, oldest)
		}
		one = &sample{}
		s.all[name] = one
	}
	one.used = time.Now()
	return one
}

// sample returns a copy of the merged sample of a policy, at most sampleAge old.
func (l *Live) sample(ctx context.Context, name string) (value *keystats.Sample, from sources) {
	one := l.samples.get(name)
	one.mu.Lock()
	defer one.mu.Unlock()
	if time.Since(one.at) >= sampleAge {
		l.merge(context.WithoutCancel(ctx), name, one)
		one.at = time.Now()
	}
	return one.value, sources{one.nodes, one.total, one.problem}
}

// sources says which nodes are in a sample.
type sources struct {
	Nodes   int    `json:"nodes_live"`
	Total   int    `json:"nodes_total"`
	Problem string `json:"problem"`
}

// merge merges the samples of all nodes. It requires one.mu.
func (l *Live) merge(ctx context.Context, name string, one *sample) {
	s := l.current(ctx)
	l.c.Recorder.View(name)
	parts := []*keystats.Sample{l.c.Recorder.Sample(name)}
	one.nodes, one.total, one.problem = 1, len(s.nodes), s.problem
	if len(s.nodes) > 1 {
		ctx, cancel := context.WithTimeout(ctx, collectTimeout)
		defer cancel()
		err := l.c.Exchange.Want(ctx, topicPrefix+name)
		details, detailsErr := l.c.Exchange.Details(ctx, topicPrefix+name, s.others)
		switch {
		case detailsErr != nil:
			one.problem = join(one.problem, "store unavailable: the keys are those of this node only")
		case err != nil:
			one.problem = join(one.problem, "keys of this node only: "+err.Error())
		}
		for _, data := range details {
			if part, err := keystats.Decode(data); err == nil {
				parts = append(parts, part)
				one.nodes++
			}
		}
	}
	var err error
	if one.value, err = keystats.Merge(parts...); err != nil {
		one.value, one.nodes = parts[0], 1
		one.problem = join(one.problem, "keys of this node only: "+err.Error())
	}
}

// A keyRow is one key.
type keyRow struct {
	ID    string   `json:"id"`
	Key   []string `json:"key,omitempty"` // only for the role operate
	Whole bool     `json:"whole"`         // Key is the whole key
	Count uint64   `json:"count"`
	Error uint64   `json:"error"`
}

// keyList is the response of /v1/policies/{name}/keys. The true number of a key is from
// count-error to count; a key that is not listed has at most bound requests.
type keyList struct {
	Policy      string   `json:"policy"`
	Window      float64  `json:"window_s"`
	Coverage    float64  `json:"coverage"`
	Bound       uint64   `json:"bound"`
	DeniedBound uint64   `json:"denied_bound"`
	Requests    []keyRow `json:"requests"`
	Denied      []keyRow `json:"denied"`
	sources
}

// keys returns the keys of a policy with the most requests and denials.
func (l *Live) keys(ctx context.Context, name string, n int, operate bool) *keyList {
	value, from := l.sample(ctx, name)
	out := &keyList{Policy: name, Requests: []keyRow{}, Denied: []keyRow{}, sources: from}
	p := l.c.Policies().Policy(name)
	if value == nil || p == nil {
		return out
	}
	k := value.Keys(p, n)
	out.Window, out.Coverage, out.Bound, out.DeniedBound = k.Window.Seconds(), share(k.Coverage), k.Bound, k.DeniedBound
	rows := func(all []keystats.KeyCount) []keyRow {
		list := []keyRow{}
		for _, c := range all {
			row := keyRow{ID: l.c.Names.FromHash(c.ID), Whole: c.Whole, Count: c.Count, Error: c.Error}
			if operate {
				row.Key = c.Values
			}
			list = append(list, row)
		}
		return list
	}
	out.Requests, out.Denied = rows(k.Requests), rows(k.Denied)
	return out
}

// Key returns the key of a policy, as policy.Charge.Key, with an ID of Config.Names. ok is
// false if it is not among the keys with the most requests or denials.
func (l *Live) Key(ctx context.Context, name, id string) (key string, ok bool) {
	if value, _ := l.sample(ctx, name); value != nil {
		return value.Key(func(hash string) bool { return l.c.Names.FromHash(hash) == id })
	}
	return "", false
}

// History returns the requests and denials of a key, as policy.Charge.Key, under a policy in steps of
// keystats.StepSeconds, and the first second in s since the epoch. There are none if the key is
// neither sampled nor among those with most requests or denials.
func (l *Live) History(ctx context.Context, name, key string) (from int64, steps []keystats.Step) {
	if value, _ := l.sample(ctx, name); value != nil {
		from, steps, _ = value.History(l.c.Recorder.Seed(), key)
	}
	return from, steps
}

// Keys serves GET /v1/policies/{name}/keys.
func (l *Live) Keys(w http.ResponseWriter, r *http.Request) {
	name, n := r.PathValue("name"), defaultKeys
	if l.c.Policies().Policy(name) == nil {
		unknownPolicy(w, "name", name)
		return
	}
	if text := r.URL.Query().Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxKeys {
			problem.Invalid("n", text, "a number from 1 to "+strconv.Itoa(maxKeys)).Write(w, http.StatusBadRequest)
			return
		}
	}
	problem.WriteJSON(w, l.keys(r.Context(), name, n, access.ActorOf(r.Context()).Role.Includes(access.Operate)))
}

// threshold is the response of /v1/policies/{name}/threshold. A pair has the bounds of an
// estimate.
type threshold struct {
	Limit  string `json:"limit"`
	Enough bool   `json:"enough"`
	Reason string `json:"reason,omitempty"`
	Now    struct {
		Keys     pair `json:"keys"`
		Requests pair `json:"requests"`
	} `json:"now"`
	Keys          pair    `json:"keys"`
	KeysTotal     pair    `json:"keys_total"`
	Requests      pair    `json:"requests"`
	RequestsTotal uint64  `json:"requests_total"`
	ExactAbove    uint64  `json:"exact_above"`
	Window        float64 `json:"window_s"`
	Coverage      float64 `json:"coverage"`
	Histogram     []bar   `json:"histogram"`
	sources
}

type pair [2]uint64

type bar struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	Keys uint64 `json:"keys"`
}

// Threshold serves GET /v1/policies/{name}/threshold.
func (l *Live) Threshold(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if l.c.Policies().Policy(name) == nil {
		unknownPolicy(w, "name", name)
		return
	}
	const expected = `a limit such as "12/m" or "10/s burst 20"`
	text := r.URL.Query().Get("limit")
	limit, err := weir.ParseLimit(text)
	if err != nil {
		problem.Invalid("limit", text, expected).Write(w, http.StatusBadRequest)
		return
	}
	value, from := l.sample(r.Context(), name)
	out := threshold{Limit: limit.String(), Reason: "no keys recorded yet", Histogram: []bar{}, sources: from}
	if value == nil {
		problem.WriteJSON(w, out)
		return
	}
	t, err := value.Threshold(limit)
	if err != nil {
		problem.Invalid("limit", text, expected+", of requests per period").Write(w, http.StatusBadRequest)
		return
	}
	problem.WriteJSON(w, out.with(t))
}

// with returns o with the values of t.
func (o threshold) with(t *keystats.Threshold) threshold {
	o.Enough, o.Reason = t.Enough, t.Reason
	o.Now.Keys, o.Now.Requests = pairOf(t.NowKeys), pairOf(t.NowRequests)
	o.Keys, o.KeysTotal, o.Requests = pairOf(t.Keys), pairOf(t.KeysTotal), pairOf(t.Requests)
	o.RequestsTotal, o.ExactAbove, o.Window, o.Coverage = t.RequestsTotal, t.ExactAbove, t.Window.Seconds(), share(t.Coverage)
	for _, b := range t.Histogram {
		o.Histogram = append(o.Histogram, bar{b.From, b.To, b.Keys})
	}
	return o
}

func pairOf(r keystats.Range) pair { return pair{r.Low, r.High} }

// share rounds a part of 1 to four digits.
func share(v float64) float64 { return round(v*100) / 100 }
