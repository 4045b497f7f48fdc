package gateway

import (
	"bufio"
	"net"
	"net/http"
	"strings"
	"time"
)

// switchable reports whether a connection may go over to what the lines of an Upgrade
// name. A gateway judges requests, so it hands over to nothing that carries more of
// them: HTTP/2 in such a tunnel would reach the upstream past every limit.
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

// A tunneler gives out connections that end some time after their upstream has.
// Flush and deadlines reach the connection through Unwrap.
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

// Unwrap serves [http.ResponseController].
func (t *upgradeWriter) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// A tunnel is the client's end of an upgraded connection.
type upgradedConn struct {
	net.Conn
	linger time.Duration
}

// CloseWrite is called when the upstream has said its last. The client may finish
// what it sends, but it does not hold the connection, and a slot of a limit with it,
// by keeping still.
func (t *upgradedConn) CloseWrite() error {
	t.SetReadDeadline(time.Now().Add(t.linger))
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Close()
}
