// Package transport paces the requests of a client: an http.RoundTripper that sends no
// more than limits allow, and leaves a server alone for as long as it asks to be.
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
//		// the server was not asked
//	}
//
// # Guarantees
//
// A request is sent after every limit has been charged for it, all or none, and at no
// other time. What goes over the wire again is charged again: redirects, retries, and
// what an http.Transport repeats because a connection that it had kept broke before the
// answer. So a server that can be reached only through transports of one budget never
// sees more requests than its limits admit, however many processes there are, and
// whatever dies. Requests that were charged and not sent, because a process ended in
// between, are lost to the budget.
//
// What a limit admits is what its algorithm says. For never more than N in a day of the
// server's calendar, write "N/day calendar ZONE"; in any 24 hours, "N/24h sliding_log".
// A token bucket, "N/24h", gives N at once and N more in the course of the day. A store
// that forgets what it was told begins anew: a Redis that holds such a budget keeps its
// data, with appendfsync always if a crash is not to forget the last calls.
//
// If the store makes no decision, nothing is sent unless Config.OnStoreError is
// policy.Open: what is limited here is mostly paid for.
//
// # What a server asks for
//
// A Retry-After of a 429 or 503, and RateLimit fields that say that nothing is left,
// hold back every later request of the same key: see [Told] for the forms. This is
// known to one Transport, not to those of other processes. What is left above zero is
// not counted down: requests that are under way together may go beyond it and be
// refused.
//
// A server is not trusted. It holds back its own key alone, for at most
// Config.MaxHold; Config.MaxHeld keys are remembered; fields that are malformed or
// longer than 8 KiB are as if absent.
//
// # Waiting
//
// A request that may not go waits for at most Config.MaxWait, and never beyond the
// deadline of its context; as soon as it is plain that this will not do it is denied.
// Requests of one key wait in the order in which they came.
//
// # Errors
//
// A request that may not be sent gets a *[Denied]. One that could not be decided gets an
// error that wraps [ErrUndecided] and the store's. If its context ends while it waits,
// the error is the cause. Its body is closed in every case. An http.Client wraps errors
// in a *url.Error, through which errors.Is and errors.As see.
//
// # Concurrency
//
// A Transport is safe for concurrent use, starts no goroutine and needs no closing.
package transport
