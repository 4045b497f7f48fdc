package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/policy"
)

// MaxBody is the maximum size of a question in bytes.
const MaxBody = 64 << 10

// New returns a handler that explains requests under the policies that current returns.
// It is safe for concurrent use if store and current are.
func New(store weir.Store, current func() *policy.Set) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Question
		var err error
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			q, err = fromQuery(r.URL.RawQuery)
		case http.MethodPost:
			var data []byte
			if data, err = problem.ReadBody(w, r, MaxBody); err != nil {
				problem.WriteBodyError(w, err)
				return
			}
			q, err = parse(data)
		default:
			w.Header().Set("Allow", "GET, HEAD, POST")
			problem.Write(w, problem.Problem{Status: http.StatusMethodNotAllowed, Detail: "want POST with a JSON object, or GET"})
			return
		}
		var a *Answer
		if err == nil {
			a, err = Explain(r.Context(), store, current(), q)
		}
		if err != nil {
			var field *problem.FieldError
			if !errors.As(err, &field) {
				field = &problem.FieldError{Field: "request", Expected: err.Error()}
			}
			field.Write(w, http.StatusBadRequest)
			return
		}
		b, err := json.Marshal(a)
		if err != nil { // texts, numbers and bools always marshal
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.Write(append(b, '\n'))
	})
}

const fields = `"method", "url" or "host" and "path", "headers", and "client_ip"`

// parse reads a question in JSON.
func parse(data []byte) (q Question, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err = dec.Decode(&q)
	var e *problem.FieldError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &e):
		return q, err
	case errors.As(err, &kind) && kind.Field != "":
		want := "a text"
		if kind.Field == "headers" {
			want = "an object with names and values"
		}
		return q, problem.Invalid(kind.Field, "a JSON "+kind.Value, want)
	case err != nil:
		return q, invalid("body", string(data), "a JSON object with "+fields+": "+strings.TrimPrefix(err.Error(), "json: "))
	case len(bytes.TrimSpace(data[dec.InputOffset():])) > 0:
		return q, invalid("body", string(data[dec.InputOffset():]), "nothing after the JSON object")
	}
	return q, nil
}

// fromQuery reads a question from URL parameters.
func fromQuery(raw string) (q Question, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, invalid("query", raw, "parameters as in ?url=/search&client_ip=203.0.113.7")
	}
	texts := map[string]*string{"method": &q.Method, "url": &q.URL, "host": &q.Host, "path": &q.Path, "client_ip": &q.ClientIP}
	for name, all := range values {
		switch to := texts[name]; {
		case name == "header":
			if q.Headers, err = ParseHeaders(all); err != nil {
				return q, err
			}
		case to == nil:
			return q, invalid("query", name, "method, url, host, path, client_ip and header")
		case len(all) > 1:
			return q, problem.Invalid(name, strconv.Itoa(len(all))+" of them", "one")
		default:
			*to = all[0]
		}
	}
	return q, nil
}

// ParseHeaders reads header fields, each NAME:VALUE.
func ParseHeaders(fields []string) (map[string]Values, error) {
	h := map[string]Values{}
	for _, f := range fields {
		name, value, ok := strings.Cut(f, ":")
		if !ok || name == "" {
			return nil, invalid("header", f, "NAME: VALUE")
		}
		h[name] = append(h[name], strings.TrimSpace(value))
	}
	return h, nil
}
