// Package weirconnect puts the procedures of a Connect server under policies, and paces
// the calls of a client, for the protocols Connect, gRPC and gRPC-Web alike.
//
//	limits, err := weirconnect.New(store, set, weirconnect.Config{})
//	…
//	mux.Handle(shopconnect.NewOrdersHandler(orders, connect.WithInterceptors(limits)))
//
// # What a policy sees
//
// The path of a call is its procedure, as in /shop.Orders/Place, so that a policy is
// about a service as /shop.Orders/* and about a procedure by its name. The method is
// POST, or GET of a unary call that was made so. Headers, the host, the query and cookies
// are those of the request, without headers whose name ends in -Bin, which are bytes. The
// address of the client is that of the peer, unless Config.Client trusts it to speak for
// another.
//
// A unary call is decided when its message has been read: bound messages by
// connect.WithReadMaxBytes. A message that cannot be decoded is answered before any
// interceptor and counts nowhere.
//
// # What a client hears
//
// A denied call ends with connect.CodeResourceExhausted, which is HTTP status 429 in the
// Connect protocol. Its details are a RetryInfo, unless no waiting helps, and a
// QuotaFailure that names the policy, as "api", or the second limit of a policy with
// several, as "api/2". Its metadata are the fields that Config.Fields asks for, and
// Retry-After in seconds. Clients that speak gRPC hear Grpc-Retry-Pushback-Ms too, which
// those obey that have a retry policy for RESOURCE_EXHAUSTED: one that would have to wait
// longer than a minute is told not to retry. The response of an admitted call that
// succeeds has the fields in its headers. A call that was refused undecided ends with
// CodeUnavailable; one whose context ended while it waited, with CodeCanceled or
// CodeDeadlineExceeded. The status, body, headers and redirect that a policy has for
// denied requests are for HTTP, and mean nothing here.
//
// # Counting by the outcome
//
// Policies that count failures or successes go by the HTTP status that the code of a call
// amounts to: see [HTTPStatus]. A handler that panics has failed. A policy that finds the
// cost in a header finds it in the trailers of the response, or else in its headers, or
// in the metadata of the error. The cost cannot be in a JSON body: New refuses such a
// policy.
//
// A streaming call is decided once, at its start, and lasts until its handler returns: so
// long it keeps a slot of a concurrency limit. Config.Messages limits what comes in on it.
//
// # Concurrency
//
// A Server and a Client are safe for concurrent use.
package weirconnect
