package policy

import (
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// Matches has the requests of all policies that match one request: first those of enforced
// policies. Charges assigns them to policies. The zero value is ready for use; reusing a
// Matches saves allocations.
type Matches struct {
	Requests []weir.Request
	Charges  []Charge

	later pending // charges in shadow mode
	key   []byte  // from appendKey
	seen  view
	found []int32 // from the index
}

// A Charge is the part of one policy: Requests[From:To] of its Matches, one for each limit in
// the policy's order, all for Key. Their verb is weir.Take.
type Charge struct {
	Policy   *Policy
	Key      string
	From, To int

	// Cost is the cost of each of the requests.
	Cost int64

	// Enforced is true if the policy is enforced for this request.
	Enforced bool

	// Blocked is true if the policy blocks this request. It then has no Requests, and the
	// caller denies the request without the store, with weir.Never.
	Blocked bool

	// Adjustment applies to the key; nil if there is none.
	Adjustment *Adjustment

	// Refused, if not nil, is the reason why the request is Blocked although the policy has
	// limits: it names a model without a price.
	Refused error

	// Always is true for a candidate, which is decided for denied requests too.
	Always bool

	// Err is the error of an expression of the policy that could not be evaluated, or nil.
	Err error

	// Missed is set by Explain if the policy does not match. It is the field, such as
	// "match.methods", or "mode" for a policy that is Off. It is "nginx.zone" if another
	// policy of the zone is charged, and "unlimited" if the policy does not limit the key.
	// It is "except" for an exempt request.
	Missed string
}

// Match fills q with one Charge for each policy that matches a request and is not Off; of the
// policies of a zone only the first is charged. A policy that does not limit the key has no Charge.
// It returns the number of q.Requests that are enforced. The caller refuses the request if they are
// more than a store decides together.
//
// Enforced policies are first. The caller decides them together, all or nothing, with one call
// of weir.Store.DoAll. Policies in shadow mode follow: shadow policies, policies that are not
// enforced for their key (see Config.Percent), and candidates. The caller decides each of
// them separately, so that it takes nothing from the others, if the request is admitted or
// the Charge is Always.
func (s *Set) Match(q *Matches, a Attributes) (enforced int) {
	q.Requests, q.Charges = q.Requests[:0], q.Charges[:0]
	if len(s.active) == 0 {
		return 0
	}
	now := q.begin()
	var src source
	src.fill(q, a)
	src.adjusted = s.adjusted
	if len(s.except) > 0 && exempt(s.except, &src) {
		return q.end(now)
	}
	q.found = s.candidates(q.found[:0], &src, a.Method())
	for _, i := range q.found {
		m := s.active[i]
		if m.match(&src) == matched && !(m.zoned && q.zoneCharged(&now, m)) {
			q.add(m, &src, &now)
		}
	}
	return q.end(now)
}

// candidates appends to found the numbers of the active policies that can match a request.
func (s *Set) candidates(found []int32, src *source, method string) []int32 {
	if s.index != nil {
		return s.index.Find(found, src.host, &src.paths, method)
	}
	for i := range s.active {
		found = append(found, int32(i))
	}
	return found
}

// Explain is Match, and returns a Charge for every policy of the set in its order, with
// each candidate after its policy. A Charge of a policy that does not match has a Missed
// and no key and requests.
func (s *Set) Explain(q *Matches, a Attributes) []Charge {
	now := q.begin()
	var src source
	src.fill(q, a)
	src.adjusted = s.adjusted
	exempted := exempt(s.except, &src)
	var all []Charge
	for _, m := range s.members {
		c := Charge{Policy: m.Policy, Missed: "mode"}
		if m.config.Mode != Off {
			missed := m.match(&src)
			if exempted {
				missed = missedExcept
			}
			if missed == matched && m.zoned && q.zoneCharged(&now, m) {
				missed = missedZone
			}
			if c.Missed = m.why(missed); missed == matched && !q.add(m, &src, &now) {
				c.Missed = "unlimited"
			}
		}
		all = append(all, c)
		if m.candidate != nil {
			if c.Policy = m.candidate.Policy; c.Missed == "unlimited" {
				c.Missed = ""
			}
			all = append(all, c)
		}
	}
	q.end(now)
	for _, c := range q.Charges {
		all[slices.IndexFunc(all, func(o Charge) bool { return o.Policy == c.Policy })] = c
	}
	return all
}

// A pending collects charges.
type pending struct {
	requests []weir.Request
	charges  []Charge
}

// zoneCharged reports whether a policy of the zone of m is charged already.
func (q *Matches) zoneCharged(now *pending, m *member) bool {
	of := func(a Charge) bool { return a.Policy.bucket == m.bucket }
	return slices.ContainsFunc(now.charges, of) || slices.ContainsFunc(q.later.charges, of)
}

// begin empties q and returns the collector of enforced charges.
func (q *Matches) begin() pending {
	q.later.requests, q.later.charges = q.later.requests[:0], q.later.charges[:0]
	return pending{q.Requests[:0], q.Charges[:0]}
}

// fill normalizes the request.
func (s *source) fill(q *Matches, a Attributes) {
	s.a, s.host, s.seen = a, spelling.HostName(a.Host()), &q.seen
	s.paths.Read(a.Path())
}

// maxKeep is the largest buffer that a Matches keeps for the next request.
const maxKeep = 16 << 10

// end joins enforced charges and those in shadow mode. It returns the number of enforced
// requests.
func (q *Matches) end(now pending) int {
	enforced := len(now.requests)
	q.Requests = append(now.requests, q.later.requests...)
	q.Charges = now.charges
	for _, a := range q.later.charges {
		a.From, a.To = a.From+enforced, a.To+enforced
		q.Charges = append(q.Charges, a)
	}
	if q.seen.Attributes != nil {
		q.seen = view{}
	}
	if cap(q.key) > maxKeep {
		q.key = nil
	}
	if cap(q.found) > maxKeep {
		q.found = nil
	}
	return enforced
}

// add adds the charge of a policy that matches, and that of its candidate. It returns false if the
// policy does not limit the key.
func (q *Matches) add(m *member, s *source, now *pending) (limited bool) {
	q.key = m.appendKey(q.key[:0], s)
	return q.charge(m, s, now, Charge{Policy: m.Policy, Key: now.keyOr(m, q.key), Cost: m.cost(s), Refused: refused(m.config.Settle.Meter, s), Err: s.err})
}

// keyOr returns the key of m, without an allocation if it is that of the same charge of the request
// before.
func (to *pending) keyOr(m *member, whole []byte) string {
	if n := len(to.charges); n < cap(to.charges) {
		if last := to.charges[:n+1][n].Key; last == string(whole) && len(whole) <= maxKey {
			return last
		}
	}
	return m.key(whole)
}

// charge adds the charge of a policy whose key is in q.key, and that of its candidate. It returns
// false if the policy does not limit the key.
func (q *Matches) charge(m *member, s *source, now *pending, charge Charge) (limited bool) {
	parts := q.key[len(m.bucket):]
	to := now
	if m.config.Mode == Shadow || m.config.Percent < 100 && share(charge.Key) >= m.config.Percent {
		to = &q.later
	}
	charge.Enforced = to == now
	limited = to.add(m, &charge, parts, s)
	if c := m.candidate; c != nil {
		whole := append(append(q.key, c.bucket...), parts...)
		charge.Policy, charge.Key, charge.Always, charge.Enforced, charge.Adjustment = c.Policy, c.key(whole[len(q.key):]), true, false, nil
		q.key = whole[:len(q.key)]
		q.later.add(c, &charge, parts, s)
	}
	return limited
}

// add adds a charge. It returns false, without a charge, if the policy does not limit the key.
func (to *pending) add(m *member, charge *Charge, parts []byte, s *source) (limited bool) {
	limits, override := m.limits(charge.Key, parts, s)
	var adjustment *adjusted
	if len(s.adjusted) > 0 {
		if adjustment = s.adjusted[charge.Key]; adjustment != nil && adjustment.override != nil {
			limits, override, charge.Adjustment = adjustment.override.Limits, adjustment.override, &adjustment.Adjustment
		}
	}
	blocked, unlimited := m.config.fixed(override)
	if unlimited {
		return false
	}
	var from [][]weir.Limit
	switch {
	case adjustment != nil:
		from = m.fromAdjusted(adjustment, limits, charge.Key, parts, s)
	case len(m.previous) > 0:
		from = m.history.from(limits, override != nil, charge.Key, parts, s)
	}
	key := charge.Key
	if m.tenants != nil {
		key = m.bucket // all tenants share a state
	}
	charge.From, charge.Blocked = len(to.requests), blocked || charge.Refused != nil
	if charge.Refused != nil {
		limits = nil
	}
	for i, l := range limits {
		to.requests = append(to.requests, weir.Request{Verb: weir.Take, Key: key, Limit: l, N: charge.Cost})
		if from != nil && from[i] != nil {
			r := &to.requests[len(to.requests)-1]
			if r.From = from[i]; !l.Equal(r.From[0]) {
				r.Carry = m.config.Carry
			}
		}
	}
	charge.To = len(to.requests)
	to.charges = append(to.charges, *charge)
	return true
}

// share returns the hash of a key, from 0 to 99 (see Config.Percent).
func share(key string) int {
	h := uint64(14695981039346656037)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd // the low bits of FNV-1a alone are not even
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int((h ^ h>>33) % 100)
}
