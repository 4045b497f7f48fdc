// Package ratelimit reads the configuration of envoyproxy/ratelimit and finds the limit
// of a descriptor in it.
//
//	c, err := ratelimit.Load("/etc/ratelimit/config")
//	…
//	m, ok := c.Domain("messaging").Match([]ratelimit.Entry{{"to_number", "2061111111"}})
//	// m.Limit is the rule, m.Key the key of its state
//
// A descriptor is a list of entries, which are matched one by one. At each level an
// equal value is tried first, then values with a '*' in the order of the file, then the
// key without a value. A limit applies only at the level of the last entry.
//
// Beside the fields of envoyproxy/ratelimit, rate_limit has these of Weir:
//
//	algorithm: token_bucket   # or leaky_bucket, fixed_window (the default), sliding_window, sliding_log
//	window: 30s               # instead of unit: any duration
//	burst: 100                # for token_bucket and leaky_bucket
//	count: all                # denied hits count too; or admitted: they never count
//
// # Units
//
// A month is 30 days and a year 365, as in envoyproxy/ratelimit. A fixed window begins
// at a multiple of its length since the Unix epoch.
//
// # Guarantees
//
// Different descriptors never share a key, whatever their entries contain: every part
// of a key is preceded by its length, and a long key is replaced by its SHA-256.
//
// # Errors
//
// A file with faults is refused as a whole. An error is [Errors], which wrap
// weir.ErrInvalid. It lists every fault of every file, each with file, line, column,
// field, value and the accepted values.
//
// # Concurrency
//
// A Config is immutable and safe for concurrent use.
package ratelimit
