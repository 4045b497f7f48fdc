// Package algo is the arithmetic of rate limits: pure functions from a state,
// an instant and an amount to a new state and a result.
//
// Nothing here reads a clock, takes a lock, or does I/O. A store keeps the
// state and brings the time; everything that Weir answers, at every door and in
// Redis as in memory, is computed by these functions or by their Lua twins of
// the same name.
//
// # Units
//
// Instants and spans are whole microseconds (µs); instants count from the Unix
// epoch. They stay below 2^53, so that they are exact in Lua's doubles as well.
// A rate that does not divide evenly is carried exactly, as a remainder in
// units of 1/k µs, never by rounding an interval. What is told to a caller is
// rounded against the caller: waits up, balances down.
//
// # State
//
// A state is a short slice of words. The empty slice, and a slice of zeros, are
// the state of a key that was never used; every rule brings its state back to
// that as time passes, and [Rule.Until] says when, so that a store can forget
// it without anybody noticing.
//
// # Guarantees
//
// A denied Take leaves the state as it was, word for word; [Primed] alone keeps
// the first sight of a key. A Retry is tight: one microsecond earlier the same
// request would still be denied, and at it the request is admitted if nobody else
// came. Time that goes back creates no tokens, but for the millisecond that
// nginx gives, and so does [LimitReq]. No input, however large, overflows: amounts
// saturate at [MaxSpan] or at [MaxCount] tokens.
package algo
