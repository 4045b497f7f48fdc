package weirfile

import (
	"cmp"
	"errors"
	"time"

	"github.com/floodweir/weir/guard"
	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy"
	"github.com/floodweir/weir/weirfile/strict"
)

// functions reads the limits on functions.
func (d *decoder) functions(p place) *guard.Functions {
	if !p.there() {
		return nil
	}
	m := d.mapping(p)
	f := &guard.Functions{}
	word, _ := d.word(m.at("mode"))
	f.Mode = policy.Mode(word)
	if p := m.at("system"); p.there() {
		rule, _ := d.rule(p, "system", policy.KeyPart{Source: policy.Constant, Name: "all"})
		f.System = &rule
	}
	names := map[string]strict.Node{}
	for _, e := range d.elements(m.at("rules")) {
		rule, name := d.rule(e, "", guard.KeyPart())
		if name.There() && name.Kind() == strict.Text {
			if first := names[name.Text()]; first.There() {
				d.Fail(name, strict.Join(e.field, "name"), name.String(), "want every name once: %s:%d:%d has it already", d.Name(), first.Line(), first.Column())
			}
			names[name.Text()] = name
		}
		f.Rules = append(f.Rules, rule)
	}
	return f
}

// rule reads one rule and returns the node of its name, if any.
func (d *decoder) rule(p place, name string, key policy.KeyPart) (guard.Rule, strict.Node) {
	before := len(d.Faults())
	m := d.mapping(p)
	if p.node.Kind() != strict.Map {
		return guard.Rule{}, strict.Node{}
	}
	rule := guard.Rule{Name: name, Settings: d.settings(m)}
	if name == "" {
		rule.Name, _ = d.text(m.at("name"))
	}
	if !m.at("limits").there() {
		if rule.Settings == (guard.Settings{}) {
			d.failIn(p, "", "%s", p.shape.Want)
		}
		for _, field := range m.Order {
			switch field {
			case "name", "breaker", "adaptive", "bulkhead":
			default:
				d.failIn(m.at(field), m.Values[field].String(), "want limits with it: it says how they are applied")
			}
		}
		return rule, m.Values["name"]
	}
	r := &policyReader{decoder: d, field: p.field, places: map[string]strict.Node{"": p.node}}
	for _, field := range m.Order {
		r.places[field] = m.Values[field]
	}
	r.places["on_denied.wait"] = m.Values["wait"]
	c := policy.Config{Name: rule.Name, Key: []policy.KeyPart{key}, Limits: r.limits(m.at("limits"))}
	c.OnDenied.Wait = d.duration(m.at("wait"))
	c.Carry = d.carry(m.at("carry"))
	rule.PerInstance = d.boolean(m.at("per_instance"))
	for field, to := range map[string]*string{"mode": (*string)(&c.Mode), "on_store_error": (*string)(&c.OnStoreError)} {
		*to, _ = d.word(m.at(field))
	}
	if name == "" { // what a rule has and that of the system has not
		word, _ := d.word(m.at("count"))
		c.Count = policy.Count(word)
		c.Percent = int(d.integer(m.at("percent")))
		c.Candidate = r.limits(m.at("candidate"))
		r.overrides(m.at("overrides"), &c)
	}
	made, err := policy.New(c)
	var errs fault.Errors
	if errors.As(err, &errs) {
		r.report(errs, d.Faults()[before:])
	}
	rule.Policy = made
	return rule, m.Values["name"]
}

// settings reads the protections of a rule or a route.
func (d *decoder) settings(m mapping) guard.Settings {
	return guard.Settings{Breaker: d.breaker(m.at("breaker")), Adaptive: d.adaptive(m.at("adaptive")), Bulkhead: d.bulkhead(m.at("bulkhead"))}
}

// shadow reports whether a protection is in shadow mode.
func (d *decoder) shadow(m mapping) bool {
	mode, _ := d.word(m.at("mode"))
	return policy.Mode(mode) == policy.Shadow
}

func (d *decoder) breaker(p place) *guard.Breaker {
	if !p.there() {
		return nil
	}
	m := d.mapping(p)
	b := &guard.Breaker{
		Failures: d.calls(m.at("failures"), 0), Rate: d.calls(m.at("rate"), 0), Of: d.calls(m.at("of"), 0),
		Period: d.duration(m.at("period")), Slow: d.duration(m.at("slow")), SlowRate: d.calls(m.at("slow_rate"), 0),
		Cooldown: cmp.Or(d.duration(m.at("cooldown")), 10*time.Second), Trials: d.calls(m.at("trials"), 1),
		Shadow: d.shadow(m),
	}
	switch {
	case m.at("failures").there() == (m.at("rate").there() || m.at("slow_rate").there()):
		d.failIn(p, "", "%s", p.shape.Want)
	case m.at("slow_rate").there() && !m.at("slow").there():
		d.failIn(m.at("slow_rate"), m.Values["slow_rate"].String(), "want slow beside it: from when a request is slow, such as 1s")
	case m.at("rate").there() || m.at("slow_rate").there():
		b.Period, b.Of = cmp.Or(b.Period, 10*time.Second), cmp.Or(b.Of, 20)
	case b.Period > 0 && b.Of > 0:
		d.failIn(m.at("period"), m.Values["period"].String(), "want of or period with failures, not both: among the last calls, or within a time")
	case b.Period > 0:
	case b.Of == 0:
		b.Of = b.Failures
	case b.Of < b.Failures:
		d.failIn(m.at("of"), m.Values["of"].String(), "want at least failures, %d", b.Failures)
	}
	return b
}

func (d *decoder) adaptive(p place) *guard.Adaptive {
	if !p.there() {
		return nil
	}
	m := d.mapping(p)
	before := len(d.Faults())
	a := &guard.Adaptive{Min: d.calls(m.at("min"), 1), Max: d.calls(m.at("max"), 200), Shadow: d.shadow(m)}
	a.Initial = d.calls(m.at("initial"), max(a.Min, min(a.Max, 20)))
	if len(d.Faults()) == before && (a.Min > a.Max || a.Initial < a.Min || a.Initial > a.Max) {
		d.failIn(p, "", "want min, initial and max in that order of size, got %d, %d and %d", a.Min, a.Initial, a.Max)
	}
	return a
}

func (d *decoder) bulkhead(p place) *guard.Bulkhead {
	if !p.there() {
		return nil
	}
	m := d.mapping(p)
	b := &guard.Bulkhead{Max: d.calls(m.at("max"), 0), Wait: d.duration(m.at("wait")), Shadow: d.shadow(m)}
	waiters := m.at("max_waiters")
	if old := m.at("max_waiting"); old.there() {
		d.note(old, "max_waiting is the old form of this field: use max_waiters")
		if waiters.there() {
			d.failIn(old, old.node.String(), "want max_waiters or max_waiting, not both")
		} else {
			waiters = old
		}
	}
	b.MaxWaiters = d.calls(waiters, b.Max)
	if waiters.there() && b.Wait == 0 {
		d.failIn(waiters, waiters.node.String(), "want wait too: without it no call waits")
	}
	return b
}

// calls reads a number of calls, with a default.
func (d *decoder) calls(p place, otherwise int) int {
	if !p.there() {
		return otherwise
	}
	return int(d.integer(p))
}
