// Package rls implements Envoy's rate limit protocol: envoy.service.ratelimit.v3 over
// gRPC, and POST /json with the same messages as JSON.
//
//	limits, err := ratelimit.Load("/etc/ratelimit/config")
//	…
//	s, err := rls.New(rls.Config{Store: store, Limits: limits})
//	…
//	g := rls.NewServer(rls.ServerConfig{})
//	s.Register(g)
//	go g.Serve(listener)
//
// The service of stream.proto has the same messages on a stream, which costs less.
//
// Responses equal those of envoyproxy/ratelimit with the same configuration, with the
// exceptions in docs/ratelimit.md.
//
// # Guarantees
//
// All limits of a request are decided together, all or nothing. Limits in quota mode and
// in shadow mode that deny are left out, and the others are decided again. So they are not
// charged for requests that they would deny. A shadow limit is charged only for
// requests that are admitted.
//
// When a configuration is replaced, descriptors keep their state, also if their limit
// changed. So does a descriptor whose limit comes with the request and changes from
// request to request.
//
// The cost of a client is bounded: the descriptors of a request, the size of a message,
// the length of keys, and the labels of events.
//
// # Errors
//
// An invalid request gets codes.InvalidArgument, or status 400. If the store makes no
// decision, the error is codes.Unavailable, or status 500; the hits may have been counted.
// A Store with a fallback decides instead.
//
// # Concurrency
//
// A Server is safe for concurrent use, also while its configuration is replaced.
package rls
