// Package storeconn connects the program to Redis or PostgreSQL: at the start, after an outage, and when
// a password or a certificate changes.
//
//	conn, err := storeconn.Open(ctx, storeconn.Config{URL: "redis://127.0.0.1:6379"})
//	…
//	defer conn.Close()
//	decision, err := conn.Do(ctx, request) // a weir.Store
//
// # Errors
//
// A [setup.Error] is a problem that remains until the configuration of the program or of
// Redis changes. Examples are a wrong password, a missing permission, TLS on one side only, a
// replica and eviction. It names what to change. Open fails with it at once. If Redis does not respond,
// Open tries again for StartWait. With Config.StartDegraded it does neither, and the
// connection is repeated in the background.
//
// # Concurrency
//
// A Conn is safe for concurrent use. Reload replaces the connection without an error for
// the decisions in progress.
package storeconn
