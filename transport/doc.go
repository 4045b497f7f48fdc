// Package transport limits outgoing HTTP requests: an http.RoundTripper that sends no more than
// limits allow, and pauses when a server asks for it.
//
//	t, err := transport.New(transport.Config{
//		Store:   store, // in Redis, one budget for all replicas
//		Limits:  []weir.Limit{weir.MustLimit("10/s"), weir.MustLimit("5000/day calendar UTC")},
//		MaxWait: 2 * time.Second,
//	})
//	…
//	client := &http.Client{Transport: t}
//	resp, err := client.Get("https://api.example.com/v1/quote")
//	if errors.Is(err, transport.ErrDenied) {
//		// nothing was sent
//	}
//
// # Guarantees
//
// A request is sent only after every limit has been charged for it, all or none. Each
// transmission is charged: redirects, retries, and requests that an http.Transport
// repeats because a kept connection broke before the response. So a server that is called only
// through transports of one budget never receives more requests than its limits admit, for any
// number of processes and crashes. A request that was charged when its process ended is lost
// to the budget.
//
// The algorithm of a limit decides what it admits. For at most N per day of the server's
// calendar, write "N/day calendar ZONE"; for at most N in any 24 hours, "N/24h sliding_log". A
// token bucket, "N/24h", admits N at once and N more in the course of the day. A store that
// loses its data starts again with full limits. A Redis that holds such a budget needs
// persistence, with appendfsync always if a crash must not lose the last calls.
//
// If the store makes no decision, Config.OnStoreError decides. By default, policy.Local, the
// limits in the memory of this process do. policy.Open sends the request, and policy.Closed fails
// it.
//
// # Pauses that servers ask for
//
// A Retry-After of a 429 or 503, and RateLimit fields with nothing remaining, hold back every
// later request of the same key: see [RetryAfter] for the forms. Each Transport records pauses
// for itself; other processes do not see them. A remaining quota above zero is not counted
// down: requests that are in flight together may exceed it and be denied by the server.
//
// A server is not trusted. It can pause only its own key, for at most Config.MaxPause;
// Config.MaxPausedKeys are recorded; fields that are malformed or longer than 8 KiB are
// ignored.
//
// # Waiting
//
// A request waits for at most Config.MaxWait, and never beyond the deadline of its context. It
// is denied as soon as it is certain that the wait would be longer. Requests of one key wait
// in the order in which they arrived.
//
// # Errors
//
// A denied request returns a *[Denied]. If the store makes no decision, the error wraps
// [ErrUndecided] and the store's. If the request's context ends while it waits, the error is
// the cause. The request's body is closed in every case. An http.Client wraps errors in a
// *url.Error, through which errors.Is and errors.As see.
//
// # Concurrency
//
// A Transport is safe for concurrent use, starts no goroutine and needs no closing.
package transport
