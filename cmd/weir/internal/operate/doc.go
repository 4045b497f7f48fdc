// Package operate serves the state of a key, the actions of operators on it, and the audit log. The
// actions are credit, reset, raise, freeze, block and lift.
//
//	o := operate.New(operate.Config{Store: store, Policies: set, Adjustments: adjustments, Audit: log})
//	…
//	mux.HandleFunc("POST /v1/key", o.Show)
//
// Every action needs a reason and has an entry in the audit log. A raise, a freeze, a block and a
// lift are one step with their entry. Credit and reset change the store of states: their entry
// is written before as an intent, and gets the result after.
//
// Keys are personal data. They are in bodies, not in URLs, and an actor with the role read sees only
// their ID.
//
// # Errors
//
// Every error is a problem document (RFC 9457) with field, value and expected.
package operate
