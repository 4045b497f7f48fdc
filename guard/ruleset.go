package guard

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// A ruleSet is a validated Config. It is immutable.
type ruleSet struct {
	c      Config
	mode   policy.Mode
	byName map[string]*rule
	system *rule // nil if there is none

	// previous is a set of the system's policy alone with its predecessors: the start of
	// the history of a new group. It is nil if there never was one.
	previous *policy.Set
}

// A rule is a compiled Rule.
type rule struct {
	name        string
	config      *policy.Config // nil without limits
	mode        policy.Mode    // in force
	protections []Protection
	settings    Settings // that protections were made from
}

func invalid(field, format string, args ...any) error {
	return fmt.Errorf("guard: %s: %w: %s", field, weir.ErrInvalid, fmt.Sprintf(format, args...))
}

// newRuleSet validates c. It keeps the protections and the history of old, which may be nil.
func newRuleSet(c Config, old *ruleSet) (*ruleSet, error) {
	l := &ruleSet{c: c, mode: policy.Enforce, byName: map[string]*rule{}}
	if err := c.Options.Check(); err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	if !isName(c.Instance) {
		return nil, invalid("Instance", "want a name of 1 to %d letters a to z, digits, '.', '_' and '-', with a letter or digit first, got %.80q", maxName, c.Instance)
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
		old = &ruleSet{}
	}
	for i := range f.Rules {
		s, err := l.newRule(&f.Rules[i], fmt.Sprintf("functions: rules[%d]", i), old.byName)
		if err != nil {
			return nil, err
		}
		if l.byName[s.name] != nil {
			return nil, invalid(fmt.Sprintf("functions: rules[%d]", i), "want every name once, got %q again", s.name)
		}
		l.byName[s.name] = s
	}
	if f.System != nil {
		var err error
		if l.system, err = l.newRule(f.System, "functions: system", map[string]*rule{systemName: old.system}); err != nil {
			return nil, err
		}
	}
	var err error
	l.previous, err = l.join(l.system, nil, old.previous)
	return l, err
}

// newRule compiles r. It keeps the protections of the rule of the same name in old if their
// settings are equal.
func (l *ruleSet) newRule(r *Rule, field string, old map[string]*rule) (*rule, error) {
	s := &rule{name: r.Name, mode: l.mode, settings: r.Settings}
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
		return nil, invalid(field, "want another name: this one is reserved for the system rule")
	case r.Policy == nil && r.Settings == Settings{}:
		return nil, invalid(field, "want limits, a breaker, adaptive or a bulkhead, got none of them")
	case r.Policy == nil && r.PerInstance:
		return nil, invalid(field, "PerInstance: want a Policy with it, got none")
	}
	if r.Policy != nil {
		c := r.Policy.Config()
		if err := validatePolicy(&c, field, system); err != nil {
			return nil, err
		}
		if r.PerInstance {
			perInstance(&c, l.c.Instance)
		}
		s.config, s.mode = &c, stricter(c.Mode, l.mode)
	}
	return s, l.protect(s, field, old[s.name])
}

// protect makes the protections of s, or keeps those of old.
func (l *ruleSet) protect(s *rule, field string, old *rule) (err error) {
	switch {
	case s.settings == Settings{}:
	case l.c.Protections == nil:
		return invalid(field, "has a breaker, adaptive or bulkhead: got nil Config.Protections, want a function")
	case old != nil && reflect.DeepEqual(old.settings, s.settings):
		s.protections = old.protections
	default:
		if s.protections, err = l.c.Protections(s.name, s.settings); err != nil && !errors.Is(err, weir.ErrInvalid) {
			err = fmt.Errorf("%w: %w", weir.ErrInvalid, err)
		}
		if err != nil {
			return fmt.Errorf("guard: %s: %w", field, err)
		}
	}
	return nil
}

// stricter returns the mode in force of a rule in a set with a mode.
func stricter(rule, all policy.Mode) policy.Mode {
	switch {
	case rule == policy.Off || all == policy.Off:
		return policy.Off
	case rule == policy.Shadow || all == policy.Shadow:
		return policy.Shadow
	}
	return policy.Enforce
}

// validatePolicy checks a rule's policy, and adapts it to calls.
func validatePolicy(c *policy.Config, field string, system bool) error {
	constant := system && len(c.Key) == 1 && c.Key[0].Source == policy.Constant
	whole := len(c.Key) == 1 && c.Key[0].String() == KeyPart().String()
	m := c.Match
	switch {
	case system && whole:
		c.Key = []policy.KeyPart{{Source: policy.Constant, Name: systemName}}
	case !constant && !whole:
		return invalid(field, "key: want guard.KeyPart alone, got %v", c.Key)
	case len(m.Methods) > 0 || len(m.Hosts) > 0 || len(m.Paths) > 0 || len(m.Headers) > 0 || m.Where != nil:
		return invalid(field, "match: want none: a rule applies to the calls of its name")
	case c.Settle != policy.Settle{}:
		return invalid(field, "cost: want no header or json: a call has no response")
	}
	c.CostOf = callCost{c.Cost, c.CostOf}
	return nil
}

// perInstance makes the name of this process the first part of the key.
func perInstance(c *policy.Config, instance string) {
	c.Key = append([]policy.KeyPart{{Source: policy.Constant, Name: instance}}, c.Key...)
	c.Overrides = slices.Clone(c.Overrides)
	for i := range c.Overrides {
		c.Overrides[i].Key = append([]string{instance}, c.Overrides[i].Key...)
	}
}

// policyOf returns the policy of a guard without a rule.
func policyOf(p *Resource, mode policy.Mode) (*policy.Policy, error) {
	return policy.New(policy.Config{
		Name: p.Name, Key: []policy.KeyPart{KeyPart()}, Limits: p.Limits,
		CostOf: callCost{once: 1}, OnDenied: policy.OnDenied{Wait: p.Wait}, Mode: mode,
	})
}

// policy returns the policy of s in force.
func (s *rule) policy(wait *Resource) (*policy.Policy, error) {
	c := *s.config
	if c.Mode = s.mode; c.Mode != policy.Enforce {
		c.Percent = 0
	}
	if wait != nil && c.OnDenied.Wait == 0 {
		c.OnDenied.Wait = wait.Wait
	}
	return policy.New(c)
}

// join returns the set of policies of a name, with old as its predecessor.
func (l *ruleSet) join(system *rule, own *policy.Policy, old *policy.Set) (*policy.Set, error) {
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
	set, err := policy.NewSet(append(ps, removedPolicies(old, ps)...)...)
	if err != nil {
		return nil, fmt.Errorf("guard: %w", err)
	}
	return set.WithPrevious(old), nil
}

// removedPolicies returns the policies of old that ps lacks, in mode off, so that keys keep their
// debt under them if they return.
func removedPolicies(old *policy.Set, ps []*policy.Policy) (off []*policy.Policy) {
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
		c.Mode, c.Percent = policy.Off, 0
		if p, err := policy.New(c); err == nil {
			off = append(off, p)
		}
	}
	return off
}

// resolve returns the rules in force of a name; old, which may be nil, are those before.
func (l *ruleSet) resolve(name string, point *Resource, old *resolved) (*resolved, error) {
	r := &resolved{mode: l.mode}
	past := l.previous
	if old != nil {
		past = old.set
	}
	var own *policy.Policy
	var err error
	s := l.byName[name]
	switch {
	case s != nil && s.config != nil:
		r.fromRule, r.mode, r.limits = true, s.mode, s.config.Limits
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
		if r.enforcer, err = enforce.New(l.c.Store, r.set, l.enforcerConfig(name)); err != nil {
			return nil, fmt.Errorf("guard: %s: %w", name, err)
		}
		break
	}
	if s == nil && r.enforcer != nil && len(r.asked) == 0 {
		var ok bool
		if r.single, ok = r.enforcer.Single(new(call)); ok {
			r.singleStore = l.c.Store
		}
	}
	return r, nil
}

// add adds the protections of s, which may be nil.
func (r *resolved) add(s *rule, prefix string) {
	if s == nil {
		return
	}
	for _, w := range s.protections {
		one := namedProtection{w, prefix + w.Name()}
		r.reported = append(r.reported, one)
		if s.mode == policy.Enforce {
			r.asked = append(r.asked, one)
		}
	}
}
