// Package forwardauth answers proxies that ask of every request, before they pass it
// on, whether it may go through: nginx with auth_request, Traefik with ForwardAuth,
// Caddy with forward_auth.
//
//	limit, err := httplimit.New(store, set, httplimit.Config{NoResponse: true})
//	…
//	auth, err := forwardauth.New(forwardauth.Config{Limit: limit.Wrap})
//	…
//	mux.Handle("/v1/auth", auth)
//
// The proxy says in header fields what its client asked for: the method in
// X-Forwarded-Method or X-Original-Method, path and query in X-Forwarded-Uri,
// X-Original-URI or (with scheme and host) X-Original-URL, the host in
// X-Forwarded-Host, and the client's address in X-Forwarded-For or Forwarded. All
// other fields are the client's own. From these the very request is made that a
// gateway in the proxy's place would have read, so that both draw from one bucket.
//
// The answer to a request that may go through is 200, with the RateLimit fields. The
// answer to one that may not is what the policy says, by default 429 with Retry-After;
// a policy that denies with a status below 300 denies with 429 here. With ?denied=403
// or ?denied=401 every refusal has that status, for nginx, which takes all others for
// an error of its own; the field Weir-Status has the one that it stands for. It has no
// body: nginx reads none, and closes a connection on which one is left.
//
// # Guarantees
//
// What is not understood is never let through: no method or URI, ones that a server
// would refuse, two fields that contradict each other, an address that is none. It is
// answered with 400 and a problem that names the field, its value and what was
// expected, whatever ?denied says.
//
// Who is not trusted is refused, or its clients could say that they are others, and
// all those behind a proxy that is not known would be limited as one. Without a
// configuration, peers on the same machine are trusted, as they are the only ones that
// reach a door on its default address; and the address they name last is the client,
// be it even of this machine.
//
// A slot of a concurrency limit ends with the answer here, not with the request: such
// limits need a door that sees responses.
package forwardauth
