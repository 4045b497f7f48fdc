package edit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/weirfile"
	"github.com/floodweir/weir/weirfile/published"
)

// A Source keeps the versions of the policies. It is safe for concurrent use.
type Source interface {
	// Current returns the current version, with its text.
	Current(context.Context) (published.Version, error)

	// Get returns a version that is kept, or an error that wraps published.ErrNone. List
	// returns all, the current one first; their Text may be empty.
	Get(ctx context.Context, number int64) (published.Version, error)
	List(context.Context) ([]published.Version, error)

	// Publish makes a valid file the current version. The error is a *published.Conflict
	// if d.After is another one. unsupported is the reason why nginx keeps its policies.
	Publish(ctx context.Context, f *weirfile.File, d published.Draft) (v published.Version, unsupported, err error)

	// Describe says where a version comes from. Scope is "store" if versions reach all
	// nodes, or "process"; Note then says how to reach all.
	Describe(v published.Version) (source, scope, note string)
}

// Config is the configuration of a Handler.
type Config struct {
	Source Source

	// Check reads a file as `weir check` does.
	Check func(text string) (*weirfile.File, error)

	// Audit receives every change and attempt.
	Audit *audit.Log
}

// A Handler has the endpoints as methods. It is safe for concurrent use.
type Handler struct{ c Config }

// New returns a Handler.
func New(c Config) *Handler { return &Handler{c} }

// maxBody is the maximum size of a request: a file in JSON, with escapes.
const maxBody = 2 * published.MaxSize

// maxReason is the maximum length of a reason.
const maxReason = 1000

// failed sends err.
func failed(w http.ResponseWriter, err error) {
	var invalid *problem.FieldError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &invalid):
		invalid.Write(w, http.StatusBadRequest)
	case errors.As(err, &large):
		problem.WriteBodyError(w, err)
	case errors.Is(err, errForm):
		problem.Write(w, problem.Problem{Status: http.StatusUnprocessableEntity, Field: "text", Detail: err.Error()})
	case errors.Is(err, published.ErrNone):
		problem.Write(w, problem.Problem{Status: http.StatusNotFound, Field: "version", Detail: "version not found: GET /v1/versions lists those that are kept"})
	default:
		problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: problem.Shorten(err.Error())})
	}
}

// decode reads a JSON object with known fields.
func decode(w http.ResponseWriter, r *http.Request, v any) error {
	data, err := problem.ReadBody(w, r, maxBody)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var wrong *json.UnmarshalTypeError
	switch err := d.Decode(v); {
	case errors.As(err, &wrong):
		expected := map[reflect.Kind]string{reflect.String: "a string", reflect.Int64: "a whole number", reflect.Struct: "an object"}
		return problem.Invalid(cmp.Or(wrong.Field, "body"), wrong.Value, expected[wrong.Type.Kind()])
	case err != nil:
		return problem.Invalid("body", strings.TrimPrefix(err.Error(), "json: "), "a JSON object with the fields of this path")
	case d.More():
		return problem.Invalid("body", "text after the object", "one JSON object")
	}
	return nil
}

type textResponse struct {
	Version int64  `json:"version"`
	Text    string `json:"text"`
	Source  string `json:"source"`
	Scope   string `json:"scope"`
	Note    string `json:"note,omitempty"`
}

// Text sends the current text and its version.
func (h *Handler) Text(w http.ResponseWriter, r *http.Request) {
	v, err := h.c.Source.Current(r.Context())
	if err != nil {
		failed(w, err)
		return
	}
	res := textResponse{Version: v.Number, Text: v.Text}
	res.Source, res.Scope, res.Note = h.c.Source.Describe(v)
	problem.WriteJSON(w, res)
}

// Draft checks a text and compares it with the current one.
func (h *Handler) Draft(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Text string `json:"text"`
		Base *int64 `json:"base"`
	}
	if err := decode(w, r, &q); err != nil {
		failed(w, err)
		return
	}
	res := struct {
		Valid    bool             `json:"valid"`
		Faults   []Fault          `json:"faults"`
		Notes    []string         `json:"notes,omitempty"` // of a valid file
		Diff     []Change         `json:"diff"`
		Current  int64            `json:"current"` // the version of the difference
		Conflict bool             `json:"conflict"`
		Policies []map[string]any `json:"policies"`
	}{Diff: []Change{}, Policies: forms(q.Text)}
	f, err := h.c.Check(q.Text)
	res.Valid, res.Faults = err == nil, Faults(err)
	if err == nil {
		res.Notes = f.Notes
	}
	v, err := h.c.Source.Current(r.Context())
	if err != nil {
		failed(w, err)
		return
	}
	res.Diff, res.Current, res.Conflict = difference(v.Text, q.Text), v.Number, q.Base != nil && *q.Base != v.Number
	problem.WriteJSON(w, res)
}

// Set changes one policy in a text: it sets or removes a field, or adds or deletes the
// policy. It also sets the limits of a function.
func (h *Handler) Set(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Text   string          `json:"text"`
		Policy string          `json:"policy"`
		Field  string          `json:"field"`
		Action string          `json:"action"` // set if empty, add or delete
		Value  json.RawMessage `json:"value"`

		// Function is the name of a function, instead of Policy. Its limits are set.
		Function string `json:"function"`
	}
	err := decode(w, r, &q)
	var value any
	if err == nil && len(q.Value) > 0 {
		d := json.NewDecoder(bytes.NewReader(q.Value))
		d.UseNumber()
		if err = d.Decode(&value); err == nil {
			value = numbers(value)
		}
	}
	text := q.Text
	if err == nil {
		fields, isMap := value.(map[string]any)
		switch {
		case len(text) > published.MaxSize:
			err = problem.Invalid("text", fmt.Sprint(len(text), " bytes"), fmt.Sprint("at most ", published.MaxSize, " bytes"))
		case q.Function != "" && (q.Policy != "" || q.Field != "limits" || q.Action != "" && q.Action != "set" || value == nil):
			err = problem.Invalid("function", q.Function, "only the limits of a function, with the field limits and a value, and no policy")
		case q.Function != "":
			text, err = setFunction(text, q.Function, value)
		case q.Policy == "":
			err = problem.Invalid("policy", "", "the name of a policy, or function")
		case (q.Action == "" || q.Action == "set") && q.Field == "":
			err = problem.Invalid("field", "", "the name of a field, such as limits")
		case q.Action == "" || q.Action == "set":
			text, err = setField(text, q.Policy, q.Field, value)
		case q.Action == "add" && (isMap || value == nil):
			text, err = addPolicy(text, q.Policy, fields)
		case q.Action == "add":
			err = problem.Invalid("value", string(q.Value), "an object with the fields of the policy")
		case q.Action == "delete":
			text, err = deletePolicy(text, q.Policy)
		default:
			err = problem.Invalid("action", q.Action, "set, add or delete")
		}
	}
	if err != nil {
		failed(w, err)
		return
	}
	problem.WriteJSON(w, map[string]string{"text": text})
}

// numbers turns the numbers of a JSON value into integers, if they are.
func numbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		if n, err := x.Int64(); err == nil {
			return n
		}
		f, _ := x.Float64()
		return f
	case []any:
		for i := range x {
			x[i] = numbers(x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = numbers(x[k])
		}
	}
	return v
}

// Versions lists the versions that are kept.
func (h *Handler) Versions(w http.ResponseWriter, r *http.Request) {
	all, err := h.c.Source.List(r.Context())
	if err != nil {
		failed(w, err)
		return
	}
	list := make([]version, len(all))
	for i, v := range all {
		list[i] = newVersion(v)
		list[i].Text = ""
	}
	problem.WriteJSON(w, map[string]any{"versions": list})
}

type version struct {
	Number int64  `json:"version"`
	At     string `json:"at"`
	By     string `json:"by"`
	Note   string `json:"note"`
	Text   string `json:"text,omitempty"`
}

func newVersion(v published.Version) version {
	return version{v.Number, v.At.UTC().Format("2006-01-02T15:04:05.000Z07:00"), v.By, v.Note, v.Text}
}

// Version sends one version.
func (h *Handler) Version(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.ParseInt(r.PathValue("version"), 10, 64)
	if err != nil || n < 1 {
		failed(w, problem.Invalid("version", r.PathValue("version"), "a version number"))
		return
	}
	v, err := h.c.Source.Get(r.Context(), n)
	if err != nil {
		failed(w, err)
		return
	}
	problem.WriteJSON(w, newVersion(v))
}
