// Package weirconnect applies policies to the procedures of a Connect server, and limits
// the calls of a client, for the protocols Connect, gRPC and gRPC-Web.
//
//	limits, err := weirconnect.New(store, set, weirconnect.Config{})
//	…
//	mux.Handle(shopconnect.NewOrdersHandler(orders, connect.WithInterceptors(limits)))
//
// # Attributes
//
// The path of a call is its procedure, such as /shop.Orders/Place. A policy matches a
// service with /shop.Orders/*. The method is POST, or GET for a unary GET call. Headers,
// host, query and cookies are those of the request, except binary headers (-Bin). The
// client address is that of the peer, unless Config.Client trusts it as a proxy.
//
// A unary call is decided after its message was read: bound messages with
// connect.WithReadMaxBytes. Messages that cannot be decoded do not reach interceptors and
// do not count.
//
// # Results
//
// A denied call ends with connect.CodeResourceExhausted, which is HTTP status 429 in the
// Connect protocol. Its details are a RetryInfo, unless it can never be admitted, and a
// QuotaFailure that names the policy ("api") or its second limit ("api/2"). Its metadata
// are the fields of Config.Fields, and Retry-After in seconds. Clients of the gRPC
// protocols also get Grpc-Retry-Pushback-Ms, which their retry policy for
// RESOURCE_EXHAUSTED uses. Above one minute it forbids a retry. A successful response has
// the fields in its headers. A call rejected without a decision ends with
// CodeUnavailable. A call whose context ended while it waited ends with CodeCanceled or
// CodeDeadlineExceeded. Status, body, headers and redirect of a policy apply to HTTP only.
//
// # Counting by the outcome
//
// Policies that count failures or successes use the HTTP status of the call's code: see
// [HTTPStatus]. A handler that panics has failed. A cost in a header is read from the
// trailers of the response, or else from its headers, or from the metadata of the error.
// New rejects a policy with a cost in a JSON body.
//
// A streaming call is decided once, at its start. It keeps a slot of a concurrency limit
// until its handler returns. Config.Messages limits the messages of a client stream.
//
// # Protection
//
// Config.Protect rejects calls with CodeUnavailable while a resource is overloaded, before any
// policy is charged. The details are a RetryInfo and an ErrorInfo with the name of the
// protection, which is the metadata Weir-Protection too. The latency of a stream ends with the
// first message of the server, without waits for the client. A bulkhead holds its slot until the
// handler returns.
//
// # Concurrency
//
// A Server and a Client are safe for concurrent use.
package weirconnect
