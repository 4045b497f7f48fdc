package plainhttp

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"time"

	"github.com/floodweir/weir/internal/plainhttp"
)

// defaultWatchAfter is the default of Config.WatchAfter.
const defaultWatchAfter = 20 * time.Millisecond

// Config configures a Listener. The zero value works.
type Config struct {
	// WatchAfter is the time from which a disconnect of the client ends the context of a
	// request: 20 ms if it is not positive. Detecting it costs a goroutine for each request
	// that takes longer. Use a longer time where requests often wait, and complete anyway.
	WatchAfter time.Duration
}

// Listener serves plain requests on the connections that it accepts. Accept returns the other
// connections, for an http.Server.
type Listener struct {
	net.Listener
	inner *plainhttp.Listener
}

// Listen returns a Listener for s, whose Handler, ReadHeaderTimeout, WriteTimeout, IdleTimeout,
// BaseContext and ErrorLog it uses. The caller passes the Listener to s.Serve, and calls Shutdown
// after s.Shutdown.
func Listen(s *http.Server, l net.Listener, c Config) *Listener {
	inner := plainhttp.Listen(s, l, cmp.Or(max(0, c.WatchAfter), defaultWatchAfter))
	return &Listener{Listener: inner, inner: inner}
}

// Shutdown closes the Listener and waits for the plain requests in flight. When ctx ends, it closes
// their connections and returns its error.
func (l *Listener) Shutdown(ctx context.Context) error { return l.inner.Shutdown(ctx) }
