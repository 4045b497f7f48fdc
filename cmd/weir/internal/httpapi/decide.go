package httpapi

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/internal/bounds"
)

const (
	// MaxBody is the largest request body in bytes.
	MaxBody = 1 << 20

	// bodyTimeout is how long a request body may take.
	bodyTimeout = 10 * time.Second
)

// verb is the handler of one verb.
func (a *API) verb(v weir.Verb) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, ok := readBody(w, r)
		if !ok {
			return
		}
		q, err := parse(v, data)
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

// batch is the handler of several questions that are decided together.
func (a *API) batch(w http.ResponseWriter, r *http.Request) {
	data, ok := readBody(w, r)
	if !ok {
		return
	}
	qs, err := parseBatch(data)
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
		if in.rs = append(in.rs, rs...); len(in.rs) > bounds.MaxBatch {
			writeInvalid(w, invalid("requests", []byte("more than "+strconv.Itoa(bounds.MaxBatch)+" limits in all"), "at most "+strconv.Itoa(bounds.MaxBatch)))
			return
		}
		in.ends = append(in.ends, len(in.rs))
	}
	a.decide(w, r, in)
}

// readBody reads a request body, or answers why it could not.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	conn := http.NewResponseController(w)
	conn.SetReadDeadline(time.Now().Add(bodyTimeout)) // a connection that cannot have one has its own bound
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	if err == nil {
		conn.SetReadDeadline(time.Time{})
		return data, true
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		problem.Write(w, problem.Problem{Status: http.StatusRequestEntityTooLarge, Detail: "the request body is too large",
			Field: "body", Value: "more than " + strconv.Itoa(MaxBody) + " bytes", Expected: "at most " + strconv.Itoa(MaxBody) + " bytes"})
	} else {
		problem.Write(w, problem.Problem{Status: http.StatusRequestTimeout, Detail: "the request body could not be read"})
	}
	return nil, false
}

// refused answers a question that was not understood.
func writeInvalid(w http.ResponseWriter, err error) {
	var f *fieldError
	if !errors.As(err, &f) {
		f = &fieldError{"body", "", err.Error()}
	}
	problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: f.Error(),
		Field: f.field, Value: f.value, Expected: f.expected})
}

// requests are what the store has to decide together for one question.
func (a *API) requests(q *apiRequest) ([]weir.Request, error) {
	var rs []weir.Request
	if q.policy == "" {
		for _, l := range q.limits {
			rs = append(rs, weir.Request{Key: q.key[0], Limit: l})
		}
	} else {
		p := a.policies[q.policy]
		if p == nil {
			return nil, invalid("policy", []byte(strconv.Quote(q.policy)), "the name of a policy of the configuration")
		}
		var err error
		if rs, err = p.requests(q.key); err != nil {
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

// An inquiry is questions that are decided together: rs[ends[i-1]:ends[i]] are the
// requests of questions[i].
type batch struct {
	items    []*apiRequest
	rs       []weir.Request
	ends     []int
	multiple bool
}

// decide asks the store and answers.
func (a *API) decide(w http.ResponseWriter, r *http.Request, in batch) {
	key, err := in.idempotencyKey(r)
	if err != nil {
		writeInvalid(w, err)
		return
	}
	ds := make([]weir.Decision, len(in.rs))
	replayed := false
	switch {
	case key != "":
		replayed, err = a.decideOnce(r.Context(), key, in, ds)
	case len(in.rs) == 1:
		ds[0], err = a.store.Do(r.Context(), in.rs[0])
	default:
		_, err = a.store.DoAll(r.Context(), in.rs, ds)
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

// undecided answers a question about which no decision was made.
func (a *API) writeError(w http.ResponseWriter, r *http.Request, in batch, err error) {
	switch {
	case errors.Is(err, errKeyReused):
		problem.Write(w, problem.Problem{Status: http.StatusUnprocessableEntity, Detail: err.Error(),
			Field: idempotencyHeader, Value: "a key that another question had", Expected: "a new key for a new question"})
	case errors.Is(err, weir.ErrNoReservation):
		problem.Write(w, problem.Problem{Status: http.StatusConflict,
			Detail: "no such reservation: it was never made, or its time ran out and its tokens went back"})
	case errors.Is(err, weir.ErrInvalid):
		problem.Write(w, problem.Problem{Status: http.StatusBadRequest, Detail: err.Error()})
	default:
		now, last := time.Now().Unix(), a.lastLogged.Load()
		// Or the client left, which is no fault of the store.
		if r.Context().Err() == nil && now != last && a.lastLogged.CompareAndSwap(last, now) {
			verb := in.items[0].verb.String()
			if in.multiple {
				verb = "batch"
			}
			a.log.LogAttrs(r.Context(), slog.LevelError, "no decision", slog.String("verb", verb), slog.Any("error", err))
		}
		w.Header().Set("Retry-After", "1")
		problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "the store could not decide"})
	}
}
