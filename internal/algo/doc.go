// Package algo is the arithmetic of rate limits: pure functions from a state,
// an instant and an amount to a new state and a result.
//
// Nothing here reads a clock, takes a lock, or does I/O. A store keeps the state and
// passes the time. These functions, or their Lua twins of the same name, compute every
// decision of Weir.
//
// # Units
//
// Instants and spans are whole microseconds (µs); instants count from the Unix
// epoch. They stay below 2^53, so that they are exact in Lua's doubles as well.
// A rate that does not divide evenly is kept exactly, with a remainder in units of
// 1/k µs, never by rounding an interval. Results are rounded against the caller: waits
// up, balances down.
//
// # State
//
// A state is a short slice of words. The empty slice, and a slice of zeros, are the
// state of a key that was never used. Every rule returns its state to that as time
// passes. [Rule.Until] returns when, so that a store can drop the state without an
// effect on decisions.
//
// # Guarantees
//
// A denied Take leaves the state as it is at that instant; only [Primed] keeps the first
// use of a key. A Retry is exact: one microsecond earlier the same request would be
// denied, and at it the request is admitted if no other request came first. Time that
// goes back creates no tokens, except the millisecond that nginx gives, and so
// [LimitReq]. No input overflows: amounts saturate at [MaxSpan] or at [MaxCount]
// tokens.
package algo
