// Package audit keeps the audit log: who changed what, when and why.
//
//	l, err := audit.New(audit.Config{Conn: conn, Log: log})
//	…
//	l.Append(ctx, audit.Entry{Actor: "mei", Via: "cli", Action: "apply", From: "41", To: "42", Reason: "ticket 812", OK: audit.Yes()})
//
// The log has the last [Keep] entries. They are in Redis, so that every node has the same log; with
// the memory store they are in the process. Every entry is also written to the log of the
// process, which keeps those that Redis loses.
//
// # Intent and result
//
// An action that is not one step of the store appends an entry whose OK is nil, the intent, and
// calls Finish with the result. If the process ends in between, the entry keeps its OK nil:
// the result is unknown.
//
// # In Redis
//
// One hash, weir:1:audit{operations}, has these fields:
//
//   - last: the number of the last entry;
//   - e:7 and so on: an entry in JSON.
//
// It has no expiry. [Script] appends an entry in the script of another package, so that a change
// and its entry are one step.
package audit
