// Package story reads and writes traces: short texts of requests to a store, their
// instants, and the expected decisions.
//
//	# 3 per second, 3 at once
//	limit a: 3/s
//	at 0s    take user 2   -> ok remaining 1 reset 666.667ms
//	+0       take user 2   -> denied remaining 1 retry 333.334ms reset 666.667ms
//	at 1h    peek user 4   -> denied remaining 3 retry never
//
// # Lines
//
// A # starts a comment line. "start" and an RFC 3339 instant set the begin of
// the story; without it that is 2026-01-01T00:00:00Z. "limit NAME: TEXT"
// names a limit in the grammar of weir.ParseLimit. With "limit NAME named STATE: TEXT" the
// limit has a name for its states, as by weir.Limit.Named: limits of one state share it.
//
// Every other line is an instant, a request, an arrow and the decision. An instant is
// "at" and a span since the start, or "at" and an RFC 3339 instant. Or it is a span
// since the line before with its sign, as in +0, +1.5s or -5ms.
//
// # Requests
//
// A request is a verb of weir.Request, a key and a number of tokens (reset and
// cancel have none), and then any of
//
//	under NAME       the limit; the first one of the story if absent
//	id ID            the reservation
//	ttl SPAN         its life
//	charged INSTANT  of a return: the instant of the charge, as after "at"
//	from NAME,NAME   the limits that governed the key before
//	carry HOW        usage, proportional, as-is, additive or reset
//
// A key or an id with spaces or strange bytes is quoted as in Go. The request
// "all" is a batch: it has ok, denied or an error as its answer, and its
// requests follow on lines of their own, each after a bar.
//
// # Answers
//
// An answer is ok or denied and then remaining N, debt N, retry SPAN, reset SPAN, delay SPAN
// and granted N. Each is left out if it is 0, and granted also if it is the number
// requested. Or the answer is "error" and the error that it wraps: invalid,
// no-reservation, full, unavailable or closed. Spans are Go durations, in which a
// number of days may come first, as in 30d12h; never is Never.
package story
