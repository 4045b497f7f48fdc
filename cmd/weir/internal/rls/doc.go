// Package rls speaks Envoy's rate limit protocol: envoy.service.ratelimit.v3 over gRPC,
// and POST /json with the same messages as JSON.
//
//	limits, err := ratelimit.Load("/etc/ratelimit/config")
//	…
//	s, err := rls.New(rls.Config{Store: store, Limits: limits})
//	…
//	g := rls.NewServer(rls.ServerConfig{})
//	s.Register(g)
//	go g.Serve(listener)
//
// What it answers is what envoyproxy/ratelimit answers for the same configuration, but
// for what docs/envoy.md lists.
//
// # Guarantees
//
// All limits of a request are decided together: each is charged or none is. Limits in
// quota mode and in shadow mode that deny drop out, and the rest is decided again, so
// that what they would have refused is not charged to them. A shadow limit is charged
// only with requests that go through.
//
// When a configuration is replaced, descriptors keep what they used, also if their
// limit changed. When a request brings a limit of its own that changes from request to
// request, so does its descriptor.
//
// What a client can grow is bounded: the descriptors of a request, the size of a
// message, the length of keys, and the labels of events.
//
// # Errors
//
// A request that is not understood gets codes.InvalidArgument, or status 400. When the
// store makes no decision, it is codes.Unavailable, or status 500; then the hits may
// have been counted. A Store that falls back answers instead.
//
// # Concurrency
//
// A Server is safe for concurrent use, and so is replacing its configuration.
package rls
