package explain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/memstore"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/published"
)

const (
	// MaxBody is the maximum size of a question without a draft in bytes, and maxDrafted that of
	// one with a draft.
	MaxBody    = 64 << 10
	maxDrafted = MaxBody + 2*published.MaxSize // with the escapes of JSON
)

// A Config configures New. Store and Policies are required.
type Config struct {
	// Store decides. It is safe for concurrent use, as are the functions.
	Store weir.Store

	// Shares returns how limits are divided; nil if they are not.
	Shares Division

	// Quota has the limits of Envoy's quota service; nil if there is none.
	Quota Quota

	// Region returns how a region divides limits; nil without regions.
	Region RegionOf

	// Policies returns the policies in force.
	Policies func() *policy.Set

	// Draft returns the policies of a file as they would be in force next. If it is nil, no drafts
	// are explained. Only the role operate may send one.
	Draft func(text string) (*policy.Set, error)
}

// New returns a handler that explains requests. It is safe for concurrent use. The role read gets the
// decisions of unused keys: it does not see the state of a key that it names.
func New(c Config) http.Handler {
	unused := sync.OnceValues(func() (weir.Store, error) { return memstore.New(memstore.Config{MaxKeys: 1}) }) // a peek writes nothing
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q Question
		var err error
		operates := access.ActorOf(r.Context()).Role.Includes(access.Operate)
		switch r.Method {
		case http.MethodGet, http.MethodHead:
			q, err = fromQuery(r.URL.RawQuery)
		case http.MethodPost:
			var data []byte
			most := int64(MaxBody)
			drafts := c.Draft != nil && operates
			if drafts {
				most = maxDrafted
			}
			if data, err = problem.ReadBody(w, r, most); err != nil {
				problem.WriteBodyError(w, err)
				return
			}
			if q, err = parse(data); err == nil && q.Draft != "" && !drafts {
				problem.Write(w, problem.Problem{Status: http.StatusForbidden, Field: "draft", Detail: "want the role operate for a draft"})
				return
			}
		default:
			w.Header().Set("Allow", "GET, HEAD, POST")
			problem.Write(w, problem.Problem{Status: http.StatusMethodNotAllowed, Detail: "want POST with a JSON object, or GET"})
			return
		}
		var a *Answer
		switch {
		case err != nil:
		case q.Domain != "" || q.Bucket != nil:
			a, err = c.explainBucket(r.Context(), q, operates)
		case operates:
			a, err = c.explain(r.Context(), q)
		default:
			var store weir.Store
			if store, err = unused(); err == nil {
				a, err = c.explainUnused(r.Context(), store, q)
			}
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

// explain answers q under the policies in force, and under its draft if it has one.
func (c *Config) explain(ctx context.Context, q Question) (*Answer, error) {
	a, err := explain(ctx, c.Store, c.Shares, c.Region, c.Policies(), q)
	if err != nil || q.Draft == "" {
		return a, err
	}
	set, err := c.Draft(q.Draft)
	if err != nil {
		return nil, problem.Invalid("draft", "", "a valid policy file: "+problem.Shorten(err.Error()))
	}
	a.Draft, err = Explain(ctx, c.Store, DivisionOf(set), set, q)
	return a, err
}

// explainUnused answers q as if no key had been used or adjusted.
func (c *Config) explainUnused(ctx context.Context, store weir.Store, q Question) (*Answer, error) {
	set, err := c.Policies().WithAdjustments(nil)
	if err != nil { // impossible: there are none
		return nil, err
	}
	a, err := Explain(ctx, store, nil, set, q)
	if a != nil {
		a.Unused = true
	}
	return a, err
}

const fields = `"method", "url" or "host" and "path", "headers", "client_ip", and "draft", or "domain" and "bucket"`

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
		if kind.Field == "headers" || kind.Field == "bucket" {
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
	texts := map[string]*string{"method": &q.Method, "url": &q.URL, "host": &q.Host, "path": &q.Path, "client_ip": &q.ClientIP, "domain": &q.Domain}
	for name, all := range values {
		switch to := texts[name]; {
		case name == "header":
			if q.Headers, err = ParseHeaders(all); err != nil {
				return q, err
			}
		case name == "bucket":
			if q.Bucket, err = ParsePairs(all); err != nil {
				return q, err
			}
		case to == nil:
			return q, invalid("query", name, "method, url, host, path, client_ip and header, or domain and bucket")
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
