// Package policy finds the policies of a request, the keys and costs of their limits, and the
// response to a denial.
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
//	var m policy.Matches
//	set.Match(&m, attributes)
//	ok, err := store.DoAll(ctx, m.Requests, decisions)
//
// The package is independent of protocols. An interface describes a request as [Attributes],
// so HTTP, gRPC and Envoy share the rules of matching and of keys.
//
// A policy can be tried out before it is enforced: in shadow mode, for a percentage of its
// keys (Config.Percent), or with a candidate beside the enforced limits (Config.Candidate). A
// set that replaces another carries over the state of changed limits ([Set.WithPrevious]).
//
// # Guarantees
//
// Other spellings of a request neither bypass a policy nor get another bucket. Paths are
// compared after decoding, without case, empty and dot segments, path parameters and a
// trailing slash. Hosts are compared without case, port and trailing dot. Servers normalize
// some paths in different ways, such as an encoded slash; then every variant is compared. The
// key has the pattern that matched, never the path itself.
//
// Different values never have the same key, because the key has the length of every part.
// Requests without a part, or with an empty or ambiguous one such as a header with two
// values, share one bucket. So omitting the part does not bypass the limit. If an expression
// fails, a condition matches, a cost is Config.Cost, and a part is that shared bucket;
// [Charge].Err has the error.
//
// A [Claim] is trustworthy only if another component has verified the token: this package
// reads tokens and verifies none.
//
// The work for a request is bounded: tokens and values are read up to a length, and a '*' in
// an override takes time in proportion to the value.
//
// # Concurrency
//
// A Policy and a Set are immutable and safe for concurrent use. Matches is not.
package policy
