package enforce

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/internal/bounds"
	"github.com/floodweir/weir/internal/missing"
	"github.com/floodweir/weir/internal/waitqueue"
	"github.com/floodweir/weir/policy"
)

// Options has the settings that are the same for every interface.
type Options struct {
	// Local decides for policies whose OnStoreError is Local while the store makes no
	// decision; one of NewLocal if nil. Set a store of failover.NewLocal where several
	// processes share the limits.
	Local weir.Store

	// MaxWaiters bounds the requests that policies with an OnDenied.Wait hold back at a
	// time; one more is denied at once. DefaultMaxWaiters if zero.
	MaxWaiters int

	// SettleTTL bounds the reservation of tokens for a request that is charged by its
	// result; DefaultSettleTTL if zero, 1s to bounds.MaxTTL. A request that runs longer is
	// charged at its end; until then other requests can take what it had reserved.
	SettleTTL time.Duration

	// LimitFunc, if not nil, returns the limit of each key instead of the policies: each has
	// one key part, a KeyFunc, and one limit, which is not used. LimitFunc gets the text of
	// the key, which may be empty. If it returns an error or the zero Limit, no decision is
	// made, and OnStoreError applies; Local then refuses the request. Return a default for
	// unknown keys.
	LimitFunc weir.LimitFunc
}

// Check returns an error, which wraps weir.ErrInvalid, if a field is invalid.
func (o *Options) Check() error {
	switch {
	case o.Local != nil && missing.Value(o.Local):
		return fmt.Errorf("enforce: Local: %w: got a nil %T, want a store or none", weir.ErrInvalid, o.Local)
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

	// NoResponse declares that there are no results, as for an interface that only decides.
	// Policies that count by the result then count admitted requests, and a slot is
	// returned at once.
	NoResponse bool

	// KeepOnCancel keeps the charges of a request whose context ends before it passes, so
	// that disconnecting early does not avoid the charge. Reservations are returned
	// nevertheless.
	KeepOnCancel bool

	// DecideCanceled decides a request whose context has ended like any other, except that it
	// does not wait. If the store makes no decision, OnStoreError applies.
	DecideCanceled bool

	// Observe, if not nil, is called with the outcome of a request for each of its policies,
	// before Enter returns. Exit and Extend can call it too, with outcomes that are AtEnd. It must be quick and
	// must not keep a.
	Observe func(ctx context.Context, a policy.Attributes, event Event)
}

// The default values of fields of Options.
const (
	DefaultMaxWaiters = 1024
	DefaultSettleTTL  = 10 * time.Minute
)

// An Enforcer decides requests by the policies of a set. It is safe for concurrent use.
type Enforcer struct {
	store    weir.Store
	set      *policy.Set
	c        Config
	queue    waitqueue.Queue
	waits    bool      // a policy has an OnDenied.Wait
	settles  bool      // a policy counts by the result
	counts   bool      // a policy counts denied requests
	blocks   bool      // a policy blocks requests
	prompt   bool      // store never waits
	free     sync.Pool // of *reservations
	epoch    time.Time // Since reads one clock of the kernel, Now two
	next     atomic.Pointer[Enforcer]
	changes  sync.Mutex            // held by SetPolicies
	limiters map[string]keyLimiter // by policy; nil without a LimitFunc
}

// New returns an Enforcer of the policies of set with their state in store. An error wraps
// weir.ErrInvalid.
func New(store weir.Store, set *policy.Set, c Config) (*Enforcer, error) {
	switch {
	case missing.Value(store):
		return nil, fmt.Errorf("enforce: store: %w: got nil, want a store", weir.ErrInvalid)
	case set == nil:
		return nil, fmt.Errorf("enforce: policies: %w: got nil, want a set", weir.ErrInvalid)
	}
	if err := c.Options.Check(); err != nil {
		return nil, err
	}
	if c.Local == nil {
		c.Local = NewLocal()
	}
	c.MaxWaiters = cmp.Or(c.MaxWaiters, DefaultMaxWaiters)
	c.SettleTTL = cmp.Or(c.SettleTTL, DefaultSettleTTL)
	e := &Enforcer{store: store, set: set, c: c, epoch: time.Now()}
	e.queue.Max, e.queue.Clock = c.MaxWaiters, waitqueue.ClockOf(store)
	e.blocks, e.prompt = set.Blocks(), neverWaits(store)
	for _, p := range set.Policies() {
		pc := p.Config()
		e.waits = e.waits || pc.OnDenied.Wait > 0
		e.counts = e.counts || pc.Count == policy.CountAll
		e.blocks = e.blocks || pc.Settle.Meter != nil
		e.settles = e.settles || !c.NoResponse && byResult(&pc)
	}
	if c.LimitFunc != nil {
		var err error
		if e.limiters, err = keyLimiters(store, set, c.LimitFunc); err != nil {
			return nil, err
		}
	}
	return e, nil
}

// Replace makes next, which is not replaced itself, the successor of e. Next decides all
// later requests to e, and those that wait in e when it is their turn, with the time that
// they have waited. Admissions of e stay with e.
func (e *Enforcer) Replace(next *Enforcer) {
	if next != nil && next != e {
		e.next.Store(next)
	}
}

// SetPolicies decides later requests to e, and those that wait in it, by the policies of set.
// Keys carry their state over, as with policy.Set.WithPrevious. After an error, which wraps
// weir.ErrInvalid, the policies before stay.
func (e *Enforcer) SetPolicies(set *policy.Set) error {
	e.changes.Lock()
	defer e.changes.Unlock()
	last := e.current()
	if set != nil {
		set = set.WithPrevious(last.set)
	}
	next, err := New(e.store, set, e.c)
	if err != nil {
		return err
	}
	last.Replace(next)
	e.Replace(next) // drops those between, once their requests have ended
	return nil
}

// current returns the last successor of e, or e.
func (e *Enforcer) current() *Enforcer {
	for next := e; next != nil; next = e.next.Load() {
		e = next
	}
	return e
}

// Enter decides the request with attributes a, and waits as the policies require. It
// returns Admitted, Denied, FailedOpen, FailedClosed or Overloaded. A request without a policy
// is Admitted. The caller of a request that passes calls p.Exit at its end, if p.NeedsExit.
// The delay of a queue has passed when Enter returns. If ctx ends first, the outcome is
// FailedClosed and p.Err is the cause; charges are returned, unless Config.KeepOnCancel is
// set. With Config.DecideCanceled that holds only for a request that has to wait. A request
// that does not pass has no reservations.
//
// p.Charges, p.Decisions and their elements are valid until p is used again.
func (e *Enforcer) Enter(ctx context.Context, a policy.Attributes, p *Admission) Outcome {
	e = e.current()
	p.begin(ctx, e, a)
	entered := false
	defer func() {
		if !entered {
			p.release() // Observe has panicked
		}
	}()
	e.match(p)
	delay := e.enforce(p)
	for p.outcome == replaced {
		e = e.current()
		p.move(e)
		e.match(p)
		delay = e.enforce(p)
	}
	e.finish(p, delay)
	if p.outcome.Passes() {
		p.open.Store(true)
	} else {
		p.release()
	}
	entered = true
	return p.outcome
}

// match finds the charges of the request of p.
func (e *Enforcer) match(p *Admission) {
	p.requests = e.set.Match(&p.q, p.a)
	if n := len(p.q.Requests); cap(p.ds) < n {
		p.ds = make([]weir.Decision, n)
	} else {
		p.ds = p.ds[:n]
		clear(p.ds)
	}
	for p.enforced < len(p.q.Charges) && !p.shadow(&p.q.Charges[p.enforced]) {
		p.enforced++
	}
}

// finish decides the policies in shadow mode, waits for the delay of a queue, and drops
// reservations that are not needed.
func (e *Enforcer) finish(p *Admission, delay time.Duration) {
	admitted, shadows := p.outcome.Passes(), p.q.Charges[p.enforced:]
	for i := range shadows {
		if admitted || shadows[i].Always {
			e.try(p, shadows[i:i+1], admitted)
		}
	}
	if admitted && delay > 0 {
		if err := e.queue.Sleep(p.ctx, delay); err != nil {
			p.outcome, p.err = FailedClosed, err
		}
	}
	switch {
	case (p.outcome == FailedClosed || p.outcome == Overloaded) && p.ctx.Err() != nil:
		e.undo(p, p.q.Charges)
	case p.reserved == nil:
	case e.c.NoResponse && admitted:
		p.reserved.cancel()
		p.reserved = nil
	case p.reserved.empty():
		p.reserved.recycle()
		p.reserved = nil
	}
}
