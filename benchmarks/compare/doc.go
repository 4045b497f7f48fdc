// Package compare measures the same work by several contenders and reports ratios.
//
// A [Row] is one comparison. Each of its contenders runs in a process of its own: it does not
// pay for the heap of another, and if it fails, only its own figures are lost. [Run] measures in rounds: a round runs every contender of a row once, one after
// another, so that changes of the machine affect all of them. A ratio is the median of the
// ratios of the rounds.
package compare
