// Package load generates load on a shop over HTTP: it simulates users, counts the responses
// that each of them receives, and measures latency and resource use.
//
//	r, err := load.Run(ctx, load.Config{
//		URL: "http://127.0.0.1:8088", Sale: id, Profile: load.Open, Users: 100_000,
//		Session: func(user string) string { return keys.Session(pass.Session{User: user, Expires: later}) },
//	})
//	…
//	fmt.Print(r.Text())
//
// # Measurements
//
// Users are an open loop: each is due at the start, or at its time within Config.Over, and
// then whenever the server said to poll again, independently of the others. A fixed number of
// connections carries them, one request at a time on each, as a reverse proxy would. A user
// with an earlier response goes before a user without one.
//
// Therefore there are two latencies. Latency counts from the first byte of a request to the
// last byte of its response: the server and the network. Due counts from the time at which
// the user was due. It includes the wait for a free connection, which is most of it when
// all users arrive at once. The soldout profile is a closed loop: a connection sends its next
// request after each response, and has no Due.
//
// The generator mostly runs on the machine of the server. A Result has the generator's share
// of the CPU, the machine, and the size of requests and responses: a rate means nothing
// without them.
//
// # Limits
//
// A Run ends when every user has a final response, at Config.Duration, or after
// Config.Requests. It connects only to loopback addresses unless Config.Anywhere is set.
package load
