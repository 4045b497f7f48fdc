// Package replay sends the requests of a log through policies in virtual time and reports
// which of them would be denied: `weir replay`.
//
//	report, err := replay.Run(logs, []replay.Side{{Name: "weir.yaml", File: file}}, replay.Config{})
//	…
//	err = report.WriteText(os.Stdout)
//
// Each side has its own empty store. Requests are decided in the order of their arrival, as
// the gateway decides them. A log whose times are whole seconds is replayed twice: with all
// requests at the start of their second, and evenly spaced within it. The report has the range.
//
// # Limits of a log
//
// Clients react to denials, and a log does not show how they would have reacted to others. A
// header that the log does not have is empty, so its requests share one bucket; the report
// names such headers.
package replay
