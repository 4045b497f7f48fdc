package httpapi

import (
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/httplimit"
)

// seconds marshals a duration as a number of seconds, rounded up to the microsecond.
type seconds time.Duration

// MarshalJSON implements [json.Marshaler].
func (s seconds) MarshalJSON() ([]byte, error) {
	return s.append(nil), nil
}

// A verdict is one decision in JSON.
type verdict struct {
	OK         bool     `json:"ok"`
	Borrowed   bool     `json:"borrowed,omitempty"`
	Limit      string   `json:"limit"`
	Capacity   *int64   `json:"capacity,omitempty"`
	Granted    int64    `json:"granted"`
	Remaining  *int64   `json:"remaining,omitempty"`
	Debt       int64    `json:"debt,omitempty"`
	RetryAfter *seconds `json:"retry_after,omitempty"`
	Never      bool     `json:"never,omitempty"`
	ResetAfter seconds  `json:"reset_after"`
	Delay      *seconds `json:"delay,omitempty"`
}

// A result is one item of a batch in JSON: the decision that counts and, of several
// limits, each one.
type result struct {
	verdict
	Policy string    `json:"policy,omitempty"`
	Limits []verdict `json:"limits,omitempty"`
}

// A response is the body of a response.
type response struct {
	verdict
	Policy   string        `json:"policy,omitempty"`
	At       string        `json:"at"`
	Degraded weir.FailMode `json:"degraded,omitempty"`
	Replayed bool          `json:"replayed,omitempty"`
	Limits   []verdict     `json:"limits,omitempty"`
	Results  []result      `json:"results,omitempty"` // of /v1/batch
}

func newVerdict(d weir.Decision) verdict {
	capacity := d.Capacity()
	v := verdict{
		OK: d.OK, Borrowed: d.Borrowed, Limit: d.Limit.Brief(), Capacity: &capacity, Granted: d.Granted,
		Remaining: &d.Remaining, Debt: d.Debt, ResetAfter: seconds(d.ResetAfter),
	}
	if d.RetryAfter == weir.Never {
		v.Never = true
	} else {
		retry := seconds(d.RetryAfter)
		v.RetryAfter = &retry
	}
	if d.Delay != 0 {
		delay := seconds(d.Delay)
		v.Delay = &delay
	}
	return v
}

// newVerdicts returns the verdict of each of several decisions.
func newVerdicts(ds []weir.Decision) (vs []verdict) {
	if len(ds) > 1 {
		for _, d := range ds {
			vs = append(vs, newVerdict(d))
		}
	}
	return vs
}

// maxItems is the maximum number of limits in the response fields, because header sizes
// are bounded. If there are more, only the limit that counts is sent.
const maxItems = 8

// fields returns the items of the response fields: each limit under the name of its
// policy, as at the gateway, or under its own text. A batch has one item, the limit that
// counts.
func (in batch) fields(ds []weir.Decision) []httplimit.Item {
	switch {
	case in.fixed():
		return nil
	case in.multiple || len(ds) > maxItems:
		d := enforce.Combine(ds)
		return []httplimit.Item{{Name: d.Limit.Brief(), Decision: d}}
	}
	var items []httplimit.Item
	for i, d := range ds {
		name := in.items[0].policy
		switch {
		case name == "":
			name = d.Limit.Brief()
		case len(ds) > 1:
			name += "/" + strconv.Itoa(i+1)
		}
		items = append(items, httplimit.Item{Name: name, Decision: d})
	}
	return items
}

// decisionsOf returns the decisions of item i.
func (in batch) decisionsOf(i int, ds []weir.Decision) []weir.Decision {
	from := 0
	if i > 0 {
		from = in.ends[i-1]
	}
	return ds[from:in.ends[i]]
}

func (in batch) response(ds []weir.Decision, replayed bool) []byte {
	var a response
	if in.fixed() {
		a = in.fixedResponse(ds)
	} else {
		a = newResponse(ds)
	}
	a.Replayed = replayed
	if !in.multiple {
		a.Policy, a.Limits = in.items[0].policy, newVerdicts(ds)
		return marshal(a)
	}
	for i, q := range in.items {
		if q.fixed != "" {
			a.Results = append(a.Results, result{verdict: q.fixed.verdict(q), Policy: q.policy})
			continue
		}
		of := in.decisionsOf(i, ds)
		a.Results = append(a.Results, result{newVerdict(enforce.Combine(of)), q.policy, newVerdicts(of)})
	}
	return marshal(a)
}

func newResponse(ds []weir.Decision) response {
	counts := enforce.Combine(ds)
	return response{
		verdict:  newVerdict(counts),
		At:       stamp(counts.At),
		Degraded: counts.Degraded,
	}
}

// stamp returns a time as a response has it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// Answer returns the response body for decisions that were made together.
func Answer(policy string, ds []weir.Decision) []byte {
	a := newResponse(ds)
	a.Policy, a.Limits = policy, newVerdicts(ds)
	return marshal(a)
}

func marshal(a response) []byte { return append(a.append(make([]byte, 0, 256)), '\n') }
