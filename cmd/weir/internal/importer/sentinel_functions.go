package importer

import (
	"fmt"
	"strings"
)

// This file writes rules of functions: circuit breakers, and with SentinelFunctions the limits of
// resources that are names in a Go program.

// SentinelFunctions imports as Sentinel does, for a Go program: the limits of a resource that is
// not a path become a rule of functions.
func SentinelFunctions(name string, data []byte) (*Result, error) {
	return importRules(name, data, true)
}

// A function is a rule under construction for the functions of a name.
type function struct {
	at         place
	from, name string
	notes      []string
	limits     []string
	byValue    bool // the limits are for each value of a parameter
	overrides  []override
	wait       string
	threads    int64
	breaker    string
}

// function returns the rule for a resource, which a rule of Sentinel extends.
func (s *sentinel) function(r *rule, resource string, notes []string) *function {
	f := s.named[resource]
	if f == nil {
		f = &function{at: r.place, from: r.String(), name: resource}
		s.named[resource] = f
		s.functions = append(s.functions, f)
	} else {
		f.notes = append(f.notes, r.place.String()+": "+r.String())
	}
	f.notes = append(f.notes, notes...)
	return f
}

// calls adds the limits of a draft to the rule for its resource, or returns why that is not
// possible.
func (s *sentinel) calls(r *rule, d *draft, resource string) (why string) {
	byValue, f := r.has("paramIdx"), s.named[resource]
	if f == nil {
		f = &function{}
	}
	threads := int64(0)
	if r.number("grade", 1) == 0 && !byValue {
		threads, d.limits, d.notes = floor(r.count()), nil, nil
	}
	switch {
	case d.block:
		return "it denies every call, and a rule of functions has no such limit"
	case d.headers != nil:
		return "limitApp is a caller, which a function does not know"
	case threads > 0 && f.threads > 0:
		return "the resource has a bulkhead already (above), and a rule of functions.rules has one"
	case d.wait != "" && f.limits != nil, f.wait != "" && d.limits != nil:
		return "the calls of one limit of the resource wait, and a rule of functions.rules has one wait for all limits"
	case f.limits != nil && d.limits != nil && (f.byValue != byValue || f.overrides != nil || d.overrides != nil):
		return "the resource has other limits already (above), and a rule of functions.rules has one key and one list of overrides"
	}
	var notes []string
	for _, n := range d.notes {
		notes = append(notes, n.text)
	}
	f = s.function(r, resource, notes)
	f.limits = append(f.limits, d.limits...)
	f.overrides = append(f.overrides, d.overrides...)
	f.byValue = f.byValue || byValue
	f.threads += threads
	if d.wait != "" {
		f.wait = d.wait
	}
	return ""
}

// fields returns the fields of a rule except its name, one a line.
func (f *function) fields() string {
	var fields []string
	if f.limits != nil {
		fields = append(fields, "limits: "+list(f.limits))
	}
	if f.wait != "" {
		fields = append(fields, "wait: "+f.wait)
	}
	if f.threads > 0 {
		fields = append(fields, fmt.Sprintf("bulkhead: { max: %d }", f.threads))
	}
	if f.breaker != "" {
		fields = append(fields, "breaker: "+f.breaker)
	}
	if f.overrides != nil {
		var s strings.Builder
		writeOverrides(&s, "      ", f.overrides)
		fields = append(fields, strings.TrimSpace(s.String()))
	}
	return strings.Join(fields, "\n      ")
}
