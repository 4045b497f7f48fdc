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
// and any number of header=NAME:VALUE. For a bucket of Envoy's quota service these are domain and
// bucket=KEY=VALUE. A question can have a draft of the policy file; the answer then has the
// decisions under both.
//
// # Guarantees
//
// The request is parsed and matched as in the gateway, but no limit is charged. Limits that
// decide together are read together, at one instant. State of former limits counts, but is
// not moved.
//
// # Errors
//
// An error of Explain is a *problem.FieldError about a field of the question. A store that
// could not decide is not an error: the answer describes it.
package explain
