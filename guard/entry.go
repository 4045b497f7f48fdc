package guard

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir"
	"github.com/floodweir/weir/enforce"
)

// An Entry is one call that went through. A nil Entry exits as well.
type Entry struct {
	guard    *Guard
	ctx      context.Context
	start    time.Duration // by Registry.clock
	decision weir.Decision
	visit    *visit // nil if it holds nothing
	exits    []func(error)
	done     atomic.Bool
}

// begin starts the call.
func (e *Entry) begin() *Entry {
	e.guard.count.passed.Add(1)
	e.guard.count.running.Add(1)
	e.start = e.guard.registry.clock()
	return e
}

// Exit ends the call with what it returned: the outcome is counted, its duration noted,
// what it held given back. Exiting again does nothing. In a defer statement the argument
// is what it is at that moment, so defer a function that calls it, or use Done.
//
// A rule that counts failures counts an error, or none if it counts successes. A caller
// that went away before the end, so that the error is that its context was canceled, is
// charged either way.
func (e *Entry) Exit(err error) {
	if e == nil || e.done.Swap(true) {
		return
	}
	c := &e.guard.count
	c.busy.Add(int64(e.guard.registry.clock() - e.start))
	c.running.Add(-1)
	r := enforce.Result{Status: 200}
	if err != nil {
		c.failed.Add(1)
		r.Status = 500
		r.ClientGone = errors.Is(err, context.Canceled) && errors.Is(e.ctx.Err(), context.Canceled)
	}
	defer e.exit(err) // also if Config.Observe panics
	if e.visit != nil {
		e.guard.leave(e.visit, r)
		e.visit = nil
	}
}

// exit tells the wards what the call returned, the last that was asked first.
func (e *Entry) exit(err error) {
	defer func() {
		if len(e.exits) > 0 {
			e.exit(err) // of those before a Ward that panics
		}
	}()
	for i := len(e.exits) - 1; i >= 0; i-- {
		exit := e.exits[i]
		e.exits = e.exits[:i]
		exit(err)
	}
}

// callOff ends a call that was not made: what it took goes back.
func (e *Entry) callOff() {
	defer e.exit(ErrCanceled)
	if e.visit != nil {
		e.visit.pass.Cancel()
		e.guard.leave(e.visit, enforce.Result{})
		e.visit = nil
	}
}

// Done is Exit for a defer statement: with *err as it is at the end of the function, and
// as failed if the function panics. It is deferred itself, not called by a function that
// is: otherwise it does not see the panic. An err of nil is of a function that returns
// no error.
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

// Decision is how the call was let through: zero but for OK and Degraded if no limit
// decided.
func (e *Entry) Decision() weir.Decision {
	if e == nil {
		return weir.Decision{}
	}
	return e.decision
}
