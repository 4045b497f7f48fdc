// Package admin serves the admin interface for operators: metrics, policies in force,
// explanations of decisions, and profiles.
//
//	a, err := admin.New(admin.Config{Metrics: m.Handler()})
//	…
//	http.ListenAndServe("127.0.0.1:9090", a)
//
// GET / lists the paths.
//
// # Guarantees
//
// If there is a token, every path requires it, except /healthz and /readyz. Without the
// token, the latter leaves out details. The token is compared in constant time. Each address may send ten wrong tokens per minute; an IPv6 address counts
// as its /64. Beyond that, the right token is refused too.
//
// A client sends the token as "Authorization: Bearer TOKEN", or as the password of Basic
// authentication with any user, for browsers.
//
// A web page of another origin gets no response and no CORS fields. Without a token,
// requests must name an address or localhost as their host, which excludes DNS rebinding.
// No path changes anything, and every path except /v1/explain accepts only GET and HEAD.
//
// A profile lasts at most a minute. The command line, which may contain a password, is not
// served.
//
// # Errors
//
// Every error is a problem document (RFC 9457).
package admin
