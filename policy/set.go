package policy

import "github.com/floodweir/weir"

// A Set is policies in order, under unique names. It is immutable and safe for
// concurrent use.
type Set struct {
	policies []*Policy
}

// NewSet makes a set. An error wraps weir.ErrInvalid: a name that is there twice,
// or more limits than a store decides together (weir.MaxBatch).
func NewSet(policies ...*Policy) (*Set, error) { return &Set{policies}, nil }

// Policies are the policies of s in order. The caller does not change the slice.
func (s *Set) Policies() []*Policy { return s.policies }

// Policy is the policy of the given name, or nil.
func (s *Set) Policy(name string) *Policy { return nil }

// Questions are what one request has to ask. Requests are the questions of all
// policies, those of enforced policies first; Asks say which belong to which. The
// zero value is ready for use, and use again saves allocations.
type Questions struct {
	Requests []weir.Request
	Asks     []Ask
}

// An Ask is what one policy has to ask: Requests[From:To] of its Questions, one for
// each limit, all about the same key.
type Ask struct {
	Policy   *Policy
	From, To int
}

// Ask fills q with the questions about a request, one Ask for each policy that
// matches and is not Off: first the enforced ones, which are decided together, all
// or nothing, in one call of weir.Store.DoAll; then the shadow ones, each of which
// is decided by itself, so that it takes nothing from the others. It returns the
// number of requests that belong to enforced policies.
func (s *Set) Ask(q *Questions, a Attributes) (enforced int) { return 0 }
