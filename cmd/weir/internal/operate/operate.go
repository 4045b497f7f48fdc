package operate

import (
	"context"
	"net/http"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/cmd/weir/internal/access"
	"github.com/floodweir/weir/cmd/weir/internal/adjustment"
	"github.com/floodweir/weir/cmd/weir/internal/audit"
	"github.com/floodweir/weir/cmd/weir/internal/keyid"
	"github.com/floodweir/weir/cmd/weir/internal/problem"
	"github.com/floodweir/weir/cmd/weir/internal/traffic/keystats"
	"github.com/floodweir/weir/policy"
)

// Config is the configuration of an Operator. Store, Policies, Adjustments, Audit and Names are
// required.
type Config struct {
	// Store decides the requests of the policies.
	Store weir.Store

	// Policies returns the policies in force, with the adjustments.
	Policies func() *policy.Set

	Adjustments *adjustment.Store
	Audit       *audit.Log

	// Names are the IDs of keys.
	Names *keyid.Names

	// Resolve returns the key of a policy, as policy.Charge.Key, with an ID of Names, if it is among the top keys; no key is found by its ID if nil.
	Resolve func(ctx context.Context, policy, id string) (key string, ok bool)

	// NotAdjusting returns the connected programs that do not apply adjustments, with nginx if it
	// does not support the one in question; nil if there are none.
	NotAdjusting func(ctx context.Context, nginx bool) []string

	// History returns the requests and denials of a key in steps of keystats.StepSeconds, and the
	// first second in s since the epoch; no key has a history if nil.
	History func(ctx context.Context, policy, key string) (from int64, steps []keystats.Step)
}

// A moment has the requests of a key in keystats.StepSeconds seconds, and those of them that were
// denied.
type moment struct {
	T        int64  `json:"t"` // the first second, in s since the epoch
	Requests uint64 `json:"requests"`
	Denied   uint64 `json:"denied"`
}

// An Operator serves the endpoints. It is safe for concurrent use.
type Operator struct{ c Config }

// New returns an Operator.
func New(c Config) *Operator { return &Operator{c} }

// timeout bounds one call of the store.
const timeout = 2 * time.Second

// maxPolicies is the largest number of policies in the state of a key.
const maxPolicies = 100

// A status describes a key under one policy.
type status struct {
	Policy     string                 `json:"policy"`
	Mode       string                 `json:"mode"`
	Key        []string               `json:"key,omitempty"`
	ID         string                 `json:"id"`
	Enforced   bool                   `json:"enforced"` // for this key
	Denied     bool                   `json:"denied"`
	Until      *string                `json:"until"`          // of the denial; null if it is not known
	RetryAfter *float64               `json:"retry_after_ms"` // null: never
	States     []state                `json:"states"`
	Adjustment *adjustment.Adjustment `json:"adjustment"`
	History    []moment               `json:"history"`
	Problem    string                 `json:"problem,omitempty"` // why there are no states
}

// A state describes the state of one limit of a key.
type state struct {
	Limit      string   `json:"limit"`
	Capacity   int64    `json:"capacity"`
	Remaining  int64    `json:"remaining"`
	Debt       int64    `json:"debt,omitempty"`
	RetryAfter *float64 `json:"retry_after_ms"` // null: never
	ResetAfter float64  `json:"reset_after_ms"`
	OK         bool     `json:"ok"`
}

// milliseconds returns d as a JSON number, or null for weir.Never.
func milliseconds(d time.Duration) *float64 {
	if d == weir.Never {
		return nil
	}
	ms := float64(d.Microseconds()) / 1000
	if d%time.Microsecond > 0 {
		ms += 0.001 // rounded up, as all waits
	}
	return &ms
}

func stamp(t time.Time) *string {
	text := t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return &text
}

// A key is a key of one policy.
type key struct {
	policy string
	values []string
	state  string // policy.Charge.Key
}

// status reads the state of a key without consuming tokens.
func (o *Operator) status(ctx context.Context, set *policy.Set, k key, plain bool) (status, error) {
	s := status{Policy: k.policy, ID: o.c.Names.ID(k.state), States: []state{}, History: []moment{}, Mode: string(policy.Off)}
	if p := set.Policy(k.policy); p != nil {
		s.Mode = string(p.Config().Mode)
	}
	if plain {
		s.Key = k.values
	}
	if a, ok := o.c.Adjustments.Get(k.state); ok {
		a = o.visible(a, plain)
		s.Adjustment = &a
	}
	if o.c.History != nil {
		from, steps := o.c.History(ctx, k.policy, k.state)
		for i, n := range steps {
			s.History = append(s.History, moment{from + int64(i)*keystats.StepSeconds, n.Requests, n.Denied})
		}
	}
	var q policy.Matches
	if set.Policy(k.policy) == nil {
		return s, nil // it was removed after the key was adjusted
	}
	if err := set.MatchKey(&q, k.policy, k.values); err != nil {
		return s, err
	}
	if len(q.Charges) == 0 || q.Charges[0].Always {
		return s, nil // the policy does not limit it
	}
	c := q.Charges[0]
	off := s.Mode == string(policy.Off)
	s.Enforced = c.Enforced && !off
	if c.Blocked {
		s.Denied = s.Enforced
		if s.Adjustment != nil && !s.Adjustment.Until.IsZero() {
			s.Until = stamp(s.Adjustment.Until)
			s.RetryAfter = milliseconds(max(0, time.Until(s.Adjustment.Until)))
		}
		return s, nil
	}
	rs := q.Requests[c.From:c.To]
	for i := range rs {
		rs[i].Verb = weir.Peek
	}
	ds := make([]weir.Decision, len(rs))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := o.c.Store.DoAll(ctx, rs, ds); err != nil {
		s.Problem = "store unavailable: " + err.Error()
		return s, nil
	}
	var retry time.Duration
	for i, d := range ds {
		s.States = append(s.States, state{Limit: rs[i].Limit.Brief(), Capacity: rs[i].Limit.Capacity(), Remaining: d.Remaining, Debt: d.Debt,
			RetryAfter: milliseconds(d.RetryAfter), ResetAfter: *milliseconds(min(d.ResetAfter, weir.Never-1)), OK: d.OK})
		if !d.OK {
			retry = max(retry, d.RetryAfter)
			s.Denied = s.Enforced
		}
	}
	s.RetryAfter = milliseconds(retry)
	if s.Denied && retry != weir.Never && len(ds) > 0 {
		s.Until = stamp(ds[0].At.Add(retry))
	}
	return s, nil
}

// visible returns a for output: with its ID, and without its key, also in its texts, if plain is not
// set.
func (o *Operator) visible(a adjustment.Adjustment, plain bool) adjustment.Adjustment {
	if a.ID = o.c.Names.ID(a.StateKey); !plain {
		audit.HideKey(a.Key, &a.Reason)
		if a.Key = nil; a.Problem != "" {
			a.Problem = "it does not fit the policies in force" // the error may quote a value
		}
	}
	return a
}

// operates reports whether the actor of r may see keys.
func operates(r *http.Request) bool {
	return access.ActorOf(r.Context()).Role.Includes(access.Operate)
}

// Show serves POST /v1/key: the state of a key under one policy, or under each that it fits. The role
// read names it by its ID only.
func (o *Operator) Show(w http.ResponseWriter, r *http.Request) {
	var q question
	if !read(w, r, &q) {
		return
	}
	if len(q.Key) > 0 && !operates(r) { // the state of a guessed key would say which ID it has
		problem.Write(w, problem.Problem{Status: http.StatusForbidden, Field: "key", Expected: "id", Detail: "the role read asks for a key by its id: see GET /v1/policies/{name}/keys and GET /v1/adjustments"})
		return
	}
	set := o.c.Policies()
	keys, fault := o.find(r.Context(), set, q)
	if fault != nil {
		fault.Write(w, http.StatusBadRequest)
		return
	}
	all := struct {
		Policies []status `json:"policies"`
		More     int      `json:"more,omitempty"` // policies that are left out
	}{Policies: []status{}}
	for i, k := range keys {
		if i == maxPolicies {
			all.More = len(keys) - i
			break
		}
		s, err := o.status(r.Context(), set, k, operates(r))
		if err != nil {
			f := invalid(err)
			if q.ID != "" && !operates(r) { // err may quote the key
				f = problem.Invalid("id", quote(q.ID), "the id of a key that fits the policy in force")
			}
			f.Write(w, http.StatusBadRequest)
			return
		}
		all.Policies = append(all.Policies, s)
	}
	problem.WriteJSON(w, all)
}

// List serves GET /v1/adjustments.
func (o *Operator) List(w http.ResponseWriter, r *http.Request) {
	set, plain := o.c.Policies(), operates(r)
	all := o.c.Adjustments.Current()
	for i := range all {
		p, err := all[i].ForSet()
		if err == nil {
			err = set.CheckAdjustment(p)
		}
		if err != nil {
			all[i].Problem = err.Error()
		}
		all[i] = o.visible(all[i], plain)
	}
	problem.WriteJSON(w, map[string]any{"adjustments": all})
}
