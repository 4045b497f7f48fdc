// Package load is a crowd of buyers: it drives a shop over HTTP, counts what every one of
// them was told, and measures how long that took and what it cost.
//
//	r, err := load.Run(ctx, load.Config{
//		URL: "http://127.0.0.1:8088", Sale: id, Profile: load.Open, Users: 100_000,
//		Session: func(user string) string { return keys.Session(pass.Session{User: user, Expires: later}) },
//	})
//	…
//	fmt.Print(r.Text())
//
// # What is measured
//
// Users are open loop: each is due when the sale opens, or in turn over Config.Over, and again when the server said to
// ask again, whatever became of the others. They are carried by a fixed number of
// connections, one request at a time on each, as a reverse proxy would carry them; who was
// answered before goes before who has asked nothing yet, as with connections of their own. So
// there are two latencies. Latency is that of a request from its first byte written to the last
// byte of its answer read: what the server took, and the network. Due is counted from the
// moment at which the user was due: it has the wait for a free connection too, which under
// an open sale is most of it, since a whole crowd is due at once. The soldout profile is
// closed loop: a connection asks again when it has its answer, and has no Due.
//
// The crowd runs on the machine of the server, mostly. Its own share of the processor time
// is a part of each Result, and so is what machine it was and how large requests and
// answers were: a number of requests per second says nothing without them.
//
// # Bounds
//
// A Run ends when every user knows the end, or at Config.Duration, or after
// Config.Requests. It goes to loopback addresses alone unless Config.Anywhere is set.
package load
