package decisionlog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/floodweir/weir/enforce"
)

const (
	// troubleEvery is how often one trouble of one policy is told.
	problemInterval = time.Second
	// maxTroubled is how many of them are told apart: all others are one.
	maxProblems = 1000
)

// trouble tells what is wrong with a request that somebody who runs the program can do
// something about. A client that left is no trouble.
func (l *Log) observeProblems(ctx context.Context, door string, e *enforce.Event) {
	gone := errors.Is(ctx.Err(), context.Canceled) || errors.Is(e.Err, context.Canceled)
	switch {
	case e.Outcome == enforce.Unsettled:
		l.logProblem(ctx, slog.LevelError, "the cost could not be settled", door, e, slog.Any("error", e.Err))
	case e.Decision.Degraded != "":
		attrs := []slog.Attr{slog.String("degraded", string(e.Decision.Degraded))}
		if e.Err != nil {
			attrs = append(attrs, slog.Any("error", e.Err))
		}
		l.logProblem(ctx, slog.LevelWarn, "decided without the store", door, e, attrs...)
	case e.Err != nil && !gone:
		l.logProblem(ctx, slog.LevelError, "no decision", door, e, slog.Any("error", e.Err))
	}
	if e.Fault != nil {
		l.logProblem(ctx, slog.LevelWarn, "an expression could not be evaluated", door, e, slog.Any("error", e.Fault))
	}
}

// tell tells one trouble of one policy, at most once a second.
func (l *Log) logProblem(ctx context.Context, level slog.Level, what, door string, e *enforce.Event, more ...slog.Attr) {
	speak, before := l.problems.allow(problem{what, e.Policy.Name()}, time.Now())
	if !speak {
		return
	}
	attrs := []slog.Attr{slog.String("interface", door), slog.String("policy", e.Policy.Name()), slog.String("outcome", string(e.Outcome))}
	if before > 0 {
		attrs = append(attrs, slog.Int64("suppressed", before))
	}
	l.c.Log.LogAttrs(ctx, level, what, append(attrs, more...)...)
}

// troubles remember what was told, and when.
type suppressor struct {
	mu    sync.Mutex
	known map[problem]*suppressed
}

// about is one trouble of one policy.
type problem struct{ what, policy string }

type suppressed struct {
	next       time.Time // before which nothing is said
	suppressed int64     // since the last time
}

// speak reports whether a trouble is to be told, and how often it was not since the
// time before.
func (t *suppressor) allow(of problem, now time.Time) (speak bool, before int64) {
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
