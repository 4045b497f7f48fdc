// Package accesslog reads the logs of HTTP servers for `weir replay` and `weir suggest`.
//
//	r, err := accesslog.NewReader("access.log", file, accesslog.Config{})
//	for r.Next(&e) {
//		…
//	}
//	err = r.Err()
//
// It reads combined, common and custom formats of nginx and Apache, and the default format of
// Envoy. It also reads JSON lines of Caddy, Traefik and others, the decision log of Weir, and
// CSV. Gzip is detected. The first lines select the format.
//
// # Time
//
// [Entry.At] is the arrival of a request. Formats that log its end, such as those of nginx with
// $msec, are converted if the duration is in the line. [Sorter] restores the order.
//
// # Errors
//
// A line that does not have the format is counted in [Stats] and left out. An error means that
// the log cannot be read, or that no format fits its first lines.
package accesslog
