package guard

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// A law is a Config that was found to be good. It is immutable.
type law struct {
	c      Config
	mode   policy.Mode
	rules  map[string]*statute
	system *statute // nil if there is none

	// past is a set of the system's policy alone, with what it followed: where the
	// history of a new place begins. It is nil if there never was one.
	past *policy.Set
}

// A statute is a Rule.
type statute struct {
	name   string
	config *policy.Config // nil without limits
	mode   policy.Mode    // in force
	wards  []Protection
	kept   Settings // what wards were made of
}

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("guard: %s: %w: %s", field, weir.ErrInvalid, fmt.Sprintf(format, args...))
}

// newLaw makes a law, which keeps the wards and the history of old, if it is not nil.
func newLaw(c Config, old *law) (*law, error) {
	l := &law{c: c, mode: policy.Enforce, rules: map[string]*statute{}}
	if err := c.Options.Check(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	f := c.Functions
	if f == nil {
		f = &Functions{}
	}
	switch f.Mode {
	case "", policy.Enforce:
	case policy.Shadow, policy.Off:
		l.mode = f.Mode
	default:
		return nil, invalid("functions: mode", "want enforce, shadow or off, got %.40q", f.Mode)
	}
	if old == nil {
		old = &law{}
	}
	for i := range f.Rules {
		s, err := l.newStatute(&f.Rules[i], fmt.Sprintf("functions: rules[%d]", i), old.rules)
		if err != nil {
			return nil, err
		}
		if l.rules[s.name] != nil {
			return nil, invalid(fmt.Sprintf("functions: rules[%d]", i), "want every name once, got %q again", s.name)
		}
		l.rules[s.name] = s
	}
	if f.System != nil {
		var err error
		if l.system, err = l.newStatute(f.System, "functions: system", map[string]*statute{systemName: old.system}); err != nil {
			return nil, err
		}
	}
	var err error
	l.past, err = l.join(l.system, nil, old.past)
	return l, err
}

// newStatute makes a statute, with the wards that the one of its name in old has, if
// what they were made of is the same.
func (l *law) newStatute(r *Rule, field string, old map[string]*statute) (*statute, error) {
	s := &statute{name: r.Name, mode: l.mode, kept: r.Settings}
	system := field == "functions: system"
	if system {
		s.name = systemName
	}
	if r.Policy != nil {
		if s.name != "" && s.name != r.Policy.Name() {
			return nil, invalid(field, "want one name, got %.80q and a policy %q", s.name, r.Policy.Name())
		}
		s.name = r.Policy.Name()
	}
	if field = fmt.Sprintf("%s: %.80q", field, s.name); system {
		field = "functions: system"
	}
	switch {
	case !isName(s.name):
		return nil, invalid(field, "want a name of 1 to %d letters a to z, digits, '.', '_' and '-', with a letter or digit first", maxName)
	case s.name == systemName && !system:
		return nil, invalid(field, "want another name: this one is of the rule about every call")
	case r.Policy == nil && r.Settings == Settings{}:
		return nil, invalid(field, "want limits, a breaker, adaptive or a bulkhead, got none of them")
	}
	if r.Policy != nil {
		c := r.Policy.Config()
		if err := amend(&c, field, system); err != nil {
			return nil, err
		}
		if c.OnStoreError == policy.Local && l.c.Local == nil {
			return nil, invalid(field, "on_store_error: local is decided by Config.Local: want a store, got nil")
		}
		s.config, s.mode = &c, stricter(c.Mode, l.mode)
	}
	return s, l.ward(s, field, old[s.name])
}

// ward makes the wards of s, or takes them from its predecessor.
func (l *law) ward(s *statute, field string, old *statute) (err error) {
	switch {
	case s.kept == Settings{}:
	case l.c.Ward == nil:
		return invalid(field, "asks for a breaker, adaptive or a bulkhead: want Config.Ward, got nil")
	case old != nil && reflect.DeepEqual(old.kept, s.kept):
		s.wards = old.wards
	default:
		if s.wards, err = l.c.Ward(s.name, s.kept); err != nil && !errors.Is(err, weir.ErrInvalid) {
			err = fmt.Errorf("%w: %w", weir.ErrInvalid, err)
		}
		if err != nil {
			return fmt.Errorf("guard: %s: %w", field, err)
		}
	}
	return nil
}

// stricter is the mode of a rule where all rules have a mode.
func stricter(rule, all policy.Mode) policy.Mode {
	switch {
	case rule == policy.Off || all == policy.Off:
		return policy.Off
	case rule == policy.Shadow || all == policy.Shadow:
		return policy.Shadow
	}
	return policy.Enforce
}

// amend makes a rule's policy one that is asked about calls, or says what is wrong.
func amend(c *policy.Config, field string, system bool) error {
	constant := system && len(c.Key) == 1 && c.Key[0].Source == policy.Constant
	whole := len(c.Key) == 1 && c.Key[0].String() == KeyPart().String()
	m := c.Match
	switch {
	case system && whole:
		c.Key = []policy.KeyPart{{Source: policy.Constant, Name: systemName}}
	case !constant && !whole:
		return invalid(field, "key: want guard.KeyPart alone, got %v", c.Key)
	case len(m.Methods) > 0 || len(m.Hosts) > 0 || len(m.Paths) > 0 || len(m.Headers) > 0 || m.Where != nil:
		return invalid(field, "match: want none: a rule is about the calls of its name")
	case c.Settle != policy.Settle{}:
		return invalid(field, "cost: want no header or json: a call has no response")
	}
	c.CostOf = price{c.Cost, c.CostOf}
	return nil
}

// policyOf is the policy of a guard without a rule.
func policyOf(p *Resource, mode policy.Mode) (*policy.Policy, error) {
	return policy.New(policy.Config{
		Name: p.Name, Key: []policy.KeyPart{KeyPart()}, Limits: p.Limits,
		CostOf: price{once: 1}, OnDenied: policy.OnDenied{Wait: p.Wait}, Mode: mode,
	})
}

// policy is that of s in force.
func (s *statute) policy(wait *Resource) (*policy.Policy, error) {
	c := *s.config
	if c.Mode = s.mode; c.Mode != policy.Enforce {
		c.Percent = 0
	}
	if wait != nil && c.OnDenied.Wait == 0 {
		c.OnDenied.Wait = wait.Wait
	}
	return policy.New(c)
}

// join makes the set that is asked about a name, which follows old.
func (l *law) join(system *statute, own *policy.Policy, old *policy.Set) (*policy.Set, error) {
	var ps []*policy.Policy
	if system != nil && system.config != nil {
		p, err := system.policy(nil)
		if err != nil {
			return nil, fmt.Errorf("guard: functions: system: %w", err)
		}
		ps = append(ps, p)
	}
	if own != nil {
		ps = append(ps, own)
	}
	set, err := policy.NewSet(append(ps, gone(old, ps)...)...)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return set.WithPrevious(old), nil
}

// gone are the policies of old that ps has not, asking nothing: what keys owe under them
// is known if they come back.
func gone(old *policy.Set, ps []*policy.Policy) (off []*policy.Policy) {
	if old == nil {
		return nil
	}
next:
	for _, p := range old.Policies() {
		for _, q := range ps {
			if p.Name() == q.Name() {
				continue next
			}
		}
		c := p.Config()
		c.Mode, c.Percent, c.OnStoreError = policy.Off, 0, policy.Open // so that a gate wants no Local for it
		if p, err := policy.New(c); err == nil {
			off = append(off, p)
		}
	}
	return off
}

// rule makes what is asked about a name, after old, which may be nil.
func (l *law) rule(name string, point *Resource, old *ruling) (*ruling, error) {
	r := &ruling{mode: l.mode}
	past := l.past
	if old != nil {
		past = old.set
	}
	var own *policy.Policy
	var err error
	s := l.rules[name]
	switch {
	case s != nil && s.config != nil:
		r.rule, r.mode, r.limits = true, s.mode, s.config.Limits
		own, err = s.policy(point)
	case point != nil:
		r.limits = point.Limits
		own, err = policyOf(point, l.mode)
	}
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if r.set, err = l.join(l.system, own, past); err != nil {
		return nil, err
	}
	r.add(l.system, systemName+" ")
	r.add(s, "")
	for _, p := range r.set.Policies() {
		if p.Config().Mode == policy.Off {
			continue
		}
		if r.gate, err = enforce.New(l.c.Store, r.set, l.gateConfig(name)); err != nil {
			return nil, fmt.Errorf("guard: %s: %w", name, err)
		}
		break
	}
	return r, nil
}

// add puts the wards of s, which may be nil.
func (r *ruling) add(s *statute, prefix string) {
	if s == nil {
		return
	}
	for _, w := range s.wards {
		one := named{w, prefix + w.Name()}
		r.told = append(r.told, one)
		if s.mode == policy.Enforce {
			r.wards = append(r.wards, one)
		}
	}
}
