// Package weirgrpc puts the calls of a gRPC server under policies, and paces those of a
// client.
//
//	limits, err := weirgrpc.New(store, set, weirgrpc.Config{})
//	…
//	server := grpc.NewServer(
//		grpc.ChainUnaryInterceptor(limits.Unary),
//		grpc.ChainStreamInterceptor(limits.Stream),
//	)
//
// # What a policy sees
//
// The path of a call is its full method, as in /shop.Orders/Place, so that a policy is
// about a service as /shop.Orders/* and about a method by its name. The method is POST,
// the host is :authority, and headers are metadata. Metadata whose name ends in -bin is
// bytes, no text, and is not seen. There is no query and no cookie. The address of the
// client is that of the peer, unless Config.Client trusts it to speak for another.
//
// # What a client hears
//
// A denied call ends with RESOURCE_EXHAUSTED. Its details are a RetryInfo, unless no
// waiting helps, and a QuotaFailure that names the policy, as "api", or the second limit
// of a policy with several, as "api/2". Its trailers are those fields that Config.Fields
// asks for, in lower case, with retry-after in seconds and grpc-retry-pushback-ms, which
// gRPC clients obey that have a retry policy for RESOURCE_EXHAUSTED: one that would have
// to wait longer than a minute is told not to retry. An admitted call has the fields in
// its headers. A call that was refused undecided ends with UNAVAILABLE; one whose context
// ended while it waited, with CANCELLED or DEADLINE_EXCEEDED. The status, body, headers
// and redirect that a policy has for denied requests are for HTTP, and mean nothing here.
//
// # Counting by the outcome
//
// Policies that count failures or successes go by the HTTP status that the code of a call
// amounts to: see [HTTPStatus]. A handler that panics has failed. A policy that finds the
// cost in a header finds it in the trailers of the call, or else in its headers, as the
// handler sets them. The cost cannot be in a JSON body: New refuses such a policy.
//
// A streaming call is decided once, at its start, and lasts until its handler returns: so
// long it keeps a slot of a concurrency limit. Config.Messages limits what comes in on it.
//
// # Order
//
// A unary call is decided when its message has been read: bound messages by
// grpc.MaxRecvMsgSize. A message that cannot be decoded, and a method that nobody has
// registered, are answered before any interceptor and count nowhere.
//
// Put these interceptors first, or behind one that verifies who calls, if policies have
// keys of what it verified. They may stand before or behind one that recovers from
// panics: nothing stays taken after a panic.
//
// # Concurrency
//
// A Server and a Client are safe for concurrent use.
package weirgrpc
