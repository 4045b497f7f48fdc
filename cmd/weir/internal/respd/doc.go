// Package respd serves redis-cell clients: it answers CL.THROTTLE as the Redis module
// redis-cell does, and the other commands that clients send around it.
//
//	s, err := respd.New(respd.Config{Store: store, Log: log})
//	…
//	l, err := net.Listen("tcp", "127.0.0.1:6380")
//	…
//	go s.Serve(l)
//	defer s.Close()
//
// CL.THROTTLE key max_burst count period [quantity] requests tokens of key under the
// limit "count per period seconds, burst max_burst+1". The same key and limit on another
// interface use the same bucket. docs/redis-cell.md describes the reply and the
// differences from redis-cell.
//
// # Guarantees
//
// Replies come in the order of the commands. Commands of one pipeline about the same key
// are decided in their order. If the store is not in this process, commands about
// different keys are decided in parallel.
//
// The cost of a client is bounded before its command is parsed. The bounds cover the
// number and length of arguments, the bytes of a command and of all incomplete commands
// together, and the number of connections. Timeouts bound a command, the time between
// commands, and the time to read a reply. An announced length allocates nothing.
//
// # Errors
//
// Errors of CL.THROTTLE have redis-cell's text, without an error code. Other errors have
// Redis's text. Bytes that are not RESP are answered by a protocol error, and the
// connection is closed.
//
// # Concurrency
//
// A Server is safe for concurrent use and may serve several listeners.
package respd
