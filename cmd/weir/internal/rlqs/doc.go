// Package rlqs implements Envoy's rate limit quota service, envoy.service.rate_limit_quota.v3.
//
//	s, err := rlqs.New(rlqs.Config{Ledger: ledger, Domains: []string{"edge"}})
//	…
//	err = s.Use(limits) // a *ratelimit.Config
//	…
//	s.Register(g) // a *grpc.Server
//
// A client reports what it used of its buckets, and gets a part of each bucket's limit: a token
// bucket for a stated time. It decides by that without a call. Parts are those of package share, so
// all clients of all servers with one ledger admit no more than the limit.
//
// # Mapping
//
// The pairs of a bucket's id, sorted by key, are the entries of a descriptor. The files of package
// ratelimit have its limit. A bucket without a limit is admitted.
//
// # Guarantees
//
// A server takes rate, capacity and tokens of an assignment from the remainder before it sends it.
// They stay taken until the client no longer uses them for certain: after the time to deliver the
// assignment, its time to live and what Config.AfterExpiry adds. An assignment that is sent again
// unchanged costs nothing, if it arrives before the client's one expires. Any other one may start
// with a full bucket, so it is paid for, and what it replaces stays taken.
//
// This holds for clients that deny without an assignment. A client process that stops for longer
// than Delivery between receipt and use applies an assignment too late. At most its bucket, and its
// rate for the time to live, then exceed the limit.
//
// # Errors
//
// An invalid report ends its stream with codes.InvalidArgument. While the ledger is unavailable,
// reports get no response, and clients keep their assignments until they expire.
//
// # Concurrency
//
// A Server is safe for concurrent use. Reports of a stream are answered in their order.
package rlqs
