// Package auditor checks the invariants of a flash sale without the shop's code. It reads the
// database with its own statements, Redis with plain commands, and a log of buyers' calls and
// responses. It reports the checks and violations of each invariant, with examples.
//
//	a, err := auditor.Open(ctx, auditor.Config{Database: "file:sale.db"})
//	go a.Watch(ctx)         // ten samples per second
//	…                       // the sale
//	report, err := a.Final(ctx, auditor.Facts{Observations: log})
//
// Its connections are read-only.
//
// # Guarantees
//
// Each reported violation breaks one of [Invariants]. A fact without an observation is not
// counted as a check: a Report gives the number of checks behind each "0 violations". An
// invariant without checks is unknown, not satisfied.
package auditor
