package policy

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/fault"
)

// An Adjustment sets other limits for one key of a policy, or blocks it, as an operator decided.
type Adjustment struct {
	Policy string // its name

	// Key has one value for every part of the policy's key, as Override.Key. A value is one
	// value, not a pattern: a '*' stands for itself, and an address is no prefix.
	Key []string

	// Limits replace the limits of the key, or Block denies all of its requests.
	Limits []weir.Limit
	Block  bool

	// Note says who set it and why, for Explain.
	Note string
}

// An adjusted has the adjustment of one key, and what its state may have been under.
type adjusted struct {
	Adjustment
	override *Override      // nil after the adjustment has ended
	former   [][]weir.Limit // limits of ended adjustments, newest first
}

const (
	// maxFormer is the number of ended adjustments of a key that are kept. With the limits of
	// the policy they are fewer than maxPrevious.
	maxFormer = 2
	// maxEnded is the number of keys without an adjustment whose ended ones are kept.
	maxEnded = 10_000
)

// WithAdjustments returns s with all instead of its present adjustments. It shares the policies
// with s. The error wraps an *Error for each adjustment that is invalid in s; the set has the others.
// The last one of a key applies.
//
// An adjustment precedes the limits and the overrides of its key. What the policy matches, its
// exceptions, its Mode and its Percent stay as they are: a policy in shadow mode denies nothing. In
// a zone an adjustment applies to the key in every policy. It does not apply to a candidate, as
// overrides do not. A policy with Tenants, which share one state, permits Block alone.
//
// When an adjustment begins and when it ends, the state of the key is carried over, as for a changed
// policy (see WithPrevious).
func (s *Set) WithAdjustments(all []Adjustment) (*Set, error) {
	t := *s
	t.adjusted = make(map[string]*adjusted, len(all))
	var errs fault.Errors
	for i, a := range all {
		yield(i)
		key, override, err := s.adjust(a)
		if len(err) > 0 {
			errs = append(errs, err...)
			continue
		}
		t.adjusted[key] = &adjusted{Adjustment: a, override: override}
	}
	t.endAdjustments(s)
	if len(errs) > 0 {
		return &t, errs
	}
	return &t, nil
}

// AdjustedAs returns s with the adjustments of o, which has the same keys.
func (s *Set) AdjustedAs(o *Set) *Set {
	if len(s.adjusted)+len(o.adjusted) == 0 {
		return s
	}
	t := *s
	t.adjusted = o.adjusted
	return &t
}

// CheckAdjustment returns the errors for which WithAdjustments refuses a. They wrap an *Error each.
func (s *Set) CheckAdjustment(a Adjustment) error {
	if _, _, errs := s.adjust(a); len(errs) > 0 {
		return errs
	}
	return nil
}

// Adjusted returns the adjustment of a key, such as Charge.Key.
func (s *Set) Adjusted(key string) (a Adjustment, ok bool) {
	if found := s.adjusted[key]; found != nil && found.override != nil {
		return found.Adjustment, true
	}
	return a, false
}

// Blocks reports whether a policy, an override or an adjustment blocks requests.
func (s *Set) Blocks() bool {
	for _, p := range s.policies {
		if p.config.Blocks() {
			return true
		}
	}
	for _, a := range s.adjusted {
		if a.override != nil && a.override.Block {
			return true
		}
	}
	return false
}

// adjust compiles an adjustment, and returns its key.
func (s *Set) adjust(a Adjustment) (key string, o *Override, errs fault.Errors) {
	f := &faults{Policy: a.Policy}
	m := s.named(f, a.Policy)
	if m == nil {
		return "", nil, f.Errs
	}
	whole := m.exactKey(f, a.Key)
	checkFixed(f, "", a.Limits, a.Block, false)
	before := len(f.Errs)
	m.compileLimits(f, "limits", a.Limits)
	if i := slices.IndexFunc(a.Limits, isConcurrency); i >= 0 && len(f.Errs) == before && !m.config.permitsSlots() {
		f.Add("limits["+strconv.Itoa(i)+"]", fault.Quote(a.Limits[i].String()), "want no concurrency limit: the policy counts by the result or by usage")
	}
	if m.tenants != nil && len(a.Limits) > 0 {
		f.Add("limits", "", "want block: the tenants of the policy share one state")
	}
	if len(f.Errs) > 0 {
		return "", nil, f.Errs
	}
	o = &Override{Key: a.Key, Block: a.Block}
	if len(a.Limits) > 0 {
		o.Limits = named(a.Limits, m.config.Carry)
	}
	return m.key(whole), o, nil
}

// named returns the policy with a name, or nil with an error in f.
func (s *Set) named(f *faults, name string) *member {
	m := s.byName[name]
	if m == nil || strings.HasSuffix(name, candidateSuffix) {
		f.Add("policy", fault.Quote(name), "want the name of a policy")
		return nil
	}
	return m
}

// permitsSlots reports whether limits of c may be concurrency limits (see checkCount).
func (c *Config) permitsSlots() bool {
	return c.Count == CountAdmitted && c.Settle.Expr == nil && c.Settle.Header == "" && c.Settle.JSON == "" && c.Settle.Meter == nil
}

// exactKey returns the key of m with values, of any length.
func (m *member) exactKey(f *faults, values []string) []byte {
	if len(values) != len(m.parts) {
		f.Add("key", count(len(values), "value"), "want %d, one for every part of the policy's key: %s", len(m.parts), fault.Printable(keyText(m.Policy)))
		return nil
	}
	whole := []byte(m.bucket)
	for i := range m.parts {
		value, want := m.parts[i].exact(m.Policy, values[i])
		if want != "" {
			f.Add("key["+strconv.Itoa(i)+"]", fault.Quote(values[i]), "%s", want)
		}
		whole = appendValue(whole, value)
	}
	return whole
}

// exact returns a value of a key as requests have it, or the accepted values.
func (k *part) exact(p *Policy, text string) (value, want string) {
	switch k.Source {
	case Method:
		if text == "*" {
			return text, "" // the methods that are one
		}
	case Header, Query, Cookie, Claim, Form, JSON, CEL:
		return k.text(text)
	}
	f, want := k.override(p, text)
	value, ok := f.Value()
	if want == "" && !ok {
		want = "want one value, no prefix and no pattern"
	}
	return value, want
}

// endAdjustments keeps the limits of the adjustments of old that have changed or ended in s, for
// the states that they leave.
func (s *Set) endAdjustments(old *Set) {
	ended := 0
	for key, was := range old.adjusted {
		m, now := s.byName[was.Policy], s.adjusted[key]
		if m == nil || m.config.Carry == weir.CarryReset || !m.follows(old.byName[was.Policy]) {
			continue
		}
		former := was.former
		if was.override != nil && len(was.override.Limits) > 0 &&
			(now == nil || now.override == nil || !slices.EqualFunc(now.override.Limits, was.override.Limits, sameState)) {
			former = slices.Concat([][]weir.Limit{was.override.Limits}, former)
			former = former[:min(len(former), maxFormer)]
		}
		if now != nil {
			now.former = former
		} else if len(former) > 0 && !m.hasStates(key, former) && ended < maxEnded {
			ended++
			s.adjusted[key] = &adjusted{Adjustment: Adjustment{Policy: was.Policy}, former: former}
		}
	}
}

// hasStates reports whether the policy has the states of all limits in lists itself, so that no state
// is left under another name.
func (m *member) hasStates(key string, lists [][]weir.Limit) bool {
	limits := m.config.Limits
	if i, ok := m.overrides[key]; ok && m.tenants == nil {
		limits = m.config.Overrides[i].Limits
	} else if len(m.wildcards) > 0 {
		return false // unknown without a request
	}
	return !slices.ContainsFunc(lists, func(l []weir.Limit) bool {
		return slices.ContainsFunc(l, func(l weir.Limit) bool { return !has(limits, l) })
	})
}

// fromAdjusted is history.from for a key with an adjustment, or with ended ones.
func (m *member) fromAdjusted(a *adjusted, limits []weir.Limit, key string, parts []byte, s *source) [][]weir.Limit {
	if m.config.Carry == weir.CarryReset {
		return nil
	}
	lists := slices.Clone(a.former)
	if a.override != nil {
		l, _ := m.limits(key, parts, s)
		lists = append(lists, l)
	}
	for _, p := range m.previous {
		l, _ := p.limits(key, parts, s)
		lists = append(lists, l)
	}
	lists = lists[:min(len(lists), maxPrevious)]
	return chains(limits, func(i int) []weir.Limit { return lists[i] }, len(lists))
}

// MatchKey is Match for the requests that have a key of one policy, at the policy's Cost. Values are those
// of Adjustment.Key. If the policy does not limit the key, there is no Charge. An error wraps
// an *Error for each invalid field.
func (s *Set) MatchKey(q *Matches, policy string, values []string) error {
	q.Requests, q.Charges = q.Requests[:0], q.Charges[:0]
	m, src, err := s.keySource(q, policy, values)
	if err != nil {
		return err
	}
	now := q.begin()
	q.charge(m, &src, &now, Charge{Policy: m.Policy, Key: m.key(q.key), Cost: m.config.Cost})
	q.end(now)
	return nil
}

// MatchStates fills q.Requests with a Reset of every state that a key of one policy, and of its
// candidate, has or may have under a former limit. Errors are those of MatchKey.
func (s *Set) MatchStates(q *Matches, policy string, values []string) error {
	q.Requests, q.Charges = q.Requests[:0], q.Charges[:0]
	m, src, err := s.keySource(q, policy, values)
	if err != nil {
		return err
	}
	parts := slices.Clone(q.key[len(m.bucket):])
	for ; m != nil; m = m.candidate {
		key := m.key(append([]byte(m.bucket), parts...))
		limits, _ := m.limits(key, parts, &src)
		lists := [][]weir.Limit{limits}
		if a := s.adjusted[key]; a != nil {
			if lists = append(lists, a.former...); a.override != nil {
				lists = append(lists, a.override.Limits)
			}
		}
		for _, p := range m.previous {
			limits, _ = p.limits(key, parts, &src)
			lists = append(lists, limits)
		}
		var seen []weir.Limit
		for _, l := range slices.Concat(lists...) {
			if !has(seen, l) {
				seen = append(seen, l)
				q.Requests = append(q.Requests, weir.Request{Verb: weir.Reset, Key: key, Limit: l})
			}
		}
	}
	return nil
}

// StateKey returns the key of a policy with values, such as Charge.Key. Errors are those of MatchKey.
func (s *Set) StateKey(policy string, values []string) (string, error) {
	var q Matches
	m, _, err := s.keySource(&q, policy, values)
	if err != nil {
		return "", err
	}
	return m.key(q.key), nil
}

// keySource returns the policy with a name, and a request with a key of it. It writes the key into
// q.key.
func (s *Set) keySource(q *Matches, policy string, values []string) (m *member, src source, err error) {
	f := &faults{Policy: policy}
	if m = s.named(f, policy); m == nil {
		return nil, src, f.Errs
	}
	whole := m.exactKey(f, values)
	if len(f.Errs) > 0 {
		return nil, src, f.Errs
	}
	src = source{a: keyOnly{}, seen: &q.seen, adjusted: s.adjusted}
	if i := slices.IndexFunc(m.parts, func(k part) bool { return k.Source == ClientIP }); i >= 0 {
		prefix, _, _ := strings.Cut(values[i], "/")
		ip, _ := netip.ParseAddr(prefix) // no error: exactKey accepted it
		src.a = keyOnly{ip: ip}
	}
	q.key = append(q.key[:0], whole...)
	return m, src, nil
}

// keyOnly has the attribute of a request that overrides are compared with, besides its key.
type keyOnly struct {
	Attributes
	ip netip.Addr
}

// ClientIP implements Attributes.
func (k keyOnly) ClientIP() netip.Addr { return k.ip }
