// Package ratelimit reads the configuration of envoyproxy/ratelimit as it stands, and
// finds the limit of a descriptor in it.
//
//	c, err := ratelimit.Load("/etc/ratelimit/config")
//	…
//	m, ok := c.Domain("messaging").Match([]ratelimit.Entry{{"to_number", "2061111111"}})
//	// m.Limit is the rule, m.Key whose state it is about
//
// A descriptor is a list of entries, which are matched one by one: at each level the
// value that stands in the file comes first, then the values with a '*' in the order
// of the file, then the key without a value. A limit counts only at the level of the
// last entry.
//
// Beside the fields of envoyproxy/ratelimit, rate_limit has these of Weir:
//
//	algorithm: token_bucket   # or leaky_bucket, fixed_window (the default), sliding_window, sliding_log
//	window: 30s               # in the place of unit: any time
//	burst: 100                # of the two buckets
//	count: all                # also hits that are denied; or admitted: those alone
//
// # Units
//
// A month is 30 days and a year 365, as there. A fixed window begins at whole
// multiples of its length since the Unix epoch.
//
// # Guarantees
//
// Different descriptors never share a key, whatever is in their entries: every part of
// a key carries its length, and a key that would be long is a SHA-256.
//
// # Errors
//
// A file with faults is refused as a whole. An error is [Errors], which wrap
// weir.ErrInvalid: every fault of every file, each with file, line and column, the
// field, what stands there and what was expected.
//
// # Concurrency
//
// A Config is immutable and safe for concurrent use.
package ratelimit
