package run

import (
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/metrics"
	"github.com/floodweir/weir/internal/socket"
)

// mostConnections is the default maximum of connections of a listener.
const mostConnections = 10_000

// defaultConnections returns the default maximum of connections of a listener, for a process
// that can open so many files. Five listeners share them, and each connection of the gateway
// may need a second one to its upstream.
func defaultConnections(files uint64) int {
	const reserved, parts = 256, 6
	return int(min(mostConnections, (max(files, 2*reserved)-reserved)/parts))
}

// A limitedListener closes connections beyond max at once. It counts those that are open.
type limitedListener struct {
	net.Listener
	name    string // of the interface
	max     int64  // 0: the server refuses connections itself
	metrics *metrics.Metrics
	log     *slog.Logger

	open   atomic.Int64
	logged time.Time // the last refusal in the log; only Accept uses it
}

// refusalInterval is the minimum time between two lines about refused connections.
const refusalInterval = 10 * time.Second

// Accept returns the next connection within max.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if open := l.open.Add(1); l.max == 0 || open <= l.max {
			l.metrics.Connected(l.name, 1)
			return &countedConn{TCPConn: nc.(*net.TCPConn), socket: socket.New(nc), ended: func() {
				l.open.Add(-1)
				l.metrics.Connected(l.name, -1)
			}}, nil
		}
		l.open.Add(-1)
		nc.Close()
		l.metrics.ConnectionRefused(l.name)
		if now := time.Now(); now.Sub(l.logged) >= refusalInterval {
			l.logged = now
			l.log.Warn("too many connections: new ones are closed", "interface", l.name, "max", l.max)
		}
	}
}

// A countedConn calls ended when it is closed. It keeps the methods of a TCP connection,
// which HTTP servers use to copy and to half-close.
type countedConn struct {
	*net.TCPConn
	socket *socket.Conn // of TCPConn
	once   sync.Once
	ended  func()
}

// Read implements [io.Reader].
func (c *countedConn) Read(p []byte) (int, error) { return c.socket.Read(p) }

// Write implements [io.Writer].
func (c *countedConn) Write(p []byte) (int, error) { return c.socket.Write(p) }

// Close closes the connection.
func (c *countedConn) Close() error {
	c.once.Do(c.ended)
	return c.TCPConn.Close()
}
