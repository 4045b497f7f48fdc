// Package adjustment keeps the adjustments that operators make to single keys of policies. A raise
// has other limits until a time. A freeze denies until it is lifted, a block until a time.
//
//	s := adjustment.New(adjustment.Config{Conn: conn, Audit: log, Changed: reload})
//	…
//	s.Set(ctx, adjustment.Adjustment{Policy: "login", Key: key, Kind: adjustment.Freeze, …}, entry)
//
// A key has at most one adjustment, and there are at most [Max]. An adjustment and its entry in the
// audit log are one step: both exist or none.
//
// With the memory store they are in the process. Otherwise every node reads them from Redis, and
// again after each change, within a second. While Redis is unavailable, a node keeps those that it
// has. If Redis lost its data, the first node that notices writes them again. Each node ends an
// adjustment at its time by the clock of Redis, also while Redis is unavailable.
//
// See internal/adjusted for the keys in Redis.
package adjustment
