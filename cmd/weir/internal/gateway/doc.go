// Package gateway is a reverse proxy that puts a limit in front of upstreams.
//
// A request is limited first, once, then routed by host and path, then passed on
// with its body and its answer streamed both ways. HTTP/1.1, HTTP/2, WebSocket
// and any other protocol that begins with an Upgrade go through; trailers too. An
// Upgrade to another version of HTTP or to TLS is not passed on: requests inside it
// would reach the upstream past the limits.
//
// # Headers
//
// Hop-by-hop headers stop here. X-Forwarded-For, -Host and -Proto tell the
// upstream what this gateway saw. What a request says itself in them, in Forwarded
// or in X-Real-Ip is passed on from a trusted proxy alone, and of X-Forwarded-For
// and Forwarded only the one that the configuration names. What the limits say
// in an answer stands in the place of what the upstream says under the same name.
//
// # Errors
//
// An upstream that cannot be reached is answered with 502, one that stays silent
// for longer than its timeout with 504, a body that stops for as long with 408,
// one that is too large with 413: each a problem document that tells the client
// nothing about the inside. A client that takes nothing of its answer for a minute
// is cut off. The log names the route and the upstream, at most once a second for
// each.
package gateway
