package policy

import (
	"strings"

	"github.com/floodweir/weir/internal/fault"
	"github.com/floodweir/weir/policy/internal/index"
)

// maxScan is the largest number of policies for which a comparison with each of them is
// faster than the index.
const maxScan = 4

// A Set has policies in order, with unique names. It is immutable and safe for concurrent
// use. The zero Set has no policies.
type Set struct {
	policies []*Policy
	members  []*member
	active   []*member          // policies that are not Off
	index    *index.Index       // numbers of active, or nil if active is searched in order
	byName   map[string]*member // with candidates

	exceptions []Exception
	except     []exception

	adjusted map[string]*adjusted // by key
}

// A member is a policy in a set.
type member struct {
	*Policy
	candidate *member // nil if the policy has none
	zoned     bool    // an earlier policy has the same zone
	history
}

// NewSet returns a set. An error wraps an *Error for each duplicate name and each policy
// that cannot share the state of its zone. It also wraps one if it finds a request that
// matches more limits of enforced policies than a store decides together: 256.
func NewSet(policies ...*Policy) (*Set, error) {
	s := &Set{policies: append([]*Policy(nil), policies...)}
	var errs fault.Errors
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
		errs = append(errs, f.Errs...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	s.join(nil)
	if errs := s.checkMost(); len(errs) > 0 {
		return nil, errs
	}
	return s, nil
}

// join creates the members of s as successors of those of old, which may be nil.
func (s *Set) join(old *Set) {
	s.byName = map[string]*member{}
	buckets := map[string]bool{}
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
		m.zoned, buckets[m.bucket] = buckets[m.bucket], true
		s.active = append(s.active, m)
	}
	if len(s.active) <= maxScan {
		return
	}
	s.index = new(index.Index)
	for i, m := range s.active {
		s.index.Add(i, m.hosts, m.routes, m.methods)
	}
}

// Policies returns the policies of s in order, without candidates. The caller must not
// modify the slice.
func (s *Set) Policies() []*Policy { return s.policies }

// Shares returns the Shares of the policy or candidate with a key such as Charge.Key. It is false if
// there is none.
func (s *Set) Shares(key string) (Shares, bool) {
	m := s.of(key)
	if m == nil {
		return Shares{}, false
	}
	return m.config.Shares, true
}

// of returns the policy or candidate with a key, or nil.
func (s *Set) of(key string) *member {
	name, _, _ := strings.Cut(key, "|")
	return s.byName[name]
}

// EachRegion returns the EachRegion of the policy or candidate with a key such as Charge.Key; false if
// there is none.
func (s *Set) EachRegion(key string) bool {
	m := s.of(key)
	return m != nil && m.config.EachRegion
}

// Policy returns the policy or candidate with a name, or nil.
func (s *Set) Policy(name string) *Policy {
	if m := s.byName[name]; m != nil {
		return m.Policy
	}
	return nil
}
