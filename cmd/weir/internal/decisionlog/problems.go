package decisionlog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/floodweir/weir/budget"
	"github.com/floodweir/weir/enforce"
)

const (
	// problemInterval is the minimum time between two lines about one problem of one policy.
	problemInterval = time.Second
	// maxProblems is the maximum number of pairs with an interval of their own; others
	// share one per problem.
	maxProblems = 1000
)

// observeProblems logs problems that an operator can act on. A client that disconnected
// is not one.
func (l *Log) observeProblems(ctx context.Context, interfaceName string, e *enforce.Event) {
	canceled := errors.Is(ctx.Err(), context.Canceled) || errors.Is(e.Err, context.Canceled)
	switch {
	case e.Outcome == enforce.Unsettled:
		l.logProblem(ctx, slog.LevelError, "cost not settled", interfaceName, e, slog.Any("error", e.Err))
	case e.Outcome == enforce.Unpriced && errors.Is(e.Err, budget.ErrExhausted):
		l.logProblem(ctx, slog.LevelWarn, "stream ended by its budget", interfaceName, e, slog.Int64("charged", e.Cost))
	case e.Outcome == enforce.Unpriced:
		l.logProblem(ctx, slog.LevelWarn, "cost unknown", interfaceName, e, slog.Int64("charged", e.Cost), slog.Any("error", e.Err))
	case e.Decision.Degraded != "":
		attrs := []slog.Attr{slog.String("degraded", string(e.Decision.Degraded))}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		l.logProblem(ctx, slog.LevelWarn, "decided without the store", interfaceName, e, attrs...)
	case e.Err != nil && !canceled:
		l.logProblem(ctx, slog.LevelError, "no decision", interfaceName, e, slog.Any("error", e.Err))
	}
	if e.Fault != nil {
		l.logProblem(ctx, slog.LevelWarn, "expression failed", interfaceName, e, slog.Any("error", e.Fault))
	}
}

// logProblem logs one problem of one policy, at most once per problemInterval.
func (l *Log) logProblem(ctx context.Context, level slog.Level, what, interfaceName string, e *enforce.Event, more ...slog.Attr) {
	due, before := l.problems.allow(problem{what, e.Policy.Name()}, time.Now())
	if !due {
		return
	}
	attrs := []slog.Attr{slog.String("interface", interfaceName), slog.String("policy", e.Policy.Name()), slog.String("outcome", string(e.Outcome))}
	if before > 0 {
		attrs = append(attrs, slog.Int64("suppressed", before))
	}
	l.c.Log.LogAttrs(ctx, level, what, append(attrs, more...)...)
}

// A suppressor limits the lines about each problem.
type suppressor struct {
	mu    sync.Mutex
	known map[problem]*suppressed
}

// A problem is one problem of one policy.
type problem struct{ what, policy string }

type suppressed struct {
	next       time.Time // no line before
	suppressed int64     // lines since the last one
}

// allow reports whether to log a problem now, and the number of lines suppressed since
// the last one.
func (t *suppressor) allow(of problem, now time.Time) (due bool, before int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.known[of]
	if p == nil && len(t.known) >= maxProblems {
		of.policy = ""
		p = t.known[of]
	}
	if p == nil {
		if t.known == nil {
			t.known = map[problem]*suppressed{}
		}
		p = &suppressed{}
		t.known[of] = p
	}
	if now.Before(p.next) {
		p.suppressed++
		return false, 0
	}
	before, p.suppressed, p.next = p.suppressed, 0, now.Add(problemInterval)
	return true, before
}
