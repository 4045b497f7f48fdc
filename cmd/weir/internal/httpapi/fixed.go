package httpapi

import (
	"slices"
	"time"

	"github.com/floodweir/weir"
)

// A fixed says how a policy without a limit for a key decides: by the text of the policy file,
// which is the "limit" of the response.
type fixed string

const (
	blocked   fixed = "0"
	unlimited fixed = "unlimited"
)

// denies reports whether a request of verb v is denied.
func (f fixed) denies(v weir.Verb) bool {
	switch v {
	case weir.Return, weir.Reset: // there is nothing to return
		return false
	}
	return f == blocked
}

// denied reports whether a policy blocks q.
func (q *apiRequest) denied() bool { return q.fixed.denies(q.verb) }

// verdict returns the decision about q.
func (f fixed) verdict(q *apiRequest) verdict {
	v := verdict{OK: !f.denies(q.verb), Limit: string(f)}
	if f == blocked {
		v.Capacity, v.Remaining = new(int64), new(int64)
	}
	switch q.verb {
	case weir.Take, weir.TakeUpTo, weir.Charge, weir.Reserve, weir.Commit:
		if v.OK {
			v.Granted = q.n
		}
	}
	if v.OK {
		v.RetryAfter = new(seconds)
	} else {
		v.Never = true
	}
	return v
}

// requests returns the requests to the store that a batch has for a request of verb v. If f denies
// it, that is one that is never admitted: the store then charges nothing.
func (f fixed) requests(v weir.Verb) []weir.Request {
	if !f.denies(v) {
		return nil
	}
	return []weir.Request{{Key: "weir:blocked", Limit: weir.MustLimit("1/24h"), N: 2}}
}

// fixedResponse returns the response if a policy without a limit decides. ds are the decisions
// about the other requests.
func (in batch) fixedResponse(ds []weir.Decision) response {
	a := response{At: stamp(time.Now())}
	if len(ds) > 0 {
		a = newResponse(ds)
	}
	by := in.items[max(0, slices.IndexFunc(in.items, (*apiRequest).denied))]
	a.verdict = by.fixed.verdict(by)
	return a
}

// fixed reports whether in has the decision of a policy without a limit: because a request is
// denied by it, or because no request has a limit.
func (in batch) fixed() bool {
	return len(in.rs) == 0 || slices.ContainsFunc(in.items, (*apiRequest).denied)
}

// unreserved reports whether in settles a reservation of a blocked key, which has none.
func (in batch) unreserved() bool {
	return slices.ContainsFunc(in.items, func(q *apiRequest) bool {
		return q.fixed == blocked && (q.verb == weir.Commit || q.verb == weir.Cancel)
	})
}
