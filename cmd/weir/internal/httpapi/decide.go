package httpapi

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/internal/bounds"
)

// MaxBody is the maximum size of a request body in bytes.
const MaxBody = 1 << 20

// verb returns the handler of one verb.
func (a *API) verb(v weir.Verb) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, err := problem.ReadBody(w, r, MaxBody)
		if err != nil {
			problem.WriteBodyError(w, err)
			return
		}
		q, err := parse(v, data, a.limits)
		if err != nil {
			writeInvalid(w, err)
			return
		}
		rs, err := a.requests(q)
		if err != nil {
			writeInvalid(w, err)
			return
		}
		a.decide(w, r, batch{items: []*apiRequest{q}, rs: rs, ends: []int{len(rs)}})
	}
}

// batch handles /v1/batch: several requests that are decided together.
func (a *API) batch(w http.ResponseWriter, r *http.Request) {
	data, err := problem.ReadBody(w, r, MaxBody)
	if err != nil {
		problem.WriteBodyError(w, err)
		return
	}
	qs, err := parseBatch(data, a.limits)
	if err != nil {
		writeInvalid(w, err)
		return
	}
	in := batch{items: qs, multiple: true}
	for i, q := range qs {
		rs, err := a.requests(q)
		if err != nil {
			writeInvalid(w, inBatch(i, err))
			return
		}
		if in.rs = append(append(in.rs, rs...), q.fixed.requests(q.verb)...); len(in.rs) > bounds.MaxBatch {
			writeInvalid(w, invalid("requests", []byte("more than "+strconv.Itoa(bounds.MaxBatch)+" limits in total"), "at most "+strconv.Itoa(bounds.MaxBatch)))
			return
		}
		in.ends = append(in.ends, len(in.rs))
	}
	a.decide(w, r, in)
}

// writeInvalid sends the error of an invalid request.
func writeInvalid(w http.ResponseWriter, err error) {
	var f *problem.FieldError
	if !errors.As(err, &f) {
		f = &problem.FieldError{Field: "body", Expected: err.Error()}
	}
	f.Write(w, http.StatusBadRequest)
}

// requests returns the requests to the store for q.
func (a *API) requests(q *apiRequest) ([]weir.Request, error) {
	var rs []weir.Request
	if q.policy == "" {
		for _, l := range q.limits {
			rs = append(rs, weir.Request{Key: q.key[0], Limit: l})
		}
	} else {
		p := a.policies[q.policy]
		if p == nil {
			return nil, invalid("policy", []byte(strconv.Quote(q.policy)), "the name of a configured policy")
		}
		var err error
		if rs, q.state, q.fixed, err = p.requests(q.key, a.adjusted.Load()); err != nil {
			return nil, err
		}
		if !q.hasN {
			q.n = p.cost
		}
	}
	for i := range rs {
		rs[i].Verb, rs[i].ID, rs[i].TTL, rs[i].At = q.verb, q.id, q.ttl, q.at
		if rs[i].N = q.n; q.verb == weir.Reset || q.verb == weir.Cancel {
			rs[i].N = 0
		}
	}
	return rs, nil
}

// A batch holds API requests that are decided together: rs[ends[i-1]:ends[i]] are the
// requests to the store of items[i].
type batch struct {
	items    []*apiRequest
	rs       []weir.Request
	ends     []int
	multiple bool
}

// decide sends the requests to the store and writes the response.
func (a *API) decide(w http.ResponseWriter, r *http.Request, in batch) {
	key, err := in.idempotencyKey(r)
	if err != nil {
		writeInvalid(w, err)
		return
	}
	ds := make([]weir.Decision, len(in.rs))
	replayed, begin := false, time.Now()
	switch {
	case in.unreserved():
		err = weir.ErrNoReservation
	case len(in.rs) == 0:
	case key != "":
		replayed, err = a.decideOnce(r.Context(), key, in, ds)
	case len(in.rs) == 1:
		ds[0], err = a.store.Do(r.Context(), in.rs[0])
	default:
		_, err = a.store.DoAll(r.Context(), in.rs, ds)
	}
	if !replayed {
		a.event(r, in, ds, err, time.Since(begin))
	}
	if err != nil {
		a.writeError(w, r, in, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if replayed {
		h.Set("Idempotency-Replayed", "true")
	}
	a.fields.Set(h, in.fields(ds)...)
	w.Write(in.response(ds, replayed))
}

// writeError sends the error of a request that the store did not decide.
func (a *API) writeError(w http.ResponseWriter, r *http.Request, in batch, err error) {
	switch {
	case errors.Is(err, errKeyReused):
		problem.Write(w, problem.Problem{Status: http.StatusUnprocessableEntity, Detail: err.Error(),
			Field: idempotencyHeader, Value: "a key used with another request", Expected: "a new key for each request"})
	case errors.Is(err, weir.ErrNoReservation):
		problem.Write(w, problem.Problem{Status: http.StatusConflict,
			Detail: "reservation not found: it was never made, or it has expired and its tokens were returned"})
	case errors.Is(err, weir.ErrInvalid):
		problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: err.Error()})
	default:
		now, last := time.Now().Unix(), a.lastLogged.Load()
		// A client that disconnected is not an error of the store.
		if r.Context().Err() == nil && now != last && a.lastLogged.CompareAndSwap(last, now) {
			verb := in.items[0].verb.String()
			if in.multiple {
				verb = "batch"
			}
			a.log.LogAttrs(r.Context(), slog.LevelError, "no decision", slog.String("verb", verb), slog.Any("error", err))
		}
		detail := "store unavailable: no decision"
		if errors.Is(err, weir.ErrOverloaded) {
			detail = "overloaded: no decision"
		}
		problem.SetRetryAfter(w.Header(), enforce.RetryAfter(err))
		problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: detail})
	}
}
