package storeconn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/floodweir/weir/cmd/weir/internal/setup"
	"github.com/floodweir/weir/redisstore"
)

// diagnoseTimeout bounds the search for the cause of a failed connection.
const diagnoseTimeout = time.Second

// diagnose returns a setup.Error for err if only one side uses TLS, or if Redis refuses the
// client certificate. Such a connection hangs or is closed, so its error names no cause.
// Otherwise it returns err.
func diagnose(ctx context.Context, err error, a redisstore.Address) error {
	var known *setup.Error
	if err == nil || errors.As(err, &known) || a.Topology == redisstore.Sentinel {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, diagnoseTimeout)
	defer cancel()
	conn, failed := new(net.Dialer).DialContext(ctx, "tcp", a.Hosts[0])
	if failed != nil {
		return err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(diagnoseTimeout))
	switch {
	case a.TLS != nil && speaksPlain(conn):
		return plainPort()
	case a.TLS == nil && speaksTLS(ctx, conn):
		return tlsPort()
	case a.TLS != nil:
		if alert := refusal(ctx, a); errors.As(alert, &known) {
			return alert
		}
	}
	return err
}

// refusal returns the error with which a server ends a TLS connection before the first
// command. A client that writes may miss it.
func refusal(ctx context.Context, a redisstore.Address) error {
	conn, err := (&tls.Dialer{Config: a.TLS}).DialContext(ctx, "tcp", a.Hosts[0])
	if err == nil {
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(diagnoseTimeout / 4))
		var first [1]byte
		_, err = conn.Read(first[:])
	}
	return explain(err, a)
}

// speaksPlain reports whether a server answers a command of the Redis protocol.
func speaksPlain(conn net.Conn) bool {
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	var first [1]byte
	_, err := conn.Read(first[:])
	return err == nil && (first[0] == '+' || first[0] == '-')
}

// speaksTLS reports whether a server answers a TLS handshake. The connection is not used,
// so any certificate will do.
func speaksTLS(ctx context.Context, conn net.Conn) bool {
	err := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx)
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert)
}
