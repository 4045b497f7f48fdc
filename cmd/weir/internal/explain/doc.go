// Package explain says what would become of a request, and why: which policies it
// falls under, or why not, whose bucket it draws from, which limit decides, and when it
// would pass. It takes nothing.
//
//	a, err := explain.Explain(ctx, store, set, explain.Question{URL: "/api/users", ClientIP: "203.0.113.7"})
//	…
//	a.WriteText(os.Stdout)
//
// New makes a handler that answers the same over HTTP: to POST with a [Question] in
// JSON, and to GET with the parameters method, url, host, path, client_ip and, any
// number of times, header=NAME:VALUE.
//
// # Guarantees
//
// What is asked is what a gateway would ask of the same request, read as a server
// reads it, except that every limit is only looked at. Limits that decide together are
// looked at in one instant. What is carried over from limits that changed is counted
// and not moved.
//
// # Errors
//
// An error of Explain that wraps weir.ErrInvalid names what in the question is wrong. A
// store that could not decide is no error: the answer says so beside the policies.
package explain
