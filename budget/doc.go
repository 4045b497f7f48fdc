// Package budget reads the token usage from responses of language models, and computes its cost in
// tokens or in micro-dollars.
//
// A [Reader] reads one response while it is sent: a body, or a stream of events or lines. A
// [Meter] computes the cost of its [Usage] by [Prices]. Package httplimit uses them for policies
// with a Settle.Meter.
//
// # Usage
//
// Providers count in different ways. Some include cached tokens in the input, others report them
// separately. [Usage] has disjoint counts. Events of a stream are cumulative: each replaces the
// counts that it has, and a missing count keeps its earlier value. A count of 0 is a count.
//
// # Units
//
// A price is in US dollars per million tokens. A cost is a whole number of micro-dollars, the sum
// of all parts rounded up once.
package budget
