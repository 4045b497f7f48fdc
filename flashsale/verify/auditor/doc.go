// Package auditor judges a flash sale from outside. It knows none of the shop's code: it
// reads the database with its own statements, Redis with its own plain commands, and a log
// of what buyers asked and were answered, and says which of the promises of a sale were
// kept, how often it looked, and what it saw where one was broken.
//
//	a, err := auditor.Open(ctx, auditor.Config{Database: "file:sale.db"})
//	go a.Watch(ctx)         // samples ten times a second
//	…                       // the sale
//	report, err := a.Final(ctx, auditor.Facts{Observations: log})
//
// It changes nothing: its connections read only.
//
// # What it promises
//
// A violation that it reports is one by the words of Invariants. What it cannot know,
// because there is no observation of it, it does not count as a check: a Report says how
// many checks stand behind each "0 violations", and an invariant without a check is not
// held but unknown.
package auditor
