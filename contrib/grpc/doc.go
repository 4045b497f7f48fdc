// Package weirgrpc applies policies to the calls of a gRPC server, and limits the calls
// of a client.
//
//	limits, err := weirgrpc.New(store, set, weirgrpc.Config{})
//	…
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limits.Unary),
//		grpc.ChainStreamInterceptor(limits.Stream),
//	)
//
// # Attributes
//
// The path of a call is its full method, such as /shop.Orders/Place. A policy matches a
// service with /shop.Orders/*. The method is POST, the host is :authority, and headers
// are metadata, except binary metadata (-bin). There is no query and no cookie. The
// client address is that of the peer, unless Config.Client trusts it as a proxy.
//
// # Results
//
// A denied call ends with RESOURCE_EXHAUSTED. Its details are a RetryInfo, unless it can
// never be admitted, and a QuotaFailure that names the policy ("api") or its second limit
// ("api/2"). Its trailers are the fields of Config.Fields in lower case, retry-after in
// seconds, and grpc-retry-pushback-ms. A gRPC client with a retry policy for
// RESOURCE_EXHAUSTED uses the latter. Above one minute it forbids a retry. An admitted
// call has the fields in its headers. A call rejected without a decision ends with
// UNAVAILABLE. A call whose context ended while it waited ends with CANCELLED or
// DEADLINE_EXCEEDED. Status, body, headers and redirect of a policy apply to HTTP only.
//
// # Counting by the outcome
//
// Policies that count failures or successes use the HTTP status of the call's code: see
// [HTTPStatus]. A handler that panics has failed. A cost in a header is read from the
// trailers of the call, or else from its headers. New rejects a policy with a cost in a
// JSON body.
//
// A streaming call is decided once, at its start. It keeps a slot of a concurrency limit
// until its handler returns. Config.Messages limits the messages of a client stream.
//
// # Protection
//
// Config.Protect rejects calls with UNAVAILABLE while a resource is overloaded, before any
// policy is charged. The details are a RetryInfo and an ErrorInfo with the name of the
// protection, which is the trailer weir-protection too. RESOURCE_EXHAUSTED would say that this
// client has used up its limit.
//
//	protections, err := failsafe.ForRequests("orders", guard.Settings{Bulkhead: &guard.Bulkhead{Max: 20}})
//	…
//	chain := protect.New(protect.Config{Protections: protections})
//	limits, err := weirgrpc.New(store, set, weirgrpc.Config{Protect: rpclimit.ProtectConfig{Chain: chain}})
//
// The latency of a stream ends with the first message of the server, without waits for the
// client. A bulkhead holds its slot until the handler returns.
//
// # Order
//
// A unary call is decided after its message was read: bound messages with
// grpc.MaxRecvMsgSize. Messages that cannot be decoded and unknown methods do not reach
// interceptors and do not count.
//
// Put these interceptors first, or after the one that authenticates callers if policies
// use its result. They work before and after one that recovers from panics: a panic
// releases everything.
//
// # Concurrency
//
// A Server and a Client are safe for concurrent use.
package weirgrpc
