package operate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/adjustment"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
)

const (
	maxBody   = 64 << 10
	maxReason = 1024
	maxFor    = 366 * 24 * time.Hour
	maxLimits = 16
	maxTokens = 1 << 53 // exact in JSON and Lua
)

// A question names a key.
type question struct {
	Policy string   `json:"policy"`
	Key    []string `json:"key"`
	ID     string   `json:"id"`
}

// A command is the body of an action.
type command struct {
	question
	Reason string   `json:"reason"`
	Tokens *int64   `json:"tokens"` // credit
	Limits []string `json:"limits"` // raise
	Until  string   `json:"until"`  // raise and block
	For    string   `json:"for"`    // instead of until
}

// read reads a JSON object into to, or writes a problem and returns false.
func read(w http.ResponseWriter, r *http.Request, to any) bool {
	data, err := problem.ReadBody(w, r, maxBody)
	if err != nil {
		problem.WriteBodyError(w, err)
		return false
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	err = dec.Decode(to)
	var kind *json.UnmarshalTypeError
	unknown, isUnknown := "", false
	if err != nil {
		unknown, isUnknown = strings.CutPrefix(err.Error(), "json: unknown field ")
	}
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		problem.Invalid(strings.TrimPrefix(kind.Field, "question."), "a JSON "+kind.Value, "a JSON "+jsonKind(kind)).Write(w, http.StatusBadRequest)
	case isUnknown:
		fields := "policy, key or id"
		if _, ok := to.(*command); ok {
			fields = "policy, key, id, reason, tokens, limits, until or for"
		}
		problem.Invalid(problem.Shorten(strings.Trim(unknown, `"`)), unknown, fields).Write(w, http.StatusBadRequest)
	case err != nil:
		problem.Invalid("body", quote(string(data)), "a JSON object: "+strings.TrimPrefix(err.Error(), "json: ")).Write(w, http.StatusBadRequest)
	case len(bytes.TrimSpace(data[dec.InputOffset():])) > 0:
		problem.Invalid("body", quote(string(data[dec.InputOffset():])), "nothing after the JSON object").Write(w, http.StatusBadRequest)
	default:
		return true
	}
	return false
}

// jsonKind returns the kind that a field of a question or a command has.
func jsonKind(e *json.UnmarshalTypeError) string {
	switch e.Type.String() {
	case "int64":
		return "whole number"
	case "[]string":
		return "array of strings"
	}
	return "string"
}

func quote(s string) string {
	if s == "" {
		return ""
	}
	return strconv.Quote(problem.Shorten(s))
}

// invalid returns the first error of package policy as the error of a field.
func invalid(err error) *problem.FieldError {
	var e *policy.Error
	if errors.As(err, &e) {
		return problem.Invalid(e.Field, e.Value, strings.TrimPrefix(e.Want, "want "))
	}
	return problem.Invalid("body", "", err.Error())
}

// unknownPolicy returns the error of an unknown policy.
func unknownPolicy(set *policy.Set, name string) *problem.FieldError {
	var names []string
	for _, p := range set.Policies() {
		names = append(names, p.Name())
	}
	expected := "the name of a policy"
	if near := fault.Meant(name, names); near != "" {
		expected += ", such as " + near
	} else if len(names) > 0 {
		expected += ", such as " + strings.Join(names[:min(len(names), 5)], ", ")
	}
	return problem.Invalid("policy", quote(name), expected)
}

// find returns the keys that q names: one of its policy, or one of each policy that it fits.
func (o *Operator) find(ctx context.Context, set *policy.Set, q question) ([]key, *problem.FieldError) {
	if q.Policy != "" && (set.Policy(q.Policy) == nil || !isPolicy(set, q.Policy)) {
		return nil, unknownPolicy(set, q.Policy)
	}
	switch {
	case len(q.Key) > 0 && q.ID != "":
		return nil, problem.Invalid("id", quote(q.ID), "key or id, not both")
	case len(q.Key) == 0 && q.ID == "":
		return nil, problem.Invalid("key", "", "the values of the key, one for each part of the policy's key, or id")
	case q.ID != "" && q.Policy == "":
		return nil, problem.Invalid("policy", "", "the policy of the id")
	case q.ID != "":
		k, ok := o.resolve(ctx, set, q)
		if !ok {
			return nil, problem.Invalid("id", quote(q.ID), "the id of an adjusted key or of a top key of the policy; otherwise send key")
		}
		return []key{k}, nil
	}
	for i, v := range q.Key {
		if strings.Contains(v, "*") && !isPattern(set, q.Policy, v) {
			return nil, problem.Invalid(fmt.Sprintf("key[%d]", i), quote(v), "one value without *; a key whose value has a * is found by its id")
		}
	}
	if q.Policy != "" {
		k, err := keyOf(set, q.Policy, q.Key)
		if err != nil {
			return nil, invalid(err)
		}
		return []key{k}, nil
	}
	var found []key
	var last error
	for _, p := range set.Policies() {
		k, err := keyOf(set, p.Name(), q.Key)
		if err != nil {
			last = err
			continue
		}
		found = append(found, k)
	}
	if len(found) == 0 {
		expected := "a key that fits a policy; there are no policies"
		if last != nil {
			expected = "a key that fits a policy, such as: " + invalid(last).Expected
		}
		return nil, problem.Invalid("key", quote(strings.Join(q.Key, ", ")), expected)
	}
	return found, nil
}

func isPolicy(set *policy.Set, name string) bool {
	return slices.ContainsFunc(set.Policies(), func(p *policy.Policy) bool { return p.Name() == name })
}

// isPattern reports whether a value with a * is the pattern of a path or a constant of a policy, or
// stands for all unknown methods.
func isPattern(set *policy.Set, name, value string) bool {
	for _, p := range set.Policies() {
		c := p.Config()
		if name != "" && c.Name != name {
			continue
		}
		for _, k := range c.Key {
			switch {
			case k.Source == policy.Path && slices.Contains(c.Match.Paths, value), k.Source == policy.Constant && k.Name == value, k.Source == policy.Method && value == "*":
				return true
			}
		}
	}
	return false
}

// keyOf returns the key of a policy with values.
func keyOf(set *policy.Set, name string, values []string) (key, error) {
	state, err := set.StateKey(name, values)
	return key{name, values, state}, err
}

// resolve returns the key of a policy with an ID.
func (o *Operator) resolve(ctx context.Context, set *policy.Set, q question) (key, bool) {
	bucket := set.Policy(q.Policy).Bucket()
	for _, a := range o.c.Adjustments.Current() {
		if strings.HasPrefix(a.StateKey, bucket+"|") && q.ID == o.c.Names.ID(a.StateKey) {
			return key{q.Policy, a.Key, a.StateKey}, true
		}
	}
	if o.c.Resolve == nil {
		return key{}, false
	}
	state, ok := o.c.Resolve(ctx, q.Policy, q.ID)
	if !ok {
		return key{}, false
	}
	values, ok := policy.KeyValues(state)
	if !ok {
		return key{}, false
	}
	k, err := keyOf(set, q.Policy, values)
	return k, err == nil
}

// check checks the fields of an action, and returns its adjustment.
func (c *command) check(action string, now time.Time) (a adjustment.Adjustment, f *problem.FieldError) {
	has := func(fields ...string) bool { return slices.Contains(fields, action) }
	switch {
	case c.Policy == "":
		return a, problem.Invalid("policy", "", "the name of a policy")
	case strings.TrimSpace(c.Reason) == "":
		return a, problem.Invalid("reason", "", fmt.Sprintf("the reason, 1 to %d bytes", maxReason))
	case len(c.Reason) > maxReason || !utf8.ValidString(c.Reason):
		return a, problem.Invalid("reason", fmt.Sprintf("%d bytes", len(c.Reason)), fmt.Sprintf("1 to %d bytes of UTF-8", maxReason))
	case c.Tokens != nil && !has("credit"):
		return a, problem.Invalid("tokens", strconv.FormatInt(*c.Tokens, 10), "none: only credit has tokens")
	case c.Tokens == nil && has("credit"):
		return a, problem.Invalid("tokens", "", "the tokens to give back, such as 10")
	case has("credit") && (*c.Tokens < 1 || *c.Tokens > maxTokens):
		return a, problem.Invalid("tokens", strconv.FormatInt(*c.Tokens, 10), fmt.Sprintf("1 to %d", int64(maxTokens)))
	case len(c.Limits) > 0 && !has("raise"):
		return a, problem.Invalid("limits", quote(c.Limits[0]), "none: only raise has limits")
	case has("raise") && (len(c.Limits) == 0 || len(c.Limits) > maxLimits):
		return a, problem.Invalid("limits", strconv.Itoa(len(c.Limits))+" limits", fmt.Sprintf("1 to %d limits such as 100/s", maxLimits))
	case c.Until != "" && !has("raise", "block"):
		return a, problem.Invalid("until", quote(c.Until), "none: only raise and block end at a time")
	case c.For != "" && !has("raise", "block"):
		return a, problem.Invalid("for", quote(c.For), "none: only raise and block end at a time")
	}
	a = adjustment.Adjustment{Policy: c.Policy, Key: c.Key, Kind: adjustment.Kind(action), Limits: c.Limits, Reason: c.Reason}
	for i, text := range c.Limits {
		if _, err := weir.ParseLimit(text); err != nil {
			_, want, _ := strings.Cut(err.Error(), weir.ErrInvalid.Error()+": ")
			return a, problem.Invalid(fmt.Sprintf("limits[%d]", i), quote(text), "a limit such as 100/s burst 200: "+want)
		}
	}
	if !has("raise", "block") {
		return a, nil
	}
	switch {
	case (c.Until == "") == (c.For == ""):
		return a, problem.Invalid("until", quote(c.Until), "until or for, one of them, such as \"for\":\"1h\"")
	case c.For != "":
		d, err := time.ParseDuration(c.For)
		if err != nil || d < time.Millisecond || d > maxFor {
			return a, problem.Invalid("for", quote(c.For), "a duration such as 90s, 1h or 24h, at most 8784h (366 days)")
		}
		a.For = d
	default:
		t, err := time.Parse(time.RFC3339, c.Until)
		if err != nil || !t.After(now) || t.Sub(now) > maxFor {
			return a, problem.Invalid("until", quote(c.Until), "a time such as "+now.Add(time.Hour).UTC().Format(time.RFC3339)+", later than now and within 366 days")
		}
		a.Until = t
	}
	return a, nil
}
