package policy

import (
	"slices"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/policy/internal/spelling"
)

// Questions are what one request has to ask. Requests are the questions of all
// policies, those that are enforced first; Asks say which belong to which. The zero
// value is ready for use, and using it again saves allocations.
type Matches struct {
	Requests []weir.Request
	Charges  []Charge

	later queue  // what is not enforced
	key   []byte // as appendKey makes it
	seen  view
}

// An Ask is what one policy has to ask: Requests[From:To] of its Questions, one for
// each limit in the policy's order, all about Key. They are of the verb weir.Take.
type Charge struct {
	Policy   *Policy
	Key      string
	From, To int

	// Cost is what each of the requests takes.
	Cost int64

	// Always is true of a candidate: it is asked whatever was decided before.
	Always bool

	// Err is the error of an expression of the policy that could not be evaluated, or nil.
	Err error

	// Missed is set by Explain for a policy that does not match: the field, such as
	// "match.methods"; "mode" for a policy that is Off; "nginx.zone" for a policy after
	// the one of its zone that is charged.
	Missed string
}

// Ask fills q with the questions about a request: one Ask for each policy that
// matches and is not Off, but of the policies of one zone for the first alone. First come the enforced policies, which are decided
// together, all or nothing, in one call of weir.Store.DoAll. Then comes what is in
// shadow: shadow policies, those that are not enforced for their key (see
// Config.Percent), and candidates. Each of these is decided by itself and only if the
// request is admitted or the Ask is Always, so that it takes nothing from the others.
// Ask returns how many of q.Requests belong to the first. What q held before is gone.
func (s *Set) Match(q *Matches, a Attributes) (enforced int) {
	q.Requests, q.Charges = q.Requests[:0], q.Charges[:0]
	if len(s.active) == 0 {
		return 0
	}
	now := q.begin()
	var src source
	src.fill(q, a)
	for _, m := range s.active {
		if m.match(&src) == matched && !(m.zoned && q.counted(&now, m)) {
			q.add(m, &src, &now)
		}
	}
	return q.end(now)
}

// Explain is Match, and returns a Charge for every policy of the set in its order, with
// each candidate after its policy. A Charge of a policy that does not match has a Missed
// and no key and requests.
func (s *Set) Explain(q *Matches, a Attributes) []Charge {
	now := q.begin()
	var src source
	src.fill(q, a)
	var all []Charge
	for _, m := range s.members {
		c := Charge{Policy: m.Policy, Missed: "mode"}
		if m.config.Mode != Off {
			missed := m.match(&src)
			if missed == matched && m.zoned && q.counted(&now, m) {
				missed = missedZone
			}
			if c.Missed = m.why(missed); missed == matched {
				q.add(m, &src, &now)
			}
		}
		all = append(all, c)
		if m.candidate != nil {
			c.Policy = m.candidate.Policy
			all = append(all, c)
		}
	}
	q.end(now)
	for _, c := range q.Charges {
		all[slices.IndexFunc(all, func(o Charge) bool { return o.Policy == c.Policy })] = c
	}
	return all
}

// A queue is questions in the making.
type queue struct {
	requests []weir.Request
	asks     []Charge
}

// counted reports whether a policy of the zone of m is asked already.
func (q *Matches) counted(now *queue, m *member) bool {
	of := func(a Charge) bool { return a.Policy.bucket == m.bucket }
	return slices.ContainsFunc(now.asks, of) || slices.ContainsFunc(q.later.asks, of)
}

// begin empties q and returns the queue of what is enforced.
func (q *Matches) begin() queue {
	q.later.requests, q.later.asks = q.later.requests[:0], q.later.asks[:0]
	return queue{q.Requests[:0], q.Charges[:0]}
}

// fill makes s the request as the policies read it.
func (s *source) fill(q *Matches, a Attributes) {
	s.a, s.host, s.seen = a, spelling.HostName(a.Host()), &q.seen
	s.paths.Read(a.Path())
}

// maxKeep is the largest buffer that Questions keep for the next request.
const maxKeep = 16 << 10

// end joins what is enforced and what is not, and returns how many requests are.
func (q *Matches) end(now queue) int {
	enforced := len(now.requests)
	q.Requests = append(now.requests, q.later.requests...)
	q.Charges = now.asks
	for _, a := range q.later.asks {
		a.From, a.To = a.From+enforced, a.To+enforced
		q.Charges = append(q.Charges, a)
	}
	if q.seen.Attributes != nil {
		q.seen = view{}
	}
	if cap(q.key) > maxKeep {
		q.key = nil
	}
	return enforced
}

// add puts the question of a policy that matched, and that of its candidate.
func (q *Matches) add(m *member, s *source, now *queue) {
	q.key = m.appendKey(q.key[:0], s)
	parts := q.key[len(m.bucket):]
	ask := Charge{Policy: m.Policy, Key: m.key(q.key), Cost: m.cost(s), Err: s.err}
	to := now
	if m.config.Mode == Shadow || m.config.Percent < 100 && share(ask.Key) >= m.config.Percent {
		to = &q.later
	}
	to.add(m, &ask, parts, s)
	if c := m.candidate; c != nil {
		whole := append(append(q.key, c.bucket...), parts...)
		ask.Policy, ask.Key, ask.Always = c.Policy, c.key(whole[len(q.key):]), true
		q.key = whole[:len(q.key)]
		q.later.add(c, &ask, parts, s)
	}
}

func (to *queue) add(m *member, ask *Charge, parts []byte, s *source) {
	limits, ruled := m.limits(ask.Key, parts, s)
	var from [][]weir.Limit
	if len(m.former) > 0 {
		from = m.past.from(limits, ruled, ask.Key, parts, s)
	}
	ask.From = len(to.requests)
	for i, l := range limits {
		to.requests = append(to.requests, weir.Request{Verb: weir.Take, Key: ask.Key, Limit: l, N: ask.Cost})
		if from != nil && from[i] != nil {
			r := &to.requests[len(to.requests)-1]
			r.From, r.Carry = from[i], m.config.Carry
		}
	}
	ask.To = len(to.requests)
	to.asks = append(to.asks, *ask)
}

// share is which of a hundred shares of all keys a key belongs to (see
// Config.Percent).
func share(key string) int {
	h := uint64(14695981039346656037)
	for i := 0; i < len(key); i++ {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd // the low bits of FNV-1a alone are not even
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return int((h ^ h>>33) % 100)
}
