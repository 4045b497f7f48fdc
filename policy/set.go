package policy

import (
	"fmt"

	"github.com/floodweir/weir"
)

// A Set is policies in order, under unique names. It is immutable and safe for
// concurrent use. The zero Set has no policies.
type Set struct {
	policies []*Policy
	enforced []*Policy
	shadow   []*Policy
	byName   map[string]*Policy
}

// NewSet makes a set. An error is Errors, which wrap weir.ErrInvalid: a name that
// two policies have, or more limits than a store decides together (weir.MaxBatch).
func NewSet(policies ...*Policy) (*Set, error) {
	s := &Set{policies: append([]*Policy(nil), policies...), byName: map[string]*Policy{}}
	var errs Errors
	limits := 0
	for i, p := range s.policies {
		f := &faults{policy: p.Name()}
		if s.byName[p.Name()] != nil {
			f.add("name", quoted(p.Name()), "want every name once: two policies have it, the second is policies[%d]", i)
		}
		s.byName[p.Name()] = p
		switch p.config.Mode {
		case Enforce:
			s.enforced = append(s.enforced, p)
			if limits += p.most; limits > weir.MaxBatch && limits-p.most <= weir.MaxBatch {
				f.add("limits", fmt.Sprintf("%d limits with those of the policies before it", limits),
					"want at most %d in all enforced policies, which a store decides together", weir.MaxBatch)
			}
		case Shadow:
			s.shadow = append(s.shadow, p)
		}
		errs = append(errs, f.errs...)
	}
	if len(errs) > 0 {
		return nil, errs
	}
	return s, nil
}

// Policies are the policies of s in order. The caller does not change the slice.
func (s *Set) Policies() []*Policy { return s.policies }

// Policy is the policy of the given name, or nil.
func (s *Set) Policy(name string) *Policy { return s.byName[name] }

// Questions are what one request has to ask. Requests are the questions of all
// policies, those of enforced policies first; Asks say which belong to which. The
// zero value is ready for use, and using it again saves allocations.
type Questions struct {
	Requests []weir.Request
	Asks     []Ask

	key []byte
}

// An Ask is what one policy has to ask: Requests[From:To] of its Questions, one for
// each limit in the policy's order, all about Key. They are of the verb weir.Take.
type Ask struct {
	Policy   *Policy
	Key      string
	From, To int

	// Cost is what each of the requests takes.
	Cost int64

	// Always is true of a candidate: it is asked whatever was decided before.
	Always bool

	// Err is why an expression of the policy could not be evaluated, if one could not.
	Err error
}

// Ask fills q with the questions about a request: one Ask for each policy that
// matches and is not Off. First come the enforced policies, which are decided
// together, all or nothing, in one call of weir.Store.DoAll; then the shadow
// policies, each of which is decided by itself and only if the request is admitted,
// so that it takes nothing from the others. Ask returns how many of q.Requests belong
// to enforced policies. What q held before is gone.
func (s *Set) Ask(q *Questions, a Attributes) (enforced int) {
	q.Requests, q.Asks = q.Requests[:0], q.Asks[:0]
	if len(s.enforced)+len(s.shadow) == 0 {
		return 0
	}
	src := source{a: a, host: hostName(a.Host())}
	paths := read(a.Path())
	for _, p := range s.enforced {
		q.add(p, &src, &paths)
	}
	enforced = len(q.Requests)
	for _, p := range s.shadow {
		q.add(p, &src, &paths)
	}
	if cap(q.key) > maxKeep {
		q.key = nil
	}
	return enforced
}

// maxKeep is the largest buffer that Questions keep for the next request.
const maxKeep = 16 << 10

func (q *Questions) add(p *Policy, s *source, paths *readings) {
	if !p.match(s, paths) {
		return
	}
	q.key = p.appendKey(q.key[:0], s)
	limits, key := p.limits(q.key), string(q.key)
	ask := Ask{Policy: p, Key: key, From: len(q.Requests)}
	for _, l := range limits {
		q.Requests = append(q.Requests, weir.Request{Verb: weir.Take, Key: key, Limit: l, N: p.config.Cost})
	}
	ask.To = len(q.Requests)
	q.Asks = append(q.Asks, ask)
}

// Following is s as the successor of old: a key of a policy that both have, under one
// name with equal key parts, carries over what it owes under limits that changed, as
// Config.Carry says (see weir.Request.From). Limits are paired in order after those
// that did not change. What old itself followed is remembered up to four sets back.
func (s *Set) Following(old *Set) *Set { return s }

// A Finding is what one policy makes of a request.
type Finding struct {
	Policy  *Policy
	Matched bool
	Why     string // of one that did not match: the field, such as "match.methods", or "mode" for one that is off
	Ask     *Ask   // of one that matched; its From and To are into the Requests of the Questions
}

// Explain is Ask, and tells what every policy makes of the request, in the order of
// the set; a candidate comes after its policy.
func (s *Set) Explain(q *Questions, a Attributes) []Finding { return nil }
