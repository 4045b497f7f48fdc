// Package respd is the door for clients of Redis: it answers CL.THROTTLE as the
// module redis-cell does, and as many other commands as clients send on their way to
// it.
//
//	s, err := respd.New(respd.Config{Store: store, Log: log})
//	…
//	l, err := net.Listen("tcp", "127.0.0.1:6380")
//	…
//	go s.Serve(l)
//	defer s.Close()
//
// CL.THROTTLE key max_burst count period [quantity] is a question about the key
// under the limit "count per period seconds, burst max_burst+1", so that whoever asks
// another door about the same key and limit shares the tokens. What the reply means,
// and where it differs from redis-cell's, stands in docs/redis-cell.md.
//
// # Guarantees
//
// Replies come in the order of the commands. Commands of one pipeline that ask about
// the same key are decided in their order; about different keys, at the same time if
// the store is not in this process.
//
// What a client may cost is bounded before it is understood: the number and length of
// arguments, the bytes of a command, those of all unfinished commands together, the
// number of connections, the time for a command and between commands, and the time in
// which a reply has to be read. An announced length allocates nothing.
//
// # Errors
//
// Errors of CL.THROTTLE have redis-cell's words, without a code before them. Other
// errors have Redis's. What is no RESP is answered by a protocol error and the end of
// the connection.
//
// # Concurrency
//
// A Server is safe for concurrent use and may serve several listeners.
package respd
