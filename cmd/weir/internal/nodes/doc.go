// Package nodes exchanges the state of the nodes of one store through Redis, so that each
// node can show all of them.
//
//	x, err := nodes.New(nodes.Config{Conn: conn, Name: host, State: state, Snapshot: snapshot})
//	…
//	go x.Run(ctx)
//	list := x.Read(ctx)
//
// Every node publishes one record per second: its identity, its state and the payload of
// Config.Snapshot. The payload of Config.Details is published every DetailsEvery, and only
// while a node has called Want for its topic. Payloads are opaque here.
//
// Nodes read the records of other nodes only in Read and Details, so a console that is
// closed costs one command per node and second.
//
// # In Redis
//
// All keys share the hash tag {nodes}:
//
//   - weir:1:{nodes}: a sorted set of the identities of nodes in JSON, by the instant of
//     their last record in ms of the server's clock;
//   - weir:1:{nodes}:ID: the record of a node, a line of JSON and the payload, with TTL;
//   - weir:1:{nodes}:ID:TOPIC: a payload of Config.Details, with WantTTL;
//   - weir:1:{nodes}:seed: a number that the nodes agree on;
//   - weir:1:{nodes}:wanted: a sorted set of topics, by the instant at which they end.
//
// # Concurrency
//
// An Exchange is safe for concurrent use.
package nodes
