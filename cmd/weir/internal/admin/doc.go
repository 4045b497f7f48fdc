// Package admin serves the admin interface for operators: routes with a role each, the
// console, and profiles.
//
//	a, err := admin.New(admin.Config{Routes: []admin.Route{
//		{Pattern: "GET /metrics", Summary: "metrics for Prometheus", Role: access.Read, Handler: m.Handler()},
//	}})
//	…
//	http.ListenAndServe("127.0.0.1:9090", a)
//
// GET / lists the paths. Browsers get the console there.
//
// # Guarantees
//
// If there is a token, every route requires it, except those with the role Public. The
// token is compared in constant time. Each address may send ten wrong tokens per minute; an
// IPv6 address counts as its /64. Beyond that, the right token is refused too.
//
// A client sends the token as "Authorization: Bearer TOKEN", or as the password of Basic
// authentication with any user.
//
// A web page of another origin gets no response and no CORS fields; it may link to a page,
// but not frame it. Without a token, requests must name an address or localhost as their
// host, which excludes DNS rebinding. GET changes nothing.
//
// A profile lasts at most a minute. The command line, which may contain a password, is not
// served.
//
// # Errors
//
// Every error is a problem document (RFC 9457).
package admin
