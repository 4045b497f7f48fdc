package policy

import (
	"fmt"

	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/fault"
)

// A Set has policies in order, with unique names. It is immutable and safe for concurrent
// use. The zero Set has no policies.
type Set struct {
	policies []*Policy
	members  []*member
	active   []*member          // policies that are not Off
	byName   map[string]*member // with candidates
}

// A member is a policy in a set.
type member struct {
	*Policy
	candidate *member // nil if the policy has none
	zoned     bool    // an earlier policy has the same zone
	history
}

// NewSet returns a set. An error wraps an *Error for each duplicate name and each policy
// that cannot share the state of its zone. It also wraps one if the enforced policies have
// more limits than a store decides together (bounds.MaxBatch).
func NewSet(policies ...*Policy) (*Set, error) {
	s := &Set{policies: append([]*Policy(nil), policies...)}
	var errs fault.Errors
	limits := 0
	names, zones := map[string]bool{}, map[string][]*Policy{}
	for i, p := range s.policies {
		f := &faults{Policy: p.Name()}
		if names[p.Name()] {
			f.Add("name", fault.Quote(p.Name()), "want every name once: two policies have it, the second is policies[%d]", i)
		}
		names[p.Name()] = true
		if zone := p.config.Zone; zone != "" {
			p.checkZone(f, zones[zone])
			zones[zone] = append(zones[zone], p)
		}
		if p.config.Mode == Enforce {
			if limits += p.most; limits > bounds.MaxBatch && limits-p.most <= bounds.MaxBatch {
				f.Add("limits", fmt.Sprintf("%d limits with those of the policies before it", limits),
					"want at most %d in all enforced policies, which a store decides together", bounds.MaxBatch)
			}
		}
		errs = append(errs, f.Errs...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	s.join(nil)
	return s, nil
}

// join creates the members of s as successors of those of old, which may be nil.
func (s *Set) join(old *Set) {
	s.byName = map[string]*member{}
	add := func(p *Policy) *member {
		m := &member{Policy: p}
		if old != nil {
			m.inherit(old.byName[p.Name()])
		}
		s.byName[p.Name()] = m
		return m
	}
	for _, p := range s.policies {
		m := add(p)
		if p.candidate != nil {
			m.candidate = add(p.candidate)
		}
		s.members = append(s.members, m)
		if p.config.Mode == Off {
			continue
		}
		for _, o := range s.active {
			if o.bucket == m.bucket {
				m.zoned = true
			}
		}
		s.active = append(s.active, m)
	}
}

// Policies returns the policies of s in order, without candidates. The caller must not
// modify the slice.
func (s *Set) Policies() []*Policy { return s.policies }

// Policy returns the policy or candidate with a name, or nil.
func (s *Set) Policy(name string) *Policy {
	if m := s.byName[name]; m != nil {
		return m.Policy
	}
	return nil
}
