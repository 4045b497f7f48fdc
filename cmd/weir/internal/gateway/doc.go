// Package gateway is a reverse proxy that limits requests in front of upstreams.
//
// A request is first limited, then routed by host and path, then forwarded. Bodies and
// responses are streamed, with trailers. HTTP/1.1, HTTP/2, WebSocket and other protocols
// that begin with an Upgrade are supported. An Upgrade to another version of HTTP or to
// TLS is not forwarded: requests inside the connection would bypass the limits.
//
// # Headers
//
// Hop-by-hop fields are removed. X-Forwarded-For, -Host and -Proto describe the client
// connection to the upstream. Values of these fields, of Forwarded and of X-Real-Ip in a
// request are forwarded only from a trusted proxy. Of X-Forwarded-For and Forwarded only
// the one in the configuration is forwarded. Response fields of the limits replace those
// of the upstream with the same name.
//
// # Errors
//
// The status is 502 for an upstream that cannot be reached, and 504 for one that sends no
// response within its timeout. It is 408 for a body that pauses for as long, and 413 for a
// body that is too large. The problem document has no internal details. A client that accepts
// nothing of its response for a minute is disconnected. The log names the route and the
// upstream, at most once per second for each.
package gateway
