// Package plainhttp serves plain HTTP/1.1 requests on the goroutine of their connection, and
// passes all other connections to an http.Server.
//
// A plain request is HTTP/1.1 without TLS, has the usual form, and arrives with its whole body, in at
// most 16 KiB. Every other request belongs to the http.Server: another version, a target that is no
// path, a field about the connection, a byte that is unusual in its place. The connection then
// continues there, with all bytes from the begin of the request. So one parser decides about
// requests that are invalid, or that two servers could read differently.
//
// # Guarantees
//
// A handler and a client observe the same as with the http.Server alone, except:
//
//   - The context of a request that takes a short time does not end when its client disconnects. The http.Server starts a goroutine for every request to detect that.
//   - A handler cannot take over the connection: the ResponseWriter is no http.Hijacker. Requests
//     for an upgrade are not plain.
//   - The preface of HTTP/2 behind another request ends the connection.
//   - A map that Header returned before package httplimit denies a request lacks the fields of the
//     denial, which Header then returns.
//   - Idle timeouts and write deadlines may end up to a second later.
//
// # Concurrency
//
// All methods of a Listener are safe for concurrent use.
package plainhttp
