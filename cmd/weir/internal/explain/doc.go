// Package explain describes how a request would be decided and why: which policies
// match, the key of each, which limit decides, and when the request would pass. It
// consumes nothing.
//
//	a, err := explain.Explain(ctx, store, set, explain.Question{URL: "/api/users", ClientIP: "203.0.113.7"})
//	…
//	a.WriteText(os.Stdout)
//
// New returns a handler with the same answers over HTTP. It accepts POST with a
// [Question] in JSON, and GET with the parameters method, url, host, path, client_ip
// and any number of header=NAME:VALUE.
//
// # Guarantees
//
// The request is read and matched as the gateway does, but every limit is only peeked
// at. Limits that decide together are peeked at together, at one instant. State of
// former limits is counted but not moved.
//
// # Errors
//
// An error of Explain that wraps weir.ErrInvalid names the invalid field of the
// question. A store that could not decide is not an error: the answer describes it.
package explain
