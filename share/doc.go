// Package share divides limits among processes, which decide by their parts without a call.
//
// A share of a limit is itself a limit, and the parts never sum to more than the whole. A
// [Ledger] records them.
package share
