package share

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/algo"
	"github.com/floodweir/weir/internal/batching"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/share/internal/parts"
)

// Grants grants parts of limits to holders outside of this process. Such a holder decides by a
// token bucket for a stated time, as the clients of a quota protocol do. NewGrants makes it. It is
// safe for concurrent use.
//
// A row lists such holders beside the stores of package share, so all of them share a limit. A
// holder that does not renew its part loses it: another claim of the row, in any process, returns it
// empty to the remainder. That is after the row was watched for the holder's lease.
type Grants struct {
	ledger  Ledger
	timeout time.Duration
	drift   int64
	clock   *clock
	limits  limits
	queues  []batching.Queue[*grantOp] // a row always uses the same one

	mu      sync.Mutex
	watches map[string]*watch // by the name of the row
}

// A watch holds what this process has seen of the holders of a row. The queue of the row uses it.
type watch struct {
	seen []watched
	used int64 // local µs of the last claim; guarded by Grants.mu
}

// maxWatches is the number of rows from which those without claims are no longer watched.
const maxWatches = 1 << 16

// A Claim is the request of one holder for a part of a limit.
type Claim struct {
	Key   string
	Limit weir.Limit // a token bucket or leaky bucket that Supports accepts

	// Holder identifies the holder. It is random, and the same in all claims of the holder.
	Holder uint64

	// Lease is the time after which the holder surely no longer uses its part, since the begin of
	// Do. It has to contain the time until the holder learns of its part.
	Lease time.Duration

	// Demand is the demand of the holder, in tokens per second.
	Demand float64

	// Used is the number of tokens that the holder used without a part. They are charged to the
	// remainder, also as debt.
	Used int64

	// New is the number of tokens that are charged too if the ledger has no row of the limit.
	New int64

	// Decide returns the part that the holder has from now on. Its Rate and Size are at most those
	// of Held and Free together. What it lacks of Held returns to the remainder without tokens. Its
	// Level is the number of tokens that move from the remainder to the holder, at most that of
	// Free. Decide runs on another goroutine, and again if another process has written the row.
	Decide func(Offer) Part

	Err error // set by Do
}

// An Offer is the state of a limit, for Claim.Decide.
type Offer struct {
	Whole   Part       // of the limit; its Level is its capacity
	Held    Part       // by the holder, without a Level
	Free    Part       // the remainder; below zero while a changed limit has granted more than its whole
	Reserve Part       // of Free, that is kept for holders without a part
	Demand  int64      // of the holder, as a Rate
	Others  []Claimant // the other holders
	At      time.Time  // of the ledger

	span, drift int64
}

// A Part is a part of a limit: a token bucket.
type Part struct {
	Rate  int64 // in units of Offer.Tokens
	Size  int64 // the capacity, in tokens
	Level int64 // tokens
}

// A Claimant is another holder in an Offer.
type Claimant struct {
	Holder uint64
	Rate   int64 // of its part; 0 if it waits for one
	Demand int64 // as a Rate
}

// Tokens returns the number of whole tokens that a rate gives in a period. A holder whose clock is
// faster by Config.Drift gets no more.
func (o *Offer) Tokens(rate int64, period time.Duration) int64 {
	return parts.FloorScale(parts.FloorScale(max(0, rate), million, million+o.drift), period.Microseconds(), o.span)
}

// Rate returns the least rate whose Tokens are n in a period.
func (o *Offer) Rate(n int64, period time.Duration) int64 {
	return parts.CeilScale(parts.CeilScale(n, o.span, max(1, period.Microseconds())), million+o.drift, million)
}

// Size returns the capacity that belongs to a rate.
func (o *Offer) Size(rate int64) int64 { return parts.FloorScale(o.Whole.Size, rate, o.Whole.Rate) }

const million = 1_000_000

// NewGrants returns the Grants of a ledger. It uses Drift, Timeout and InFlight of c. An error wraps
// weir.ErrInvalid.
func NewGrants(ledger Ledger, c Config) (*Grants, error) {
	if missing.Value(ledger) {
		return nil, fmt.Errorf("share: ledger: %w: got nil, want a ledger such as NewMemory", weir.ErrInvalid)
	}
	c, err := c.normalize()
	if err != nil {
		return nil, err
	}
	g := &Grants{
		ledger: ledger, timeout: c.Timeout, drift: int64(c.Drift), clock: newClock(int64(c.Drift)),
		watches: map[string]*watch{},
	}
	g.queues = newQueues(c, MaxBatch, g.send)
	return g, nil
}

// Close ends the calls that wait. Holders keep their parts until their leases end. Later calls
// return weir.ErrClosed.
func (g *Grants) Close() {
	for i := range g.queues {
		g.queues[i].Close()
	}
}

// Do makes claims, and sets their Err. If it returns an error, such as that of ctx, claims may be in
// flight: the caller must not read or change them any more. A claim with an error may have been
// written: the next claim of the holder finds out, because Held is what the row has.
//
// Errors wrap weir.ErrInvalid, weir.ErrUnavailable, or weir.ErrFull if the row has no room for
// another holder.
func (g *Grants) Do(ctx context.Context, claims ...*Claim) error {
	byQueue := make([][]*grantOp, len(g.queues))
	for _, c := range claims {
		c.Err = nil
		l, err := g.limits.divide(c.Limit)
		switch {
		case err != nil:
			c.Err = err
		case !l.Bucket:
			c.Err = fmt.Errorf("share: claim: limit %q: %w: want a token_bucket or leaky_bucket", c.Limit.Brief(), weir.ErrInvalid)
		case c.Lease <= 0 || c.Lease > maxGrantLease:
			c.Err = fmt.Errorf("share: claim: lease: %w: got %v, want more than 0 and at most %v", weir.ErrInvalid, c.Lease, maxGrantLease)
		}
		if c.Err != nil {
			continue
		}
		o := &grantOp{claim: c, limit: l, name: rowName(c.Key, c.Limit)}
		h := fnv.New64a()
		h.Write([]byte(o.name))
		q := h.Sum64() % uint64(len(g.queues))
		byQueue[q] = append(byQueue[q], o)
	}
	errs := make([]error, len(byQueue))
	var wg sync.WaitGroup
	for i, ops := range byQueue {
		if len(ops) > 0 {
			wg.Go(func() { errs[i] = g.queues[i].Do(ctx, ops...) })
		}
	}
	wg.Wait()
	for i, ops := range byQueue {
		if errs[i] != nil {
			return errs[i]
		}
		for _, o := range ops {
			o.claim.Err = o.Err
		}
	}
	return nil
}

// maxGrantLease bounds Claim.Lease.
const maxGrantLease = 24 * time.Hour

// A grantOp is a claim on its way.
type grantOp struct {
	batching.Wait
	claim *Claim
	limit *parts.Limit
	name  string // of the row
}

// Requests implements batching.Op.
func (o *grantOp) Requests() int { return 1 }

// send makes claims, by one Load and one Swap for up to MaxBatch rows, and repeats those whose rows
// another process has written meanwhile.
func (g *Grants) send(ops []*grantOp) {
	for try := 0; len(ops) > 0; try++ {
		var later []*grantOp
		var names []string
		rows := map[string][]*grantOp{}
		for _, o := range ops {
			same := rows[o.name]
			if len(same) > 0 && same[0].limit.Text != o.limit.Text || same == nil && len(names) == MaxBatch {
				later = append(later, o)
				continue
			}
			if same == nil {
				names = append(names, o.name)
			}
			rows[o.name] = append(same, o)
		}
		ops = append(later, g.exchange(names, rows, try == maxTries)...)
	}
}

// exchange makes the claims of rows, and returns those whose rows have changed.
func (g *Grants) exchange(names []string, rows map[string][]*grantOp, last bool) (again []*grantOp) {
	ctx, cancel := context.WithTimeout(context.Background(), g.timeout)
	defer cancel()
	fail := func(name string, err error) {
		for _, o := range rows[name] {
			if o.Err == nil {
				o.Err = err
			}
		}
	}
	stored := make([]Stored, len(names))
	sent := g.clock.now()
	at, err := g.ledger.Load(ctx, names, stored)
	received := g.clock.now()
	var swaps []Swap
	for i, name := range names {
		s, bad := Swap{}, err
		if bad == nil {
			s, bad = g.write(rows[name], stored[i], at, sent, received)
		}
		if bad != nil {
			fail(name, bad)
			continue
		}
		swaps = append(swaps, s)
	}
	if len(swaps) == 0 {
		return nil
	}
	err = g.ledger.Swap(ctx, swaps)
	for i := range swaps {
		name := swaps[i].Name
		switch {
		case err != nil:
			fail(name, err)
		case swaps[i].Done:
		case last:
			fail(name, unavailable("swap", errContended))
		default:
			again = append(again, rows[name]...)
		}
	}
	return again
}

// write makes the claims of a row, and returns its new content.
func (g *Grants) write(ops []*grantOp, stored Stored, at time.Time, sent, received moment) (s Swap, err error) {
	var r row
	name := ops[0].name
	if stored.Version != 0 {
		if err := r.decode(stored.Data); err != nil {
			return s, err
		}
	}
	now, in, err := r.open(ops[0].limit, at.UnixMicro(), true)
	if err != nil {
		return s, err
	}
	r.reclaim(in, 0, &g.watch(name, received).seen, sent, received, now)
	for _, o := range ops {
		if n := o.claim.New; n > 0 && stored.Version == 0 && len(r.holders) == 0 {
			r.rest.Do(algo.Ask{Op: algo.Charge, Now: now, N: min(n, in.Whole.Size)})
		}
		o.Err = o.write(&r, in, now, at, g.drift)
	}
	return r.swap(ops[0].claim.Key, name, stored.Version, in, now)
}

// write lets a holder change its part.
func (o *grantOp) write(r *row, in *parts.Limit, now int64, at time.Time, drift int64) error {
	c := o.claim
	if c.Used > 0 {
		r.rest.Do(algo.Ask{Op: algo.Charge, Now: now, N: min(c.Used, in.Whole.Size)})
	}
	mine := r.find(c.Holder)
	if mine == nil && len(r.holders) >= maxHolders {
		return fmt.Errorf("share: claim of %.40q: %w: %d other holders have parts, want fewer", c.Key, weir.ErrFull, maxHolders)
	}
	reserve := in.Reserve()
	v := Offer{
		Whole:   Part{Rate: in.Whole.Rate, Size: in.Whole.Size, Level: in.Whole.Size},
		Free:    Part{Rate: r.rest.Rate, Size: r.rest.Size, Level: max(0, r.rest.Level(now))},
		Reserve: Part{Rate: reserve.Rate, Size: reserve.Size},
		Demand:  int64(min(max(0, c.Demand)*float64(in.Span)/million, 1<<50)),
		At:      at, span: in.Span, drift: drift,
	}
	for i := range r.holders {
		if h := &r.holders[i]; h.id != c.Holder {
			v.Others = append(v.Others, Claimant{Holder: h.id, Rate: h.part.Rate, Demand: h.demand})
		}
	}
	seq := uint64(1)
	if mine != nil {
		seq = mine.seq + 1
		v.Held = Part{Rate: mine.part.Rate, Size: mine.part.Size}
	}
	p := c.Decide(v)
	held := parts.Part{Rate: v.Held.Rate, Size: v.Held.Size}
	more := parts.Part{Rate: max(0, p.Rate-held.Rate), Size: max(0, p.Size-held.Size)}
	less := parts.Part{Rate: max(0, held.Rate-p.Rate), Size: max(0, held.Size-p.Size)}
	if p.Rate < 0 || p.Size < 0 || p.Level < 0 || more.Rate > max(0, v.Free.Rate) || more.Size > max(0, v.Free.Size) || p.Level > v.Free.Level {
		return fmt.Errorf("share: claim of %.40q: %w: got the part %+v of %+v, want at most what is held and free", c.Key, weir.ErrInvalid, p, v.Free)
	}
	r.rest.Put(in, less, 0, now)
	r.rest.Take(in, more, p.Level, now)
	r.set(holder{id: c.Holder, seq: seq, part: held.Plus(more).Minus(less), demand: v.Demand, lease: c.Lease.Microseconds()})
	return nil
}

// watch returns the watch of a row.
func (g *Grants) watch(name string, m moment) *watch {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.watches[name]
	if w == nil {
		if len(g.watches) >= maxWatches {
			g.forget(m)
		}
		w = &watch{}
		g.watches[name] = w
	}
	w.used = m.local
	return w
}

// forget ends the watches without claims for the longest lease or, if there are none, half of all.
// A holder that is watched anew keeps its part for another lease. It requires mu.
func (g *Grants) forget(m moment) {
	idle := m.local - maxGrantLease.Microseconds()
	for pass := 0; pass < 2 && len(g.watches) >= maxWatches; pass++ {
		for name, w := range g.watches {
			if w.used < idle || pass == 1 && len(g.watches) > maxWatches/2 {
				delete(g.watches, name)
			}
		}
	}
}
