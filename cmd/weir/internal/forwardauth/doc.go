// Package forwardauth decides the requests of proxies that ask before they forward one:
// nginx with auth_request, Traefik with ForwardAuth, Caddy with forward_auth.
//
//	limit, err := httplimit.New(store, set, httplimit.Config{NoResponse: true})
//	…
//	auth, err := forwardauth.New(forwardauth.Config{Limit: limit.Wrap})
//	…
//	mux.Handle("/v1/auth", auth)
//
// The proxy describes its client's request in header fields:
//
//   - the method in X-Forwarded-Method or X-Original-Method;
//   - path and query in X-Forwarded-Uri or X-Original-URI, or with scheme and host in
//     X-Original-URL;
//   - the host in X-Forwarded-Host;
//   - the client's address in X-Forwarded-For or Forwarded.
//
// All other fields are those of the client. From these the handler builds the request that
// a gateway in place of the proxy would have read, so both use the same bucket.
//
// The status is 200 for an admitted request, with the RateLimit fields. For a denied one
// it is the status of the policy, by default 429 with Retry-After; a status below 300
// becomes 429.
//
// With ?denied=403 or ?denied=401 every denial has that status, because nginx treats all
// others as errors. The field Weir-Status then holds the original status. The response has
// no body, because nginx does not read it and would close the connection.
//
// # Guarantees
//
// An invalid request is never admitted: one without method or URI, with a method, URI or
// address that a server would refuse, or with two fields that contradict each other. Its
// status is 400, whatever ?denied says, with a problem document that names the field, its
// value and the accepted values.
//
// An untrusted peer is refused. Otherwise clients could claim any address, and all clients
// of an unknown proxy would share one bucket. By default, peers on the same machine are
// trusted, because only they can reach the default address. The client is the last address
// that they name, even if it is on this machine.
//
// A slot of a concurrency limit is released with this response, not at the end of the
// client's request. Use an interface that sees responses for such limits.
package forwardauth
