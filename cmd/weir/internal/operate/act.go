package operate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/adjustment"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/edge"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/policy"
)

// Actions are the actions of POST /v1/key/{action}.
var Actions = [...]string{"credit", "reset", "raise", "freeze", "block", "lift"}

// An outcome is the response of an action.
type outcome struct {
	Before status      `json:"before"`
	After  status      `json:"after"`
	Audit  audit.Entry `json:"audit"`
	Notes  []string    `json:"notes,omitempty"` // what the operator may not expect

	// NotAppliedBy are the connected programs that do not apply the adjustment.
	NotAppliedBy []string `json:"not_applied_by,omitempty"`
}

// Act serves POST /v1/key/{action}.
func (o *Operator) Act(w http.ResponseWriter, r *http.Request) {
	action := r.PathValue("action")
	if !slices.Contains(Actions[:], action) {
		problem.Invalid("action", quote(action), "credit, reset, raise, freeze, block or lift").Write(w, http.StatusNotFound)
		return
	}
	var c command
	if !read(w, r, &c) {
		return
	}
	ctx := r.Context()
	set := o.c.Policies()
	a, f := c.check(action, time.Now())
	var keys []key
	switch k, adjusted := o.adjusted(c.question); {
	case f != nil:
	case action == "lift" && adjusted: // also if its policy was removed
		keys = []key{k}
	default:
		keys, f = o.find(ctx, set, c.question)
	}
	if f != nil {
		f.Write(w, http.StatusBadRequest)
		return
	}
	k := keys[0]
	actor := access.ActorOf(ctx)
	a.Key, a.StateKey, a.By = k.values, k.state, actor.Name
	e := audit.Entry{Actor: actor.Name, Via: actor.Via, Action: action, Policy: k.policy, Key: k.values, KeyID: policy.KeyID(k.state), Reason: c.Reason}
	var out outcome
	var err, unsupported error // by nginx
	if action == "raise" {
		a.Nginx, unsupported = forNginx(set, a)
	}
	if out.Before, err = o.status(ctx, set, k, true); err == nil {
		switch action {
		case "credit", "reset":
			out.Audit, err = o.changeState(ctx, set, k, e, c.Tokens)
		default:
			out.Audit, err = o.adjust(ctx, set, action, a, e)
		}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	set = o.c.Policies()
	if out.After, err = o.status(ctx, set, k, true); err != nil {
		writeError(w, err)
		return
	}
	out.Audit = o.c.Audit.Shown(out.Audit, true)
	out.Notes = notes(action, &out.After)
	if o.c.NotAdjusting != nil && action != "credit" && action != "reset" {
		out.NotAppliedBy = o.c.NotAdjusting(ctx, unsupported != nil)
	}
	problem.WriteJSON(w, out)
}

// forNginx returns the limits of a raise for nginx. An error says why nginx does not apply them. An
// invalid raise has none.
func forNginx(set *policy.Set, a adjustment.Adjustment) (text string, unsupported error) {
	p, err := a.ForSet()
	if err != nil {
		return "", nil
	}
	var q policy.Matches
	if set, err = set.WithAdjustments([]policy.Adjustment{p}); err == nil {
		err = set.MatchKey(&q, a.Policy, a.Key)
	}
	if err != nil || len(q.Charges) == 0 {
		return "", nil
	}
	var limits []weir.Limit
	for _, r := range q.Requests[q.Charges[0].From:q.Charges[0].To] {
		limits = append(limits, r.Limit)
	}
	return edge.CompileAdjusted(limits)
}

// adjusted returns the adjusted key that q names.
func (o *Operator) adjusted(q question) (key, bool) {
	for _, a := range o.c.Adjustments.Current() {
		if a.Policy == q.Policy && (len(q.Key) == 0 && q.ID == o.c.Names.ID(a.StateKey) || slices.Equal(a.Key, q.Key) && q.ID == "") {
			return key{a.Policy, a.Key, a.StateKey}, true
		}
	}
	return key{}, false
}

// notes returns why an adjustment may not do what the operator expects.
func notes(action string, s *status) (all []string) {
	if action == "lift" || s.Enforced {
		return nil
	}
	switch s.Mode {
	case string(policy.Off):
		return []string{"the policy is off: it denies nothing"}
	case string(policy.Shadow):
		return []string{"the policy is in shadow mode: it denies nothing"}
	}
	return []string{"the key is not among the enforced percentage of the policy"}
}

// writeError sends the problem document of an action that was not done.
func writeError(w http.ResponseWriter, err error) {
	var e *policy.Error
	var f *problem.FieldError
	switch {
	case errors.As(err, &f):
		f.Write(w, http.StatusBadRequest)
	case errors.As(err, &e):
		invalid(err).Write(w, http.StatusBadRequest)
	case errors.Is(err, adjustment.ErrNone):
		problem.Invalid("key", "an unadjusted key", "a key that is raised, frozen or blocked").Write(w, http.StatusConflict)
	case errors.Is(err, adjustment.ErrDenied):
		problem.Invalid("key", "a frozen or blocked key", "one that is not frozen or blocked: lift it first").Write(w, http.StatusConflict)
	case errors.Is(err, adjustment.ErrFull):
		problem.Invalid("key", fmt.Sprintf("adjustment %d", adjustment.Max+1), fmt.Sprintf("at most %d adjusted keys: lift some", adjustment.Max)).Write(w, http.StatusConflict)
	default:
		problem.Write(w, problem.Problem{Status: http.StatusServiceUnavailable, Detail: "not done, or not known: " + err.Error()})
	}
}

// adjust sets or lifts an adjustment.
func (o *Operator) adjust(ctx context.Context, set *policy.Set, action string, a adjustment.Adjustment, e audit.Entry) (audit.Entry, error) {
	if before, ok := o.c.Adjustments.Get(a.StateKey); ok {
		e.From = before.String()
	}
	if action == "lift" {
		_, e, err := o.c.Adjustments.Lift(ctx, a, e)
		return e, err
	}
	p, err := a.ForSet()
	if err == nil {
		err = set.CheckAdjustment(p)
	}
	if err != nil {
		return e, err
	}
	e.To = a.String()
	_, e, err = o.c.Adjustments.Set(ctx, a, e)
	return e, err
}

// changeState grants credit, or resets the key if tokens is nil.
func (o *Operator) changeState(ctx context.Context, set *policy.Set, k key, e audit.Entry, tokens *int64) (audit.Entry, error) {
	rs, err := stateRequests(set, k, tokens)
	if err != nil {
		return e, err
	}
	if tokens != nil {
		e.To = fmt.Sprintf("%d tokens", *tokens)
	}
	if e, err = o.c.Audit.Append(ctx, e); err != nil {
		return e, err
	}
	ctx = context.WithoutCancel(ctx) // the result belongs to the intent
	work, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for len(rs) > 0 && err == nil {
		n := min(len(rs), bounds.MaxBatch)
		_, err = o.c.Store.DoAll(work, rs[:n], make([]weir.Decision, n))
		rs = rs[n:]
	}
	e.OK = audit.Yes()
	if err != nil {
		e.OK, e.Error = audit.No(), err.Error()
	}
	return e, errors.Join(err, o.c.Audit.Finish(ctx, e))
}

// stateRequests returns the requests that grant credit to a key, or that reset it.
func stateRequests(set *policy.Set, k key, tokens *int64) ([]weir.Request, error) {
	if c := set.Policy(k.policy).Config(); len(c.Tenants) > 0 {
		return nil, problem.Invalid("policy", quote(k.policy), "a policy without tenants: its keys share one state")
	}
	var q policy.Matches
	if tokens == nil {
		err := set.MatchStates(&q, k.policy, k.values)
		return q.Requests, err
	}
	if err := set.MatchKey(&q, k.policy, k.values); err != nil {
		return nil, err
	}
	var rs []weir.Request
	for _, r := range q.Requests {
		if r.Key == k.state && !r.Limit.IsConcurrency() { // slots are given back by their holders
			r.Verb, r.N = weir.Return, *tokens
			rs = append(rs, r)
		}
	}
	if len(rs) == 0 {
		return nil, problem.Invalid("key", quote(fmt.Sprint(k.values)), "a key with a rate limit: it has no tokens to give back")
	}
	return rs, nil
}
