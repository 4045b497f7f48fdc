// Package virtual runs requests in virtual time, for `weir test` and `weir replay`.
//
//	c := virtual.NewClock(start)
//	store, err := virtual.NewStore(c)
//	…
//	c.Advance(arrival.UnixMicro())
//	c.Run(func() { enforcer.Enter(ctx, attributes, &admission) })
//	…
//	c.Drain()
//
// Tasks run one at a time. The time stands still while one runs, and advances when all
// wait, so a run of a month takes milliseconds and always has the same result.
package virtual
