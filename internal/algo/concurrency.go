package algo

// A Concurrency admits at most count slots in use at once. A slot that is neither
// returned nor renewed is free again after its lease.
//
// The idea: a slot is a lease. It ends by itself, so the slot of a holder that
// died heals, and a holder that lives keeps it by taking it again under the same
// ID. Every slot in use is stored with its expiry and its number of tokens; a Take of n is one slot of n.
//
//	live     ⇔  expiry > now
//	used     =  tokens of the live slots
//	admit n  ⇔  a live slot has the ID, or used + n ≤ count
//	then        its expiry ← now + TTL, or a new slot (now + TTL, ID, n)
//
// Invariant: at any instant live slots hold at most count tokens, except for the
// tokens of a Charge.
//
// Renewing is OK even when all slots are in use. It sets the expiry to now + TTL,
// be it later or earlier than before, and grants the tokens first granted, not
// those asked for. Return with an ID frees its slot whole, whatever N says, and
// grants the tokens freed: 0 if no live slot has the ID. Return without one frees
// the N anonymous tokens that expire soonest; with At, only those whose lease
// began at that instant. Charge takes an anonymous slot, whatever the ID. The
// Retry of a denial is when enough slots will have expired by themselves; one that
// is returned makes it sooner.
//
// Source: the thread-count rule of alibaba/Sentinel and Hystrix's semaphores, and
// the leases of C. Gray and D. Cheriton, "Leases: an efficient fault-tolerant
// mechanism for distributed file cache consistency" (SOSP 1989). We deviate from
// the first two in that slots expire. When charges have made it 20,000 slots, a
// further one joins the anonymous slot that expires last.
type Concurrency struct{ count, lease int64 }

// NewConcurrency makes the rule of count slots, of which each is leased for lease
// µs unless its taker says otherwise. The count is at most 10,000, because a decision reads all
// slots. That takes about 1 ns each here, but 1.2 µs each in the Lua twin, which holds up all of
// Redis. An error wraps ErrRange and names the parameter, its value and what would be accepted.
func NewConcurrency(count, lease int64) (*Concurrency, error) {
	if err := checkCount(count, maxEntries); err != nil {
		return nil, err
	}
	if err := checkPeriod("lease", lease); err != nil {
		return nil, err
	}
	return &Concurrency{count, lease}, nil
}

// The state of a Concurrency is its slots, the soonest to expire first. The ID 0
// is anonymous; anonymous slots of one expiry are one slot.
const (
	slotExpiry = iota
	slotID
	slotTokens
	slotWords
)

// maxSlots bounds a state. Named slots are within the count, so that of maxSlots
// slots half are anonymous.
const maxSlots = 2 * maxEntries

func (c *Concurrency) Name() string    { return "concurrency" }
func (c *Concurrency) Words() int      { return slotWords }
func (c *Concurrency) Variable() bool  { return true }
func (c *Concurrency) Capacity() int64 { return c.count }

// Horizon implements [Rule]. A slot with a TTL of its own may live longer.
func (c *Concurrency) Horizon() int64 { return c.lease }

// Params are the count and the lease.
func (c *Concurrency) Params(int64) []int64 { return []int64{c.count, c.lease} }

// slots is s without the words of a state that was never used.
func slots(s []int64) []int64 {
	if len(s) < slotWords || s[slotExpiry] == 0 {
		return s[:0]
	}
	return s
}

// Do implements [Rule].
func (c *Concurrency) Do(words []int64, a Ask) ([]int64, Result) {
	s := slots(words)
	from := 0
	for from < len(s) && s[from] <= a.Now {
		from += slotWords
	}
	live := s[from:]
	used, held := int64(0), -1
	for i := 0; i < len(live); i += slotWords {
		used += live[i+slotTokens]
		if a.ID != 0 && live[i+slotID] == int64(a.ID) {
			held = i
		}
	}

	n, ok := admit(a, c.count-used)
	renews := held >= 0 && a.N > 0 && (a.Op == Take || a.Op == TakeUpTo)
	if held >= 0 && a.Op == Peek {
		ok = true
	}
	ok = ok || renews
	r := Result{OK: ok, Granted: n}
	switch {
	case !ok && wanted(a) > c.count:
		r.Retry = Never
	case !ok:
		r.Retry = expires(live, used+wanted(a)-c.count) - a.Now
	case a.Op != Peek:
		live = s[:copy(s, live)]
	}
	switch {
	case !ok || a.Op == Peek:
	case renews:
		r.Granted = live[held+slotTokens]
		live = addSlot(freeSlot(live, held), a.Now+c.ttl(a), int64(a.ID), r.Granted)
	case a.Op == Return:
		live, r.Granted = c.giveBack(live, held, a)
		used -= r.Granted
	case n > 0 && used < maxUsed:
		id := int64(a.ID)
		if a.Op == Charge {
			id = 0
		}
		n = saturated(used, n, maxUsed) - used
		live = addSlot(live, a.Now+c.ttl(a), id, n)
		used += n
	}
	r.Balance = c.count - used
	r.Reset = max(0, c.Until(live)-a.Now)
	if !ok || a.Op == Peek {
		return words, r
	}
	return live, r
}

// ttl returns the lease that a requests for its slot.
func (c *Concurrency) ttl(a Ask) int64 {
	if a.TTL <= 0 {
		return c.lease
	}
	return min(a.TTL, MaxSpan)
}

// expires is the instant at which n tokens of the slots will have expired.
func expires(s []int64, n int64) int64 {
	i := 0
	for n -= s[slotTokens]; n > 0; n -= s[i+slotTokens] {
		i += slotWords
	}
	return s[i]
}

// freeSlot is s without the slot at index i.
func freeSlot(s []int64, i int) []int64 {
	return append(s[:i], s[i+slotWords:]...)
}

// addSlot is s with one more slot.
func addSlot(s []int64, expiry, id, n int64) []int64 {
	if len(s) >= maxSlots*slotWords {
		last := len(s) - slotWords
		for s[last+slotID] != 0 {
			last -= slotWords
		}
		expiry, n = max(expiry, s[last]), n+s[last+slotTokens]
		s = freeSlot(s, last)
	}
	i := len(s)
	for ; i > 0 && s[i-slotWords] >= expiry; i -= slotWords {
		if j := i - slotWords; id == 0 && s[j+slotID] == 0 && s[j] == expiry {
			s[j+slotTokens] += n
			return s
		}
	}
	s = append(s, 0, 0, 0)
	copy(s[i+slotWords:], s[i:])
	s[i+slotExpiry], s[i+slotID], s[i+slotTokens] = expiry, id, n
	return s
}

// giveBack frees the slot at index held of a.ID or, without an ID, a.N anonymous
// tokens, the soonest to expire first. It says how many tokens those were.
func (c *Concurrency) giveBack(s []int64, held int, a Ask) ([]int64, int64) {
	if a.ID != 0 {
		if held < 0 {
			return s, 0
		}
		n := s[held+slotTokens]
		return freeSlot(s, held), n
	}
	left := a.N
	kept := s[:0]
	for i := 0; i < len(s); i += slotWords {
		slot := [slotWords]int64(s[i:])
		if slot[slotID] == 0 && (a.At == 0 || a.At == slot[slotExpiry]-c.lease) {
			g := min(left, slot[slotTokens])
			left -= g
			slot[slotTokens] -= g
		}
		if slot[slotTokens] > 0 {
			kept = append(kept, slot[:]...)
		}
	}
	return kept, a.N - left
}

// Until implements [Rule].
func (c *Concurrency) Until(s []int64) int64 {
	if s = slots(s); len(s) == 0 {
		return 0
	}
	return s[len(s)-slotWords]
}

// Shift implements [Rule].
func (c *Concurrency) Shift(s []int64, d int64) {
	s = slots(s)
	for i := 0; i < len(s); i += slotWords {
		s[i] = max(1, s[i]-d)
	}
}
