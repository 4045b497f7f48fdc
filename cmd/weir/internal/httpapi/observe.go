package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
)

// consumes reports whether q is a request that events count. The other verbs look, settle or
// return.
func (q *apiRequest) consumes() bool {
	return q.verb == weir.Take || q.verb == weir.TakeUpTo || q.verb == weir.Reserve
}

// event reports what the store decided in took, or err.
func (a *API) event(r *http.Request, in batch, ds []weir.Decision, err error, took time.Duration) {
	if a.observe == nil || errors.Is(err, weir.ErrInvalid) || errors.Is(err, weir.ErrNoReservation) || errors.Is(err, errKeyReused) {
		return
	}
	if err != nil && r.Context().Err() != nil {
		err = context.Cause(r.Context())
	}
	outcome := enforce.Admitted
	switch {
	case errors.Is(err, weir.ErrOverloaded):
		outcome = enforce.Overloaded
	case err != nil:
		outcome = enforce.FailedClosed
	case in.denied(ds):
		outcome = enforce.Denied
	}
	if err != nil {
		ds = make([]weir.Decision, len(in.rs))
	}
	e := enforce.Event{Outcome: outcome, Err: err, Took: took}
	plain, from := false, 0
	for i, q := range in.items {
		own := ds[from:in.ends[i]]
		from = in.ends[i]
		switch {
		case !q.consumes() || q.fixed == unlimited:
			continue
		case q.policy == "":
			plain = true
			continue
		}
		e.Policy, e.Key, e.Cost, e.Decision = a.policies[q.policy].policy, q.state, q.n, weir.Decision{}
		if err == nil && len(own) > 0 {
			e.Decision = enforce.Combine(own)
		}
		if e.Outcome = outcome; outcome == enforce.Denied && !q.denied() && e.Decision.OK {
			e.Outcome = enforce.Held
		}
		a.observe(e)
		e.Took = 0
	}
	if plain { // one decision, as of one limit
		a.observe(enforce.Event{Outcome: outcome, Err: err, Took: e.Took})
	}
}

// denied reports whether a request of in was denied. ds are the decisions of the store.
func (in batch) denied(ds []weir.Decision) bool {
	for i := range ds {
		if !ds[i].OK {
			return true
		}
	}
	for _, q := range in.items {
		if q.denied() {
			return true
		}
	}
	return false
}
