// Package policy turns a request into the questions that limits have to answer:
// which policies it falls under, whose bucket it draws from, and what happens if
// the answer is no.
//
//	p, err := policy.New(policy.Config{
//		Name:   "api-per-client",
//		Match:  policy.Match{Paths: []string{"/api/*"}},
//		Key:    []policy.KeyPart{{Source: policy.ClientIP}},
//		Limits: []weir.Limit{weir.MustLimit("10/s burst 20")},
//	})
//	…
//	set, err := policy.NewSet(p)
//	…
//	var q policy.Questions
//	set.Ask(&q, attributes)
//	ok, err := store.DoAll(ctx, q.Requests, decisions)
//
// The package knows no protocol: a door describes a request as [Attributes], and
// HTTP, gRPC and Envoy doors share every rule of matching and of naming keys.
//
// A policy may be tried out before it is enforced: for nobody (Shadow), for a share of
// its keys (Config.Percent), or with other limits beside those in force
// (Config.Candidate). Policies that replace others while requests come follow them
// ([Set.Following]), so that a change of a limit is no fresh start.
//
// # Guarantees
//
// Another spelling of a request is no way around a policy and no way to a fresh
// bucket. Paths are compared after decoding, without case, empty and dot segments,
// path parameters and a trailing slash; hosts without case, port and trailing dot.
// Where servers differ (an encoded slash), a path matches if either reading does.
// The key holds the pattern that matched, never the path itself.
//
// Different values never share a key by accident: every part of a key carries its
// length. A part that is missing, empty or ambiguous (a header sent twice with
// different values) is the anonymous part, one bucket for all who have none. It is
// never a way out of the limit. Neither is an expression that cannot be evaluated: as a
// condition it holds, as a cost it is Config.Cost, as a part it is the anonymous one,
// and [Ask].Err says why.
//
// A [Claim] is only as good as what verified the token: this package reads tokens and
// verifies none.
//
// What a client can send costs little: tokens and values are read up to a length, and
// a '*' in an override takes no longer than its value is.
//
// # Concurrency
//
// A Policy and a Set are immutable and safe for concurrent use. Questions are not.
package policy
