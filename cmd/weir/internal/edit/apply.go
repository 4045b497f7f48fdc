package edit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/weirfile/published"
)

// A conflict is the problem document for a base that is not the current version.
type conflict struct {
	problem.Problem
	Current int64  `json:"current"`
	Text    string `json:"text"`
}

// An invalid is the problem document for a file with faults.
type invalid struct {
	problem.Problem
	Faults []Fault `json:"faults"`
}

// writeProblem sends a problem document with further fields.
func writeProblem(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil { // impossible for texts and numbers
		body = []byte("{}")
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}

// A publication is a change of the current version.
type publication struct {
	action string
	text   string
	base   int64
	reason string
	note   string            // of the version
	edge   published.Version // whose options the plan for nginx has
}

// Apply publishes a text.
func (h *Handler) Apply(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Text   string `json:"text"`
		Reason string `json:"reason"`
		Base   *int64 `json:"base"`
	}
	err := decode(w, r, &q)
	if err == nil {
		err = stated(q.Base, q.Reason)
	}
	if err != nil {
		failed(w, err)
		return
	}
	current, err := h.c.Source.Current(r.Context())
	if err != nil {
		failed(w, err)
		return
	}
	h.publish(w, r, publication{"apply", q.Text, *q.Base, q.Reason, q.Reason, current})
}

// Rollback publishes the text of an earlier version again.
func (h *Handler) Rollback(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Version int64  `json:"version"`
		Reason  string `json:"reason"`
		Base    *int64 `json:"base"`
	}
	err := decode(w, r, &q)
	if err == nil {
		err = stated(q.Base, q.Reason)
	}
	var v published.Version
	if err == nil {
		v, err = h.c.Source.Get(r.Context(), q.Version)
	}
	if err != nil {
		failed(w, err)
		return
	}
	h.publish(w, r, publication{"rollback", v.Text, *q.Base, q.Reason, fmt.Sprintf("back to version %d: %s", q.Version, q.Reason), v})
}

// stated checks the fields that every change has.
func stated(base *int64, reason string) error {
	switch {
	case base == nil || *base < 0:
		return problem.Invalid("base", "", "the version that the change is based on, from GET /v1/text")
	case strings.TrimSpace(reason) == "" || len(reason) > maxReason:
		return problem.Invalid("reason", reason, fmt.Sprintf("the reason of the change, 1 to %d bytes", maxReason))
	}
	return nil
}

// publish checks and publishes a text, with an entry in the audit log before and after.
func (h *Handler) publish(w http.ResponseWriter, r *http.Request, p publication) {
	f, err := h.c.Check(p.text)
	if err != nil {
		writeProblem(w, http.StatusUnprocessableEntity, invalid{problem.Problem{
			Title: http.StatusText(http.StatusUnprocessableEntity), Status: http.StatusUnprocessableEntity, Field: "text", Detail: "invalid policy file: not published",
		}, Faults(err)})
		return
	}
	// The client may disconnect, but the entry in the audit log is completed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), publishTimeout)
	defer cancel()
	actor := access.ActorOf(ctx)
	entry, _ := h.c.Audit.Append(ctx, audit.Entry{
		Actor: actor.Name, Via: actor.Via, Action: p.action, Reason: p.reason, From: strconv.FormatInt(p.base, 10),
	}) // an error is in the log of the process
	v, unsupported, err := h.c.Source.Publish(ctx, f, published.Draft{Text: p.text, By: actor.Name, Note: p.note, After: &p.base, EdgeOnly: p.edge.EdgeOnly, EdgeLocal: p.edge.EdgeLocal})
	if entry.OK = audit.Yes(); err != nil {
		entry.OK, entry.Error = audit.No(), err.Error()
	} else {
		entry.To = strconv.FormatInt(v.Number, 10)
	}
	_ = h.c.Audit.Finish(ctx, entry)
	var other *published.Conflict
	switch {
	case errors.As(err, &other):
		h.sendConflict(ctx, w, p.base)
	case err != nil:
		failed(w, err)
	default:
		res := struct {
			Version  int64    `json:"version"`
			Scope    string   `json:"scope"`
			Note     string   `json:"note,omitempty"`
			Warnings []string `json:"warnings,omitempty"`
		}{Version: v.Number}
		if _, res.Scope, res.Note = h.c.Source.Describe(v); unsupported != nil {
			for line := range strings.Lines(unsupported.Error()) {
				res.Warnings = append(res.Warnings, "nginx keeps its current policies: "+strings.TrimSuffix(line, "\n"))
			}
		}
		problem.WriteJSON(w, res)
	}
}

// publishTimeout bounds the calls of the store of one change.
const publishTimeout = 5 * time.Second

func (h *Handler) sendConflict(ctx context.Context, w http.ResponseWriter, base int64) {
	v, err := h.c.Source.Current(ctx)
	if err != nil {
		failed(w, err)
		return
	}
	writeProblem(w, http.StatusConflict, conflict{problem.Problem{
		Title: http.StatusText(http.StatusConflict), Status: http.StatusConflict, Field: "base", Value: strconv.FormatInt(base, 10),
		Expected: strconv.FormatInt(v.Number, 10), Detail: fmt.Sprintf("version %d is current: compare the texts and apply again", v.Number),
	}, v.Number, v.Text})
}
