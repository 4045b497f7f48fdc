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

// A Guard asks about one place. It is safe for concurrent use.
type Guard struct {
	registry *Registry
	place    *place
	point    *Resource
	count    counters
}

// counters are how a guard does.
type counters struct {
	passed, denied, undecided, failed, running, busy atomic.Int64
}

// A visit is a call at a gate. It is used again.
type visit struct {
	call call
	pass enforce.Admission
}

// Enter asks whether a call may go through for key, and waits if the rule says so; an
// empty key is one for all. An error is a *Denied or a *Undecided, or wraps
// weir.ErrInvalid. Otherwise the caller exits the entry when the call is done.
func (g *Guard) Enter(ctx context.Context, key string) (*Entry, error) {
	return g.EnterN(ctx, key, 1)
}

// EnterN is Enter at a cost of n tokens of every limit, or of n times the cost that the
// rule says. A cost of 0 asks and takes nothing.
func (g *Guard) EnterN(ctx context.Context, key string, n int64) (*Entry, error) {
	if g == nil {
		return nil, errNil
	}
	return g.enter(ctx, key, n, g.point.Answered)
}

var errNil = fmt.Errorf("guard: %w: want a guard of Registry.Guard, got nil", weir.ErrInvalid)

func (g *Guard) enter(ctx context.Context, key string, n int64, answered bool) (*Entry, error) {
	if n < 0 {
		return nil, invalid(g.point.Name, "want a cost of 0 or more tokens, got %d", n)
	}
	e, now := g.newEntry(ctx), g.place.ruling.Load()
	if now.gate != nil {
		if err := g.ask(e, now, key, n, answered); err != nil {
			return nil, err
		}
	}
	if len(now.wards) > 0 {
		if err := g.askWards(e, now, key); err != nil {
			return nil, err
		}
	}
	return e.begin(), nil
}

// ask asks the limits about a call.
func (g *Guard) ask(e *Entry, now *ruling, key string, n int64, answered bool) error {
	v := g.registry.visits.Get().(*visit)
	v.call.set(key, n)
	outcome := now.gate.Enter(e.ctx, &v.call, &v.pass)
	if outcome.Passes() {
		e.decision = v.pass.Decision()
		e.decision.OK = true // also of a call under no limit
	}
	err := v.pass.Err()
	if err != nil && (outcome == enforce.FailedOpen || outcome == enforce.FailedClosed) {
		g.count.undecided.Add(1)
	}
	switch outcome {
	case enforce.Admitted:
		err = nil
	case enforce.FailedOpen:
		e.decision.Degraded = policy.Open
		if err = g.undecided(err, answered, key); err != nil {
			v.pass.Cancel()
		}
	case enforce.Denied:
		g.count.denied.Add(1)
		err = &Denied{Name: g.point.Name, Message: g.message(limited), Decision: v.pass.Decision()}
	default:
		err = &StoreError{Name: g.point.Name, Err: err}
	}
	if err == nil && (v.pass.NeedsExit() || len(now.wards) > 0) {
		e.visit = v
		return nil
	}
	g.leave(v, enforce.Result{})
	return err
}

// undecided is the error of a call that goes through undecided, or nil if nobody wants
// to know.
func (g *Guard) undecided(err error, answered bool, key string) error {
	if !answered {
		return nil
	}
	return &StoreError{Name: g.point.Name, FailsOpen: true, Err: err, guard: g, key: key}
}

// leave ends a visit.
func (g *Guard) leave(v *visit, r enforce.Result) {
	v.pass.Exit(r)
	v.call.set("", 1)
	g.registry.visits.Put(v)
}

// askWards asks what has a say beside limits. If one refuses, e is over.
func (g *Guard) askWards(e *Entry, now *ruling, key string) error {
	entered := false
	defer func() {
		if !entered {
			e.callOff() // also of a Ward that panics
		}
	}()
	for _, w := range now.wards {
		exit, err := w.Enter(e.ctx, key)
		if err != nil {
			if e.ctx.Err() != nil && (errors.Is(err, e.ctx.Err()) || errors.Is(err, context.Cause(e.ctx))) {
				g.count.undecided.Add(1)
				return &StoreError{Name: g.point.Name, Err: fmt.Errorf("%s: %w", w.name, err)}
			}
			g.count.denied.Add(1)
			return &Denied{Name: g.point.Name, Message: g.message(refused), Cause: fmt.Errorf("%s: %w", w.name, err)}
		}
		if exit != nil {
			e.exits = append(e.exits, exit)
		}
	}
	entered = true
	return nil
}

// message is that of a Denied.
func (g *Guard) message(otherwise string) string {
	if g.point.Message != "" {
		return g.point.Message
	}
	return otherwise
}

// Enter asks about a resource of the Default registry by name, with one key for all: code
// that is not one function. What rules its name has are those of Config.Functions. A
// resource without a rule limits nobody, and Live lists it.
//
//	e, err := guard.Enter(ctx, "resource")
//	if err != nil {
//		return err
//	}
//	defer func() { e.Exit(err) }()
func Enter(ctx context.Context, name string) (*Entry, error) {
	return Default().Enter(ctx, name, "")
}

// Enter is as the function Enter, for this registry and for key. The name has the form of
// policy.Config.Name; that of a guard is limited as the guard. Of names without a rule
// 10,000 are remembered: further ones are under the rule of the system alone, and Live
// lists them together as "…".
func (r *Registry) Enter(ctx context.Context, name, key string) (*Entry, error) {
	g, err := r.resource(name)
	if err != nil {
		return nil, err
	}
	return g.enter(ctx, key, 1, false)
}

// newEntry is an entry of a call that has not begun.
func (g *Guard) newEntry(ctx context.Context) *Entry {
	if ctx == nil { // of a function that never looks at its own: a limit does not break it
		ctx = context.Background()
	}
	return &Entry{guard: g, ctx: ctx, decision: weir.Decision{OK: true}}
}
