package guard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
	"github.com/floodweir/weir/policy"
)

// A Guard limits one place in a program. It is safe for concurrent use.
type Guard struct {
	registry *Registry
	group    *group
	resource *Resource
	count    counters
}

// counters is the number of calls of a guard, by outcome.
type counters struct {
	passed, denied, undecided, failed, keyFaults, finished, busy atomic.Int64
}

// An invocation is a call at an enforcer. It is reused.
type invocation struct {
	call      call
	admission enforce.Admission
}

// Enter decides about a call for key, and waits if the rule says so. All calls with an empty key
// share one bucket. An error is a *Denied or a *StoreError, or wraps weir.ErrInvalid. Otherwise
// the caller must exit the entry at the end of the call.
//
// The end of ctx ends a wait, but denies nothing: a call with an ended context that need not wait
// is decided like any other. A store that makes no decision because of it has failed, so
// on_store_error decides.
func (g *Guard) Enter(ctx context.Context, key string) (*Entry, error) {
	return g.EnterN(ctx, key, 1)
}

// EnterN decides about a call that costs n tokens of every limit, or n times the cost of the
// rule. A cost of 0 takes nothing.
func (g *Guard) EnterN(ctx context.Context, key string, n int64) (*Entry, error) {
	if g == nil {
		return nil, errNil
	}
	return g.enter(ctx, key, n, g.resource.HandlesStoreError, nil)
}

// EnterFunc decides about a call as EnterN does; key returns its key. If key panics, because of a
// nil pointer for example, the call shares the bucket of calls with an empty key. Status.KeyFaults
// counts that, and Config.Observe gets it as Event.Fault.
func (g *Guard) EnterFunc(ctx context.Context, n int64, key func() string) (*Entry, error) {
	if g == nil {
		return nil, errNil
	}
	k, fault := keyOf(key)
	return g.enter(ctx, k, n, g.resource.HandlesStoreError, fault)
}

var errNil = fmt.Errorf("guard: %w: want a guard of Registry.Guard, got nil", weir.ErrInvalid)

// enter decides about a call. fault is the error of the function that returns its key, which is
// then empty.
func (g *Guard) enter(ctx context.Context, key string, n int64, answered bool, fault error) (*Entry, error) {
	e := new(Entry)
	if err := e.admit(ctx, g, key, n, answered, fault); err != nil {
		return nil, err
	}
	return e, nil
}

// admit decides about a call as enter does, and makes e its entry.
func (e *Entry) admit(ctx context.Context, g *Guard, key string, n int64, answered bool, fault error) error {
	if fault != nil {
		g.count.keyFaults.Add(1)
	}
	if n < 0 {
		return invalid(g.resource.Name, "want a cost of 0 or more tokens, got %d", n)
	}
	e.init(ctx, g)
	now := g.group.resolved.Load()
	ask := now.enforcer != nil
	if now.singleStore != nil && key == "" && n == 1 && fault == nil {
		if ask = !e.askSingle(now); !ask && !e.decision.OK {
			return g.denied(messageLimited, e.decision, nil)
		}
	}
	if ask {
		if err := g.enterLimits(e, now, key, n, answered, fault); err != nil {
			return err
		}
	}
	if len(now.asked) > 0 {
		if err := g.enterProtections(e, now, key); err != nil {
			return err
		}
	}
	e.begin()
	return nil
}

// askSingle sets the decision, and the slot, of the request of now.single. It reports false if the
// store makes no decision.
func (e *Entry) askSingle(now *resolved) bool {
	var err error
	if now.single.Verb == weir.Reserve {
		e.decision, e.slot, err = now.enforcer.EnterSlot(e.ctx, now.single)
	} else {
		e.decision, err = now.singleStore.Do(e.ctx, now.single)
	}
	if err != nil {
		e.decision = weir.Decision{OK: true}
	}
	return err == nil
}

// enterLimits asks the limits about a call.
func (g *Guard) enterLimits(e *Entry, now *resolved, key string, n int64, answered bool, fault error) error {
	v := g.registry.invocations.Get().(*invocation)
	v.call.set(key, n, fault)
	outcome := now.enforcer.Enter(e.ctx, &v.call, &v.admission)
	if outcome.Passes() {
		e.decision = v.admission.Decision()
		e.decision.OK = true // also if there is no limit
	}
	err := v.admission.Err()
	canceled := err != nil && e.ctx.Err() != nil
	answered = answered && !canceled // a handler has no caller to answer: the rule decides
	if err != nil && outcome != enforce.Admitted && outcome != enforce.Denied {
		g.count.undecided.Add(1)
	}
	if answered && err != nil && (outcome == enforce.Admitted || outcome == enforce.Denied) {
		// The error handlers run before Options.Local decides.
		g.count.undecided.Add(1)
		v.admission.Cancel()
		g.leave(v, enforce.Result{})
		return &StoreError{Name: g.resource.Name, FailsOpen: true, Err: err, guard: g, key: key, local: true, n: n}
	}
	switch outcome {
	case enforce.Admitted:
		err = nil
	case enforce.FailedOpen:
		e.decision.Degraded = policy.Open
		if err = g.undecided(err, answered, key); err != nil {
			v.admission.Cancel()
		}
	case enforce.Denied:
		err = g.denied(messageLimited, v.admission.Decision(), nil)
	default:
		err = &StoreError{Name: g.resource.Name, Canceled: canceled, Err: err}
	}
	if err == nil && (v.admission.NeedsExit() || len(now.asked) > 0) {
		e.invocation = v
		return nil
	}
	g.leave(v, enforce.Result{})
	return err
}

// undecided returns the error of a call that is admitted without a decision, or nil if the
// caller does not handle it.
func (g *Guard) undecided(err error, answered bool, key string) error {
	if !answered {
		return nil
	}
	return &StoreError{Name: g.resource.Name, FailsOpen: true, Err: err, guard: g, key: key}
}

// leave ends an invocation.
func (g *Guard) leave(v *invocation, r enforce.Result) {
	v.admission.Exit(r)
	v.call.set("", 1, nil)
	g.registry.invocations.Put(v)
}

// enterProtections asks the protections. If one refuses, it ends e.
func (g *Guard) enterProtections(e *Entry, now *resolved, key string) error {
	entered := false
	defer func() {
		if !entered {
			e.cancel() // also if a Protection panics
		}
	}()
	for _, w := range now.asked {
		exit, err := w.Enter(e.ctx, key)
		if err != nil {
			if e.ctx.Err() != nil && (errors.Is(err, e.ctx.Err()) || errors.Is(err, context.Cause(e.ctx))) {
				g.count.undecided.Add(1)
				return &StoreError{Name: g.resource.Name, Canceled: true, Err: fmt.Errorf("%s: %w", w.name, err)}
			}
			return g.denied(messageRefused, weir.Decision{}, fmt.Errorf("%s: %w", w.name, err))
		}
		if exit != nil {
			e.exits = append(e.exits, exit)
		}
	}
	entered = true
	return nil
}

// denied counts a refused call and returns its error. It has the given message, unless the
// Resource has one.
func (g *Guard) denied(message string, d weir.Decision, cause error) *Denied {
	g.count.denied.Add(1)
	own := g.resource.Message
	if own != "" {
		message = own
	}
	return &Denied{Name: g.resource.Name, Message: message, Decision: d, Cause: cause, whole: own != ""}
}

// Enter decides about a call of a resource by name, in the Default registry, with one key for
// all calls. It is for code that is not one function. The rules are those of Config.Functions. A
// resource without a rule has no limit; Live lists it.
//
//	e, err := guard.Enter(ctx, "resource")
//	if err != nil {
//		return err
//	}
//	defer func() { e.Exit(err) }()
func Enter(ctx context.Context, name string) (*Entry, error) {
	return Default().Enter(ctx, name, "")
}

// Enter decides about a call of a resource as the function Enter does, for key. The name has the
// form of policy.Config.Name; the name of a guard shares its limits. At most 10,000 names without
// a rule are kept: for further names only the system's rule applies, and Live lists them together
// as "…".
func (r *Registry) Enter(ctx context.Context, name, key string) (*Entry, error) {
	g, err := r.resource(name)
	if err != nil {
		return nil, err
	}
	return g.enter(ctx, key, 1, false, nil)
}

// init makes e the entry of a call that has not begun.
func (e *Entry) init(ctx context.Context, g *Guard) {
	if ctx == nil { // a function that ignores its context must not fail because of a limit
		ctx = context.Background()
	}
	e.guard, e.ctx, e.decision.OK = g, ctx, true
}
