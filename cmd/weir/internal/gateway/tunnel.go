package gateway

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"time"
)

// upgradeAllowed reports whether a connection may switch to the protocols of an Upgrade
// field. The gateway limits requests, so it refuses protocols that carry more of them:
// requests of HTTP/2 inside the connection would bypass the limits.
func upgradeAllowed(upgrade []string) bool {
	for _, line := range upgrade {
		for protocol := range strings.SplitSeq(line, ",") {
			name, _, _ := strings.Cut(strings.ToLower(strings.Trim(protocol, " \t")), "/")
			switch name {
			case "http", "h2", "h2c", "h3", "tls":
				return false
			}
		}
	}
	return len(upgrade) > 0
}

// An upgradeWriter returns hijacked connections that end some time after their upstream
// has ended. Flush and deadlines reach the connection through Unwrap.
type upgradeWriter struct {
	http.ResponseWriter
	linger time.Duration
}

// Hijack implements [http.Hijacker].
func (t *upgradeWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(t.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &upgradedConn{conn, t.linger}, rw, nil
}

// Unwrap supports [http.ResponseController].
func (t *upgradeWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// An upgradedConn is the client's end of an upgraded connection.
type upgradedConn struct {
	net.Conn
	linger time.Duration
}

// CloseWrite runs when the upstream has sent its last byte. The client may finish what it
// sends, but a silent client cannot hold the connection, and with it a slot of a limit.
func (t *upgradedConn) CloseWrite() error {
	t.SetReadDeadline(time.Now().Add(t.linger))
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Close()
}
