// Package plainhttp lets an http.Server answer plain HTTP/1.1 requests with about half of the CPU.
//
//	server := &http.Server{Handler: handler}
//	listener := plainhttp.Listen(server, l, plainhttp.Config{})
//	err := server.Serve(listener)
//
// A plain request is HTTP/1.1 without TLS, has the usual form, and arrives with its whole body, in
// at most 16 KiB. It is answered on the goroutine of its connection. A connection with any other
// request continues at the http.Server, with all bytes from the begin of that request.
//
// # Guarantees
//
// A handler and a client observe the same as with the http.Server alone, except:
//
//   - The context of a request that takes less than Config.WatchAfter does not end when its
//     client disconnects.
//   - A handler cannot take over the connection: the ResponseWriter is no http.Hijacker.
//     Requests for an upgrade are not plain.
//   - The preface of HTTP/2 behind another request ends the connection.
//   - A map that Header returned before package httplimit denies a request lacks the fields of the
//     denial, which Header then returns.
//   - Idle timeouts and write deadlines may end up to a second later.
//   - ConnState and ConnContext of the http.Server do not apply.
//
// # Concurrency
//
// All methods of a Listener are safe for concurrent use.
package plainhttp
