package waitqueue

import (
	"context"
	"time"
)

// A Clock measures and passes time. A store whose clock is not the machine's, such as
// a fake one in a test, implements it.
type Clock interface {
	Now() time.Time
	// Sleep waits for d, or until ctx ends, and then returns the cause.
	Sleep(ctx context.Context, d time.Duration) error
}

// An awaiter is a Clock that simulates time, so it must know when a caller waits for
// another one.
type awaiter interface {
	// Await waits until done is closed, for at most d, and reports whether it is closed.
	// An error is the cause of the end of ctx.
	Await(ctx context.Context, done <-chan struct{}, d time.Duration) (bool, error)
}

// ClockOf returns the clock of a store that has one, and otherwise nil, which stands
// for the clock of this machine.
func ClockOf(store any) Clock {
	c, _ := store.(Clock)
	return c
}

// machine is the clock of this machine.
type machine struct{}

func (machine) Now() time.Time                                   { return time.Now() }
func (machine) Sleep(ctx context.Context, d time.Duration) error { return Sleep(ctx, d) }

// Sleep waits for d, or until ctx ends, and then returns the cause. It returns nil at
// once if d is not positive, whatever the state of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
