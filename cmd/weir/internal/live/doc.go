// Package live serves recent traffic and the state of all nodes to the console and to
// `weir top`.
//
//	l, err := live.New(live.Config{Exchange: x, Recorder: r, Policies: policies})
//	…
//	go l.Run(ctx)
//	mux.HandleFunc("GET /v1/overview", l.Overview)
//	mux.HandleFunc("GET /v1/events", l.Events)
//
// # Numbers
//
// Counters are the sum of all nodes of the store. If Redis is unavailable, they are those of
// this node, and the field problem of each response says so. Nodes follow each other all the
// time, so the first chart has the last ten minutes. In a store with more than MaxFollowed
// nodes it begins when the console is opened.
//
// # Stream
//
// Events is a stream of server-sent events. A client that reads too slowly gets the last
// event of each kind. A stream ends after MaxStream, so that a revoked token ends too;
// browsers connect again by themselves.
//
// # Bounds
//
// There are at most MaxClients streams with MaxTopics policies each. Samples of keys are
// merged at most once in two seconds for each of MaxSamples policies.
//
// # Concurrency
//
// A Live is safe for concurrent use.
package live
