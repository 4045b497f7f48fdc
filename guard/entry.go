package guard

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
)

// An Entry is one admitted call. The methods of a nil Entry do nothing.
type Entry struct {
	guard      *Guard
	ctx        context.Context
	start      time.Duration // by Registry.clock
	decision   weir.Decision
	invocation *invocation // nil if it holds nothing
	slot       *enforce.Slot
	exits      []func(error)
	done       atomic.Bool
}

// begin starts the call.
func (e *Entry) begin() {
	e.guard.count.passed.Add(1)
	e.start = e.guard.registry.clock()
}

// Exit ends the call with the error that it returned: it counts the outcome and the duration, and
// gives back what the call held. Further calls do nothing. A defer statement evaluates the
// argument at once, so defer a function that calls Exit, or use Done.
//
// A rule that counts failures counts an error; one that counts successes counts nil. If the
// error is that the caller's context was canceled, the call is charged in either case.
func (e *Entry) Exit(err error) {
	if e == nil || e.done.Swap(true) {
		return
	}
	c := &e.guard.count
	c.busy.Add(int64(e.guard.registry.clock() - e.start))
	c.finished.Add(1)
	r := enforce.Result{Status: 200}
	if err != nil {
		c.failed.Add(1)
		r.Status = 500
		r.ClientGone = errors.Is(err, context.Canceled) && errors.Is(e.ctx.Err(), context.Canceled)
	}
	defer e.exit(err) // also if Config.Observe panics
	if e.slot != nil {
		e.slot.Exit()
		e.slot = nil
	}
	if e.invocation != nil {
		e.guard.leave(e.invocation, r)
		e.invocation = nil
	}
}

// exit passes the result of the call to the protections, in reverse order.
func (e *Entry) exit(err error) {
	defer func() {
		if len(e.exits) > 0 {
			e.exit(err) // of the others, if one panics
		}
	}()
	for i := len(e.exits) - 1; i >= 0; i-- {
		exit := e.exits[i]
		e.exits = e.exits[:i]
		exit(err)
	}
}

// cancel ends a call that was not made, and gives back what it took.
func (e *Entry) cancel() {
	defer e.exit(ErrCanceled)
	if e.invocation != nil {
		e.invocation.admission.Cancel()
		e.guard.leave(e.invocation, enforce.Result{})
		e.invocation = nil
	}
}

// Done calls Exit in a defer statement: with *err at the end of the function, and with an error
// if the function panics. Defer it directly: a deferred function that calls it does not see the
// panic. Pass nil if the function returns no error.
func (e *Entry) Done(err *error) {
	if e == nil {
		return
	}
	if p := recover(); p != nil {
		e.Exit(errUnfinished)
		panic(p)
	}
	if err == nil {
		e.Exit(nil)
		return
	}
	e.Exit(*err)
}

// Decision returns the decision of the limits. If no limit decided, only OK and Degraded are
// set.
func (e *Entry) Decision() weir.Decision {
	if e == nil {
		return weir.Decision{}
	}
	return e.decision
}
