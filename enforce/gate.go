package enforce

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/policy"
)

// Options configure how policies are enforced, in every interface.
type Options struct {
	// Local decides for policies whose OnStoreError is Local while the store makes no
	// decision: see package failover. It is required if there is one.
	Local weir.Store

	// MaxWaiters bounds the requests that policies with an OnDenied.Wait hold back at a
	// time; one more is denied at once. DefaultMaxWaiters if zero.
	MaxWaiters int

	// SettleTTL is how long tokens stay reserved for a request that is charged by its
	// result; DefaultSettleTTL if zero, 1s to bounds.MaxTTL. A request that runs longer is
	// charged at its end; until then other requests can take what it had reserved.
	SettleTTL time.Duration
}

// Check returns an error, which wraps weir.ErrInvalid, if a field is invalid. It does not know
// whether Local is required.
func (o *Options) Check() error {
	switch {
	case o.MaxWaiters < 0:
		return fmt.Errorf("enforce: MaxWaiters: %w: got %d, want 0 or more", weir.ErrInvalid, o.MaxWaiters)
	case o.SettleTTL != 0 && (o.SettleTTL < time.Second || o.SettleTTL > bounds.MaxTTL):
		return fmt.Errorf("enforce: SettleTTL: %w: got %v, want 0, or 1s to %v", weir.ErrInvalid, o.SettleTTL, bounds.MaxTTL)
	}
	return nil
}

// A Config configures an Enforcer. Its zero value works.
type Config struct {
	Options

	// NoResponse says that there are no results, as at a door that only answers whether a
	// request may pass. What policies would count by the result is then counted when it
	// is admitted, and a slot is free again at once.
	NoResponse bool

	// ChargeGone says that what was taken for a request whose context ends before it
	// passes stays taken, as at a door to strangers: who asks and leaves would otherwise
	// ask for nothing. What was reserved goes back all the same.
	KeepOnCancel bool

	// Observe, if not nil, is told what became of a request, once for each policy
	// that it fell under; see [Unsettled] for the exception. It is called before Enter
	// returns and has to be quick. It does not keep a.
	Observe func(ctx context.Context, a policy.Attributes, e Event)
}

// The defaults of Options.
const (
	DefaultMaxWaiters = 1024
	DefaultSettleTTL  = 10 * time.Minute
)

// A Gate asks about the policies of a set. It is safe for concurrent use.
type Enforcer struct {
	store   weir.Store
	set     *policy.Set
	c       Config
	room    waitqueue.Queue
	waits   bool // a policy holds denied requests back
	settles bool // a policy counts by the result
	counts  bool // a policy counts what is denied
	next    atomic.Pointer[Enforcer]
}

// New makes a gate that asks store about the policies of set. An error wraps
// weir.ErrInvalid.
func New(store weir.Store, set *policy.Set, c Config) (*Enforcer, error) {
	switch {
	case store == nil:
		return nil, fmt.Errorf("enforce: store: %w: got nil, want a store", weir.ErrInvalid)
	case set == nil:
		return nil, fmt.Errorf("enforce: policies: %w: got nil, want a set", weir.ErrInvalid)
	}
	if err := c.Options.Check(); err != nil {
		return nil, err
	}
	c.MaxWaiters = cmp.Or(c.MaxWaiters, DefaultMaxWaiters)
	c.SettleTTL = cmp.Or(c.SettleTTL, DefaultSettleTTL)
	g := &Enforcer{store: store, set: set, c: c}
	g.room.Max, g.room.Clock = c.MaxWaiters, waitqueue.ClockOf(store)
	for _, p := range set.Policies() {
		pc := p.Config()
		if pc.OnStoreError == policy.Local && c.Local == nil {
			return nil, fmt.Errorf("enforce: Local: %w: got nil, want a store, since policy %s has on_store_error local", weir.ErrInvalid, p.Name())
		}
		g.waits = g.waits || pc.OnDenied.Wait > 0
		g.counts = g.counts || pc.Count == policy.CountAll
		g.settles = g.settles || !c.NoResponse && byResult(&pc)
	}
	return g, nil
}

// Yield makes next, which has not yielded, the successor of g. What waits in g is asked
// about by next when its time comes, and has waited already for as long as it has; so is
// what comes to g from now on. What has passed stays with g.
func (g *Enforcer) Replace(next *Enforcer) {
	if next != nil && next != g {
		g.next.Store(next)
	}
}

// last is the gate that has not yielded.
func (g *Enforcer) last() *Enforcer {
	for next := g; next != nil; next = g.next.Load() {
		g = next
	}
	return g
}

// Enter asks about the request that a describes, and waits as the policies say. It
// returns one of Admitted, Denied, FailedOpen and FailedClosed. A request under no
// policy is Admitted. The caller that passes calls p.Exit once it is done, if
// p.Holds. A queue's delay has passed when Enter returns. If ctx ends first, the
// outcome is FailedClosed, p.Err is its cause, and nothing stays taken that its limits
// can give back, unless Config.ChargeGone says otherwise. A request that does not pass
// holds nothing.
//
// p.Asks, p.Decisions and what they hold are good until p is used again.
func (g *Enforcer) Enter(ctx context.Context, a policy.Attributes, p *Admission) Outcome {
	p.begin(ctx, g, a)
	entered := false
	defer func() {
		if !entered {
			p.drop() // an Observe that panics keeps nothing
		}
	}()
	g.enter(p)
	if p.outcome.Passes() {
		p.open.Store(true)
	} else {
		p.drop()
	}
	entered = true
	return p.outcome
}

// enter is Enter, with the outcome in p.
func (g *Enforcer) enter(p *Admission) {
	p.requests = g.set.Match(&p.q, p.a)
	if n := len(p.q.Requests); cap(p.ds) < n {
		p.ds = make([]weir.Decision, n)
	} else {
		p.ds = p.ds[:n]
		clear(p.ds)
	}
	for p.enforced < len(p.q.Charges) && !p.shadow(&p.q.Charges[p.enforced]) {
		p.enforced++
	}
	var delay time.Duration
	if p.enforced > 0 {
		delay = g.enforce(p)
	}
	if p.outcome == yielded {
		p.move(g.last())
		p.gate.enter(p)
		return
	}
	admitted, shadows := p.outcome.Passes(), p.q.Charges[p.enforced:]
	for i := range shadows {
		if admitted || shadows[i].Always {
			g.try(p, shadows[i:i+1], admitted)
		}
	}
	if admitted && delay > 0 {
		if err := g.room.Sleep(p.ctx, delay); err != nil {
			p.outcome, p.err = FailedClosed, err
		}
	}
	switch {
	case p.outcome == FailedClosed && p.ctx.Err() != nil:
		g.leave(p, p.q.Charges)
	case p.held == nil:
	case g.c.NoResponse && admitted:
		p.held.cancel()
		p.held = nil
	case p.held.empty():
		p.held = nil
	}
}
